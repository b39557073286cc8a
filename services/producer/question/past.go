package question

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// fillMax is how long the past is read. What was open at its beginning is over then, whether it was met or not.
const fillMax = time.Minute

// fill reads the past for desks that lack it, beside the reading of what is new, until ctx ends. Others are not kept
// waiting, and what both meet is taken once.
func (b *Board) fill(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.unfilled:
		}
		desks := b.all()
		for psp, d := range desks {
			if d.filled.Load() {
				delete(desks, psp)
			}
		}
		if len(desks) == 0 {
			continue
		}
		if err := b.fillFrom(ctx, b.on.Now().Add(-readBack), desks); err != nil && ctx.Err() == nil {
			b.t.Log.Warn("cannot read the open questions of banks that ask now, trying again", zap.Error(err))
			host.Sleep(ctx, time.Second)
			signal(b.unfilled)
		}
	}
}

// fillFrom takes to desks what is in the topics from a time on, up to the present end of the questions.
func (b *Board) fillFrom(ctx context.Context, since time.Time, desks map[pix.ISPB]*desk) error {
	client, err := b.connect("producer-past-questions", since)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	ends, err := admin.ListEndOffsets(ctx, stream.AuthorizationRequests)
	if err == nil {
		err = ends.Error()
	}
	var starts kadm.ListedOffsets
	if err == nil {
		starts, err = admin.ListOffsetsAfterMilli(ctx, since.UnixMilli(), stream.AuthorizationRequests)
	}
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return fmt.Errorf("asking for the offsets of %s: %w", stream.AuthorizationRequests, err)
	}
	ahead := map[int32]int64{} // the offsets to come to
	ends.Each(func(end kadm.ListedOffset) {
		if start, _ := starts.Lookup(end.Topic, end.Partition); start.Offset < end.Offset {
			ahead[end.Partition] = end.Offset
		}
	})
	polling, done := context.WithTimeout(ctx, fillMax)
	defer done()
	for len(ahead) > 0 && polling.Err() == nil {
		fetches := client.PollFetches(polling)
		b.takeAll(&fetches, func(psp pix.ISPB) *desk { return desks[psp] })
		fetches.EachRecord(func(record *kgo.Record) {
			if end, wanted := ahead[record.Partition]; wanted && record.Topic == stream.AuthorizationRequests && record.Offset+1 >= end {
				delete(ahead, record.Partition)
			}
		})
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, d := range desks {
		d.filled.Store(true)
	}
	return nil
}
