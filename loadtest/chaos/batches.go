package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit/hostile"
	"github.com/liquida/liquida/platform/stream"
)

// unreadable is the reason of a dead letter for a batch that no client can read.
const unreadable = "LQ08"

// bombBytes is what a bomb unpacks to.
const bombBytes = 900 << 20

// dropBomb writes a batch that unpacks to far more than a client may hold.
func dropBomb(ctx context.Context, w *world, f *fault) error {
	bomb, err := hostile.Bomb(time.Now().UnixMilli(), bombBytes, kgo.CodecZstd)
	if err != nil {
		return err
	}
	return plant(ctx, w, f, bomb)
}

// plantUnreadable writes a batch that no client can read.
func plantUnreadable(ctx context.Context, w *world, f *fault) error {
	now := time.Now().UnixMilli()
	elsewhere := hostile.New(now, nil)
	elsewhere.Records = hostile.Record(int32(1+f.random.IntN(1000)), []byte("in the place of others"))             //nolint:gosec // small
	batches := []*hostile.Batch{hostile.Garbage(now), hostile.Claim(now, int32(2+f.random.IntN(1000))), elsewhere} //nolint:gosec // small
	return plant(ctx, w, f, batches[f.random.IntN(len(batches))])
}

// plant writes a batch to one partition of the payments, and of the responses. A broker that
// checks batches refuses it, which is right, too.
func plant(ctx context.Context, w *world, f *fault, batch *hostile.Batch) error {
	client, err := w.Kafka().Client(kgo.ClientID("hostile"))
	if err != nil {
		return err
	}
	defer client.Close()
	w.begin(f)
	defer w.end(f)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second) // the broker may be down by another fault
	defer cancel()
	topics, err := w.admin.ListTopics(ctx, stream.Payments)
	if err != nil || len(topics[stream.Payments].Partitions) == 0 {
		f.Detail = "the broker was away"
		return nil //nolint:nilerr // that is another fault
	}
	partition := int32(f.random.IntN(len(topics[stream.Payments].Partitions))) //nolint:gosec // few
	f.Target = fmt.Sprintf("partition %d", partition)
	for _, topic := range []string{stream.Payments, stream.AuthorizationResponses} {
		offset, err := hostile.Produce(ctx, client, topic, partition, batch.Encode())
		_, refused := errors.AsType[*kerr.Error](err)
		switch {
		case refused:
			f.Detail += fmt.Sprintf("%s: refused (%v) ", topic, err)
		case err != nil:
			f.Detail += fmt.Sprintf("%s: %v ", topic, err)
		default:
			f.Detail += fmt.Sprintf("%s: offset %d ", topic, offset)
		}
		if topic == stream.Payments {
			w.planted.Add(err)
		}
	}
	return nil
}
