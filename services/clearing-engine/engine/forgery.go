package engine

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
)

// Every forged answer is counted. Only so many are kept as dead letters, which stay for
// ever: a forger must not fill the disk, nor take the room of payments on their way to Kafka.
const (
	forgedPerSecond   = 10
	forgedInFlightMax = 10
)

// forgeries keeps answers that their bank has not sealed.
type forgeries struct {
	engine   *Engine
	second   time.Time
	kept     int // in this second
	inFlight atomic.Int32
}

func (f *forgeries) keep(p *partition, record *kgo.Record, r response) {
	f.engine.metrics.forged.Inc()
	if now := time.Now(); now.Sub(f.second) >= time.Second {
		f.second, f.kept = now, 0
	}
	if f.kept >= forgedPerSecond || f.inFlight.Load() >= forgedInFlightMax {
		return
	}
	f.kept++
	f.inFlight.Add(1)
	f.engine.log.Warn("an answer does not have the seal of the bank that it names: see pix.dead-letters; more are only counted",
		zap.Int32("partition", record.Partition), zap.Int64("offset", record.Offset), zap.String("ispb", string(r.psp[:min(len(r.psp), 16)])))
	f.engine.produce(p.deadLetterRecord(record, &pix.Invalid{Reason: pix.ReasonMalformed, Field: keys.SealHeader,
		Detail: fmt.Sprintf("the answer to %s names bank %.16q and does not have its seal", r.id, r.psp)}), func() { f.inFlight.Add(-1) })
}

// sealOf is the seal that came with a record.
func sealOf(record *kgo.Record) []byte {
	for _, header := range record.Headers {
		if header.Key == keys.SealHeader {
			return header.Value
		}
	}
	return nil
}
