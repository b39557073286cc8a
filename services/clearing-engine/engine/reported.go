package engine

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// A partition may have neither a commit of an engine nor a checkpoint: somebody has deleted both. To begin at
// its first record would change no outcome, and would tell all of them again. So the engine finds out what
// was told: a record whose report or dead letter stands in its topic is finished.

// told is what was told about the records of a partition.
type told struct {
	reports [][16]byte    // sorted; of an order and its content
	letters []stream.Span // offsets that have a dead letter
}

// tellingInterval is how often the engine says how far it has read.
const tellingInterval = 5 * time.Second

// reported returns what is finished in a partition, as its reports and dead letters say. It tries until ctx
// ends, which is the error.
func (e *Engine) reported(ctx context.Context, number int32, b stream.Bounds) (next int64, h stream.Hint, err error) {
	e.log.Warn("a partition has neither a commit nor a checkpoint: reading what was reported of it",
		zap.Int32("partition", number), zap.Int64("from", b.Start), zap.Int64("to", b.Stable))

	for started := time.Now(); ; {
		next, h, err = e.readReported(ctx, number, b)
		if err == nil {
			e.log.Info("found out what was reported of a partition", zap.Int32("partition", number),
				zap.Int64("goes_on_at", next),
				zap.Int("finished_spans_above", len(h.Spans)), zap.Duration("took", time.Since(started)))

			return next, h, nil
		}
		e.log.Warn("cannot read what was reported of a partition; trying again", zap.Int32("partition", number),
			zap.Error(err))

		if !host.Sleep(ctx, time.Second) {
			return 0, h, ctx.Err()
		}
	}
}

func (e *Engine) readReported(ctx context.Context, number int32,
	b stream.Bounds) (next int64, h stream.Hint, err error) {
	next, h = b.Start, stream.Hint{Base: b.Start, Taken: -1}

	what, err := e.readTold(ctx, number)
	if err != nil || len(what.reports)+len(what.letters) == 0 {
		return next, h, err
	}
	spans := what.letters
	var message orderMessage

	err = e.readRange(ctx, stream.Payments, number, b.Start, b.Stable, func(record *kgo.Record) {
		if what.includes(record, &message) {
			spans = append(spans, stream.Span{From: record.Offset, To: record.Offset + 1})
		}
	})
	if spans = merged(spans); len(spans) > 0 && spans[0].From == b.Start {
		next, spans = spans[0].To, spans[1:]
	}
	h.Base, h.Spans = next, spans

	return next, h, err
}

// readTold reads reports and dead letters of a partition.
func (e *Engine) readTold(ctx context.Context, number int32) (what told, err error) {
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()

	ends, err := stream.Ends(bounded, kadm.NewClient(e.direct), stream.Settlements, stream.DeadLetters)
	if err != nil {
		return what, err
	}
	end := func(topic string) int64 {
		end, _ := ends.Lookup(topic, number)
		return end.Offset
	}
	var report pixv1.SettlementReport

	err = e.readRange(ctx, stream.Settlements, number, 0, end(stream.Settlements), func(record *kgo.Record) {
		if report.Reset(); report.UnmarshalVT(record.Value) == nil {
			what.reports = append(what.reports,
				digestOf(report.EndToEndId, report.OriginalEndToEndId, report.Payer, report.Payee,
					report.AmountCentavos))
		}
	})
	if err != nil {
		return what, err
	}
	var letter pixv1.DeadLetter
	err = e.readRange(ctx, stream.DeadLetters, number, 0, end(stream.DeadLetters), func(record *kgo.Record) {
		if letter.Reset(); letter.UnmarshalVT(record.Value) == nil && letter.Topic == stream.Payments &&
			letter.Partition == number {
			what.letters = append(what.letters,
				stream.Span{From: letter.Offset, To: max(letter.Offset, letter.LastOffset) + 1})
		}
	})
	slices.SortFunc(what.reports, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })

	return what, err
}

// merged returns spans in their order, those that meet as one.
func merged(spans []stream.Span) (all []stream.Span) {
	slices.SortFunc(spans, func(a, b stream.Span) int { return cmp.Compare(a.From, b.From) })

	for _, span := range spans {
		if n := len(all); n > 0 && span.From <= all[n-1].To {
			all[n-1].To = max(all[n-1].To, span.To)
		} else {
			all = append(all, span)
		}
	}

	return all
}

// readRange reads a part of a partition, and says now and then how far it is.
func (e *Engine) readRange(ctx context.Context, topic string, number int32, from, to int64,
	take func(*kgo.Record)) error {
	said := time.Now()

	return stream.ReadRange(ctx, e.config.Stream, e.on.Dial, topic, number, from, to, func(record *kgo.Record) {
		if time.Since(said) > tellingInterval {
			said = time.Now()
			e.log.Info("reading what was reported", zap.String("topic", topic), zap.Int32("partition", number),
				zap.String("done", fmt.Sprintf("%d %%", 100*(record.Offset-from)/(to-from))))
		}
		take(record)
	})
}

// includes reports whether the order of a record was reported. The reason of a return is not in its report: a copy
// with another reason counts as reported.
func (w told) includes(record *kgo.Record, message *orderMessage) bool {
	if _, invalid := message.decode(record); invalid != nil {
		return false
	}
	order := &message.order

	digest := digestOf(order.EndToEndId, "", order.Payer, order.Payee, order.AmountCentavos)
	if r := order.ReturnOrder; r != nil {
		digest = digestOf(r.ReturnId, r.OriginalEndToEndId, nil, nil, r.AmountCentavos)
	}
	_, found := slices.BinarySearchFunc(w.reports, digest, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })

	return found
}

// digestOf returns a digest of an order's id and content. The accounts of a return are those of its original.
func digestOf(id, original string, payer, payee *pixv1.Account, centavos uint64) [16]byte {
	text := fmt.Appendf(nil, "%s|%s|%d", id, original, centavos)
	if original == "" {
		for _, a := range []*pixv1.Account{payer, payee} {
			text = fmt.Appendf(text, "|%s|%s|%s", a.GetIspb(), a.GetBranch(), a.GetNumber())
		}
	}
	sum := sha256.Sum256(text)

	return [16]byte(sum[:16])
}
