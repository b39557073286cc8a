package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	streams "github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/web"
)

var errBeyondEnd = errors.New("it is past the end of the settlements: it is of another system, or of data that was removed")

// settlementStream is one open stream of a participant's settlements.
type settlementStream struct {
	*follow
	participant pix.ISPB
	at          position // all before it was sent
	events      *web.EventStream
}

// once brings the stream up to date and follows, until it falls behind (true: go on from
// where it is) or ends.
func (s *settlementStream) once(ctx context.Context) bool {
	live, end := s.settlements.follow(s.participant)
	if live == nil { // since the start of this process the broker has not told the end
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Second):
			return s.events.KeepAlive("") == nil
		}
	}
	defer end()
	if !s.at.reaches(live.from) && !s.catchUp(ctx, live.from) {
		return false
	}
	keepAlive := time.NewTicker(s.config.KeepAlive)
	defer keepAlive.Stop()
	for {
		var err error
		select {
		case r, more := <-live.reports:
			if !more {
				return ctx.Err() == nil
			}
			err = s.send(r)
		case <-keepAlive.C:
			err = s.events.KeepAlive(s.at.cursor())
		case <-ctx.Done():
			return false
		}
		if err != nil {
			return false // the client has gone
		}
	}
}

// send sends a report unless it was sent before.
func (s *settlementStream) send(r report) error {
	if int(r.partition) >= len(s.at) || r.offset < s.at[r.partition] {
		return nil
	}
	s.at[r.partition] = r.offset + 1
	if r.between[0] != s.participant && r.between[1] != s.participant {
		return nil
	}
	return s.events.Send(s.at.cursor(), "settlement", r.body)
}

// catchUp reads the topic itself up to a position. Only so many may at once; others wait
// for their turn.
func (s *settlementStream) catchUp(ctx context.Context, to position) bool {
	keepAlive := time.NewTicker(s.config.KeepAlive)
	defer keepAlive.Stop()
	var number int
	for waiting := true; waiting; {
		select {
		case number = <-s.histories:
			waiting = false
		case <-keepAlive.C:
			if s.events.KeepAlive(s.at.cursor()) != nil {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
	defer func() { s.histories <- number }()
	client, err := streams.Connect(s.settlements.kafka, host.System().Dial, "producer-history-"+strconv.Itoa(number), s.settlements.t,
		kgo.ConsumePartitions(s.at.offsets()),
		kgo.KeepControlRecords(), // so that no offset is left out, and the end is seen
		kgo.FetchMaxBytes(4<<20), kgo.FetchMaxPartitionBytes(1<<20), kgo.MaxConcurrentFetches(1))
	if err != nil {
		s.settlements.t.Log.Error("cannot read past settlements", zap.Error(err))
		return false
	}
	defer client.Close()
	for !s.at.reaches(to) {
		polling, cancel := context.WithTimeout(ctx, s.config.KeepAlive)
		fetches := client.PollRecords(polling, 10_000)
		cancel()
		for _, record := range fetches.Records() {
			if record.Attrs.IsControl() {
				s.at[record.Partition] = max(s.at[record.Partition], record.Offset+1)
				continue
			}
			r, ok := reportOf(record)
			if !ok {
				r = report{partition: record.Partition, offset: record.Offset}
			}
			if s.send(r) != nil {
				return false
			}
		}
		if ctx.Err() != nil || s.events.KeepAlive(s.at.cursor()) != nil {
			return false
		}
	}
	return true
}
