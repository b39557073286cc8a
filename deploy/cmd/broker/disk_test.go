package main

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"golang.org/x/sys/unix"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/settings"
)

// fillDisk repeats work while no file of the broker can grow past 64 KiB. The broker must exit and
// say why. It must not answer with an error and go on.
func (b *broker) fillDisk(work func(ctx context.Context) error) {
	t := b.t
	t.Helper()
	limit := unix.Rlimit{Cur: 64 << 10, Max: unix.RLIM_INFINITY}
	kit.Must(t, unix.Prlimit(b.Process.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil))
	alive, ended := context.WithTimeout(t.Context(), 30*time.Second)
	go func() { <-b.Exited; ended() }()

	var failed error
	for alive.Err() == nil && failed == nil {
		failed = work(alive)
	}

	select {
	case <-b.Exited:
	case <-time.After(30 * time.Second):
		t.Fatalf("the broker lives on with a full disk; it answered %v", failed)
	}

	if code := b.ExitCode(); code != settings.ExitFailure {
		t.Errorf("it ended with exit code %d; want %d", code, settings.ExitFailure)
	}

	if want := "BROKER_DATA_DIR " + b.dir; !strings.Contains(b.Log(), want) {
		t.Errorf("it said %q; want %q in it", b.Log(), want)
	}
}

// The offsets that were acknowledged before the disk was full are still there when there is space again. For records
// TestBrokerDiskFull shows it.
func TestFullDisk(t *testing.T) {
	b := newBroker(t)
	b.start()
	b.createTopic("payments", 1)
	admin := kadm.NewClient(b.client())
	acknowledged := int64(0)
	commit := func(ctx context.Context) error {
		offsets := kadm.Offsets{}
		offsets.Add(kadm.Offset{Topic: "payments", Partition: 0, At: acknowledged + 1, LeaderEpoch: -1,
			Metadata: strings.Repeat("x", 1000)})

		err := admin.CommitAllOffsets(ctx, "engine", offsets)
		if err == nil {
			acknowledged++
		}

		return err
	}
	check := func() {
		t.Helper()
		fetched, err := admin.FetchOffsets(t.Context(), "engine")
		kit.Must(t, err)

		if committed, _ := fetched.Lookup("payments", 0); committed.At != acknowledged {
			t.Errorf("the group's offset is %d, the last one that was acknowledged %d", committed.At, acknowledged)
		}
	}
	b.fillDisk(commit)
	b.start()
	check()
	// Entries behind the unfinished one must be readable, too.
	kit.Must(t, commit(t.Context()))
	b.End(syscall.SIGKILL)
	b.start()
	check()
}
