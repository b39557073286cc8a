package submission

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/origin"
)

func TestAnAcknowledgementProvesOnlyWhatComesAfterAllBefore(t *testing.T) {
	type ack struct {
		partition int32
		offset    int64
		err       error
		stored    bool
	}

	at := func(partition int32, offset int64, stored bool) ack { return ack{partition, offset, nil, stored} }
	for name, c := range map[string]struct {
		acks  []ack
		doubt bool
	}{
		"one after the other": {
			[]ack{at(0, 7, true), at(0, 8, true), at(0, 20, true), at(1, 0, true)}, false},
		"a copy":                        {[]ack{at(1, 0, true), at(1, 1, true), at(1, 1, false)}, true},
		"a log that begins anew":        {[]ack{at(1, 5, true), at(1, 0, false)}, true},
		"below what the look saw":       {[]ack{at(0, 6, false)}, true},
		"in doubt nothing counts":       {[]ack{at(0, 6, false), at(1, 9, false)}, true},
		"another topic id":              {[]ack{{0, -1, kerr.UnknownTopicID, false}}, true},
		"a broker that does not answer": {[]ack{{0, -1, kgo.ErrRecordTimeout, false}, at(0, 7, true)}, false},
		"a broker that names no offset": {[]ack{at(1, -1, false)}, true},
		"an error does not move the limit": {
			[]ack{at(1, 0, true), {1, 50, kerr.NotLeaderForPartition, false}, at(1, 1, true)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, w := &Publisher{doubted: make(chan struct{}, 1)}, &writer{acked: map[int32]int64{}}
			p.writer.Store(w)

			for i, ack := range c.acks {
				err := p.stored(w, &map[int32]int64{0: 7},
					&kgo.Record{Partition: ack.partition, Offset: ack.offset}, ack.err)
				if (err == nil) != ack.stored || ack.err != nil && !c.doubt && !errors.Is(err, ack.err) {
					t.Errorf("acknowledgement %d: %v", i, err)
				}
			}

			if doubt := p.wrongLog.Load() != nil; doubt != c.doubt || doubt != (len(p.doubted) == 1) {
				t.Errorf("in doubt: %t, told: %d", doubt, len(p.doubted))
			}
		})
	}
}

func TestAnAcknowledgementOfAWriterThatIsOverProvesNothing(t *testing.T) {
	p, old := &Publisher{doubted: make(chan struct{}, 1)}, &writer{acked: map[int32]int64{}}
	p.writer.Store(&writer{acked: map[int32]int64{}})

	if err := p.stored(old, &map[int32]int64{}, &kgo.Record{}, nil); err == nil {
		t.Error("it counts")
	}
	p.writer.Store(old)
	p.wrongLog.Store(origin.Mismatched(1, "another log"))

	if err := p.stored(old, &map[int32]int64{}, &kgo.Record{}, nil); err == nil {
		t.Error("it counts while the log is wrong")
	}
}
