package main

import (
	"errors"
	"fmt"
	"math"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/kit/hostile"
)

// A batch that no client can read is refused, unless a test asks for a broker that does not look.
func TestBatchesAreChecked(t *testing.T) {
	now := time.Now().UnixMilli()
	bomb, err := hostile.Bomb(now, 900<<20, kgo.CodecZstd)
	kit.Must(t, err)
	short := hostile.New(now, []byte("one"), []byte("two"))
	short.Records = short.Records[:len(short.Records)-1]
	elsewhere := hostile.New(now, nil)
	elsewhere.Records = hostile.Record(7, []byte("one"))
	timed := hostile.New(now, []byte("one"))
	timed.Attributes |= 8
	wrong := hostile.New(now, []byte("one")).Encode()
	wrong[len(wrong)-2]++
	batches := []struct {
		name    string
		raw     []byte
		refused error
		always  bool
	}{
		{"good", hostile.New(now, []byte("one"), []byte("two")).Encode(), nil, true},
		{"bomb", bomb.Encode(), kerr.InvalidRecord, false},
		{"bomb of headers", hostile.Headers(now, 200_000).Encode(), kerr.InvalidRecord, false},
		{"garbage", hostile.Garbage(now).Encode(), kerr.InvalidRecord, false},
		{"claim", hostile.Claim(now, math.MaxInt32).Encode(), kerr.InvalidRecord, false},
		{"short", short.Encode(), kerr.InvalidRecord, false},
		{"elsewhere", elsewhere.Encode(), kerr.InvalidRecord, false},
		{"time of the broker", timed.Encode(), kerr.InvalidTimestamp, true},
		{"checksum", wrong, kerr.CorruptMessage, true},
	}

	for _, checks := range []bool{true, false} {
		t.Run(fmt.Sprintf("BROKER_CHECK_BATCHES=%t", checks), func(t *testing.T) {
			b := newBroker(t)
			b.env = []string{fmt.Sprintf("BROKER_CHECK_BATCHES=%t", checks)}
			b.start()
			b.createTopic("topic", 2)
			client := b.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))

			for _, batch := range batches {
				want := batch.refused
				if !checks && !batch.always {
					want = nil
				}

				if _, err := hostile.Produce(t.Context(), client, "topic", 0, batch.raw); !errors.Is(err, want) ||
					(err == nil) != (want == nil) {
					t.Errorf("%s: got %v, want %v", batch.name, err, want)
				}

				if err := client.ProduceSync(t.Context(),
					&kgo.Record{Topic: "topic", Partition: 1, Value: []byte("good")}).FirstErr(); err != nil {
					t.Errorf("after %s: %v", batch.name, err)
				}
			}
			b.End(syscall.SIGKILL)
			b.start() // all that was taken can be read
			b.End(syscall.SIGTERM)
		})
	}
}
