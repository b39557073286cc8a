package chaos

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// Budget says where the time of settled payments of the load goes. Its parts are differences between the times of
// records, of a sample. The whole is the mean of what the load recorded of all payments: it knows of no sample and no
// record, so the two agree only if the sample is fair and its records are all there.
type Budget struct {
	Settled  int     `json:"settled"`       // of the sample
	Payments int     `json:"payments"`      // of these, of which every record was found
	WholeMs  float64 `json:"whole_mean_ms"` // from the intended send until the load has the report
	Parts    []Part  `json:"parts"`
}

// Part is a part of the time of a payment.
type Part struct {
	Name   string  `json:"name"`
	MeanMs float64 `json:"mean_ms"`
}

var budgetParts = []string{"until the order is in Kafka", "until its bank is asked", "until the bank has answered",
	"until it is posted and reported", "until the payer has the report"}

// Off is by how much the parts and the whole differ, a share.
func (b *Budget) Off() float64 {
	sum := 0.0
	for _, part := range b.Parts {
		sum += part.MeanMs
	}

	return sum/max(1e-9, b.WholeMs) - 1
}

// budgetOffMax is how far the parts and the whole of evidence may differ. Faults may lose the records of some payments.
const budgetOffMax = 0.02

// budgetSample is about how many payments are followed, and so the memory.
const budgetSample = 400_000

// followed are payments of the load, by EndToEndId.
type followed struct {
	each uint64 // one of so many
	mu   sync.Mutex
	of   map[string]*steps
}

// steps are the times of a payment's records; zero: not seen.
type steps [6]time.Time

// The records of a payment, in their order. A part of the budget is the time between two of them.
const (
	intendedAt = iota
	orderedAt
	askedAt
	answeredAt
	reportedAt
	toldAt
)

func follow(payments int) *followed {
	return &followed{each: uint64(payments/budgetSample) + 1, of: map[string]*steps{}} //nolint:gosec // positive
}

// takes reports whether a payment is one of the sample.
func (f *followed) takes(id string) bool {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(id)) // it never fails
	return binary.BigEndian.Uint64(hash.Sum(nil))%f.each == 0
}

// sending takes a payment of the load.
func (f *followed) sending(id pix.EndToEndID) {
	if f != nil && f.takes(id.String()) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.of[id.String()] = &steps{intended(id)}
	}
}

// told takes when the first report of a payment was written and read.
func (f *followed) told(id string, reported, now time.Time) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()

	if s := f.of[id]; s != nil && s[toldAt].IsZero() {
		s[reportedAt], s[toldAt] = reported, now
	}
}

// budget reads what else Kafka tells about the payments, of which all took this on average. The topics stand still.
func (f *followed) budget(ctx context.Context, kafka stream.Config, wholeMs float64) (*Budget, error) {
	for topic, at := range map[string]int{stream.Payments: orderedAt, stream.AuthorizationRequests: askedAt,
		stream.AuthorizationResponses: answeredAt} {
		err := stream.ReadTopic(ctx, kafka, host.System().Dial, topic, func(r *kgo.Record) {
			if s := f.of[string(r.Key)]; s != nil && (s[at].IsZero() || r.Timestamp.Before(s[at])) {
				s[at] = r.Timestamp
			}
		})
		if err != nil {
			return nil, fmt.Errorf("the budget of time: %w", err)
		}
	}
	b, sums := &Budget{WholeMs: wholeMs}, make([]time.Duration, len(budgetParts))

	for _, s := range f.of {
		if s[toldAt].IsZero() {
			continue // it did not settle
		}
		b.Settled++

		if s[orderedAt].IsZero() || s[askedAt].IsZero() || s[answeredAt].IsZero() {
			continue
		}
		b.Payments++

		for i := range sums {
			sums[i] += s[i+1].Sub(s[i])
		}
	}

	for i, name := range budgetParts {
		b.Parts = append(b.Parts, Part{name, sums[i].Seconds() * 1000 / float64(max(1, b.Payments))})
	}

	return b, nil
}

func (b *Budget) table() report.Table {
	table := report.Table{Title: "Where the time of a settled payment goes", TextColumns: 1,
		Head: []string{"", "mean, ms", "of the whole"},
		Note: fmt.Sprintf("Faults included. Parts are differences between the times of a payment's records in Kafka, of %d of %d settled payments in a sample; the whole is the mean of what the load recorded of all. They differ by %.1f %%.",
			b.Payments, b.Settled, 100*b.Off())}
	for _, part := range append(b.Parts, Part{"the whole", b.WholeMs}) {
		table.Add(part.Name, fmt.Sprintf("%.1f", part.MeanMs),
			fmt.Sprintf("%.0f %%", 100*part.MeanMs/max(1e-9, b.WholeMs)))
	}

	return table
}
