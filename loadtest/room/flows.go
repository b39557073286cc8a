package room

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// flows counts orders, reports and dead letters as they come. Nothing is sampled: a report is decoded into
// the same message each time, and counted by its pair of banks.
type flows struct {
	client *kgo.Client
	reads  map[string]map[int32]kgo.Offset // from where on

	*waits  // and the lock of all
	since   time.Time
	pairs   map[pair]*Flow
	ends    map[int32]int64 // of the orders
	letters []Letter
	moved   bool // something came since the last look
}

type pair struct{ payer, payee string }

// pairsMax bounds the pairs of one second, because anybody who may write orders chooses banks.
const pairsMax = 5000

// others stand for the banks and reasons that are beyond the bounds.
const others = "others"

// idMax is the length of an EndToEndId.
const idMax = 32

// readFlows reads from now on.
func readFlows(ctx context.Context, client *kgo.Client, admin *kadm.Client) (*flows, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()

	ends, err := stream.Ends(ctx, admin, stream.Payments, stream.Settlements, stream.DeadLetters)
	if err != nil {
		return nil, err
	}
	stream.Together(client, stream.Payments, stream.Settlements, stream.DeadLetters)
	client.AddConsumePartitions(ends.KOffsets())

	f := &flows{client: client, reads: ends.KOffsets(), waits: newWaits(), since: time.Now(), pairs: map[pair]*Flow{},
		ends: map[int32]int64{}}
	for partition, end := range ends[stream.Payments] {
		f.ends[partition] = end.Offset
	}

	return f, nil
}

func (f *flows) run(ctx context.Context) {
	report := &pixv1.SettlementReport{}

	for {
		fetches := f.client.PollFetches(ctx)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return
		}
		f.mu.Lock()
		now := time.Now()
		f.moved = f.moved || fetches.NumRecords() > 0
		fetches.EachRecord(func(r *kgo.Record) {
			switch r.Topic {
			case stream.Payments:
				f.ends[r.Partition] = r.Offset + 1
				f.order(r.Key, r.Timestamp, now)
			case stream.DeadLetters:
				f.deadLetter(r)
			default:
				report.Reset()

				if report.UnmarshalVT(r.Value) == nil { // the light names it otherwise
					f.report(report, r)
				}
			}
		})
		f.mu.Unlock()
	}
}

func (f *flows) report(report *pixv1.SettlementReport, r *kgo.Record) {
	key := pair{report.GetPayer().GetIspb(), report.GetPayee().GetIspb()}

	flow := f.pairs[key]
	if flow == nil && len(f.pairs) >= pairsMax {
		key = pair{others, others}
		flow = f.pairs[key]
	}

	if flow == nil {
		flow = &Flow{Payer: key.payer, Payee: key.payee}
		f.pairs[key] = flow
	}
	flow.Last = report.EndToEndId[:min(len(report.EndToEndId), idMax)]
	f.outcome(r.Key, r.Timestamp)

	if report.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC {
		flow.Settled++
		flow.Centavos += int64(min(report.AmountCentavos, 1<<62)) //nolint:gosec // bounded
		return
	}

	if flow.Rejected == nil {
		flow.Rejected = map[string]int{}
	}

	reason := report.ReasonCode
	if _, known := flow.Rejected[reason]; !known && len(flow.Rejected) >= reasonsMax {
		reason = others
	}
	flow.Rejected[reason]++
}

// bytesShown is how much of a message is shown.
const bytesShown = 4 << 10

func (f *flows) deadLetter(r *kgo.Record) {
	f.outcome(r.Key, r.Timestamp)

	var letter pixv1.DeadLetter
	if letter.UnmarshalVT(r.Value) != nil {
		return
	}
	shown := letter.Payload[:min(len(letter.Payload), bytesShown)]
	f.letters = append(f.letters, Letter{
		At: r.Timestamp.UTC(), Code: letter.ReasonCode, Reason: letter.Reason, Topic: letter.Topic,
		Partition: letter.Partition,
		Offset:    letter.Offset, Bytes: slices.Clone(shown), Size: int(min(letter.PayloadSizeBytes, 1<<31)), //nolint:gosec // bounded
	})
	f.letters = f.letters[max(0, len(f.letters)-lettersMax):]
}

// move reports whether anything came since the last call of take.
func (f *flows) move() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.moved
}

// take returns what went by since the last call, and begins anew.
func (f *flows) take(now time.Time) (flows []Flow, figures Figures) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seconds := max(now.Sub(f.since).Seconds(), 0.001)
	flows = []Flow{}

	for _, flow := range f.pairs {
		flows = append(flows, *flow)
		figures.SettledPerSecond += float64(flow.Settled) / seconds

		for _, n := range flow.Rejected {
			figures.RejectedPerSecond += float64(n) / seconds
		}
	}

	if took := f.waits.take(now); len(took) > 0 {
		half, most := took[(len(took)-1)/2], took[(len(took)-1)*99/100]
		figures.P50Milliseconds, figures.P99Milliseconds = milliseconds(half), milliseconds(most)
	}
	f.since, f.pairs, f.moved = now, map[pair]*Flow{}, false

	return flows, figures
}

// deadLetters returns the last ones, oldest first.
func (f *flows) deadLetters() []Letter {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.letters)
}

func milliseconds(d time.Duration) *float64 {
	ms := float64(d) / float64(time.Millisecond)
	return &ms
}

// left asks the broker how far the engines have come. It returns how many orders they have not finished, and how many
// of these not taken; nil: not known.
func (f *flows) left(ctx context.Context, admin *kadm.Client) (open, untaken *int64) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()

	committed, err := admin.FetchOffsetsForTopics(ctx, stream.EngineGroup, stream.Payments)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // no engine has ever run
		return nil, nil
	}
	open, untaken = new(int64), new(int64)
	f.mu.Lock()
	defer f.mu.Unlock()

	for partition, end := range f.ends {
		commit, _ := committed.Lookup(stream.Payments, partition)
		at := max(0, commit.At)
		hint := stream.ReadHint(at, commit.Metadata)

		left := end - at
		for _, span := range hint.Spans {
			left -= span.To - span.From
		}
		*open += max(0, left)
		*untaken += max(0, end-max(at, hint.Taken))
	}

	return open, untaken
}
