package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/stream"
)

// addPartition adds one partition to all topics as bootstrap does: to the payments last, when the banks have had
// the time to find the others.
func addPartition(ctx context.Context, w *world, f *fault) error {
	free, err := w.take(ctx, stack.Broker)
	if err != nil {
		return err
	}
	defer free()
	topics, err := w.admin.ListTopics(ctx, stream.Payments)
	if err != nil {
		return err
	}
	want := len(topics[stream.Payments].Partitions) + 1
	f.Target, f.Detail = stream.Payments, fmt.Sprintf("%d partitions", want)
	w.begin(f)
	defer w.end(f)
	for _, topic := range slices.Backward(stream.TopicNames()) {
		if topic == stream.Payments {
			f.hold(ctx, 10*time.Second, 10*time.Second)
		}
		response, err := w.admin.UpdatePartitions(ctx, want, topic)
		if err == nil {
			err = response.Error()
		}
		if err != nil {
			return fmt.Errorf("adding a partition to %s: %w", topic, err)
		}
	}
	return nil
}

// refusesToStart starts a program that must end by itself and say why.
func (w *world) refusesToStart(name, why string) error {
	before, err := os.ReadFile(w.processes.Log(name))
	if err != nil {
		return err
	}
	died, err := w.processes.StartToDie(name)
	if err != nil {
		return err
	}
	select {
	case <-died:
	case <-time.After(diesWithin):
		return errors.Join(fmt.Errorf("%s goes on, and had to say %q", name, why), w.Kill(name))
	}
	after, err := os.ReadFile(w.processes.Log(name))
	if err == nil && !strings.Contains(string(after[min(len(before), len(after)):]), why) {
		err = fmt.Errorf("%s ended without saying %q", name, why)
	}
	return err
}

// damageLog flips a byte or cuts the tail of a log while the embedded broker is down. It must refuse to start,
// and name the log. Then the files come back.
func damageLog(ctx context.Context, w *world, f *fault, name string) error {
	if err := w.Kill(name); err != nil {
		return err
	}
	w.begin(f)
	kept := []string{stream.Payments, stream.Settlements, stream.DeadLetters}
	topic := kept[f.random.IntN(len(kept))]
	segments, err := filepath.Glob(filepath.Join(w.processes.KafkaFolder(), "partitions", topic+"-*", "*.dat"))
	if err != nil || len(segments) == 0 { // not the embedded broker, or nothing is there yet
		return errors.Join(err, w.bring(ctx, f, name))
	}
	segment := segments[f.random.IntN(len(segments))]
	whole, err := os.ReadFile(segment)
	if err != nil {
		return err
	}
	at := f.random.IntN(len(whole)/2 + 1) // at the end there may be what nobody has acknowledged
	damaged := slices.Clone(whole[:at])
	f.Detail = fmt.Sprintf("%s ends at byte %d", segment, at)
	if f.random.IntN(2) == 0 {
		damaged = slices.Clone(whole)
		damaged[at] ^= 1 << f.random.IntN(8)
		f.Detail = fmt.Sprintf("%s has another byte %d", segment, at)
	}
	if err := os.WriteFile(segment, damaged, 0o600); err != nil {
		return err
	}
	problem := w.refusesToStart(name, "BROKER_LOSS_ACCEPTED="+topic+"/")
	if problem != nil {
		problem = fmt.Errorf("%s: %w", f.Detail, problem)
	}
	return errors.Join(problem, os.WriteFile(segment, whole, 0o600), w.bring(ctx, f, name))
}
