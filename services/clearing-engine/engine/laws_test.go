package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/services/clearing-engine/metrics"
	"github.com/liquida/liquida/services/clearing-engine/payment"
	"github.com/liquida/liquida/services/clearing-engine/room"
)

// caught returns what f panics with.
func caught(f func()) (said string) {
	defer func() {
		if r := recover(); r != nil {
			said = fmt.Sprint(r)
		}
	}()
	f()

	return ""
}

// mustBreak fails the test unless f breaks the law.
func mustBreak(t *testing.T, law string, f func()) {
	t.Helper()

	if said := caught(f); !strings.HasPrefix(said, "broken law: "+law) {
		t.Errorf("%q is not noticed, but %q", law, said)
	}
}

var (
	lawID       = pix.EndToEndID([]byte("E10000001202611211200abcdefghijk"))
	lawOriginal = pix.ReturnContent{Original: lawID, AmountCentavos: 40, Reason: pix.ReturnReasons[0]}
	lawReturn   = pix.ReturnID([]byte("D10000002202611211200abcdefghijk"))
	lawContent  = pix.Content{
		Payer:          pix.Account{ISPB: "10000001", Branch: "0001", Number: "1"},
		Payee:          pix.Account{ISPB: "10000002", Branch: "0001", Number: "2"},
		AmountCentavos: 100,
	}
	lawSettled = payment.Outcome{Settled: true}
	lawClosed  = payment.Outcome{Reason: pix.ReasonPayeeClosed}
)

// Each law about chains: every chain of the ledger package keeps it, and a chain that is
// changed in one place breaks it.
func TestBrokenChainsAreNoticed(t *testing.T) {
	returned := func() []tb.Transfer {
		return ledger.AppendReturnedMark(
			ledger.AppendReturnReserve(nil, lawReturn, lawOriginal, 3, lawContent, 60), lawID)
	}
	for _, c := range []struct {
		name    string
		purpose chainPurpose
		chain   func() []tb.Transfer
		outcome payment.Outcome
	}{
		{"hold", chainReserve, func() []tb.Transfer {
			return ledger.AppendReserve(nil, lawID, lawContent, 60)
		}, payment.Outcome{}},
		{"post", chainPost, func() []tb.Transfer { return ledger.AppendPost(nil, lawID, false) }, lawSettled},
		{"post inside a bank", chainPost, func() []tb.Transfer {
			return ledger.AppendPost(nil, lawID, true)
		}, lawSettled},
		{"void", chainVoid, func() []tb.Transfer {
			return ledger.AppendVoid(nil, lawID, false, lawClosed.Reason)
		}, lawClosed},
		{"receipt", chainReceipt, func() []tb.Transfer {
			return ledger.AppendReceipt(nil, lawID, lawContent, lawClosed.Reason, true)
		}, lawClosed},
		{"hold of a return", chainReserve, returned, payment.Outcome{}},
		{"post of a return", chainPost, func() []tb.Transfer {
			return ledger.AppendReturnPost(nil, lawReturn, lawOriginal, 3, false)
		}, lawSettled},
		{"void of a return", chainVoid, func() []tb.Transfer {
			return ledger.AppendReturnVoid(nil, lawReturn, lawOriginal, 3, false, lawClosed.Reason)
		}, lawClosed},
		{"receipt of a return", chainReceipt, func() []tb.Transfer {
			return ledger.AppendReturnReceipt(nil, lawReturn, lawOriginal, lawClosed.Reason, true)
		}, lawClosed},
	} {
		checkChain(c.purpose, c.chain(), c.outcome)
		changed := func(change func([]tb.Transfer) []tb.Transfer) func() {
			return func() { checkChain(c.purpose, change(c.chain()), c.outcome) }
		}
		linked := tb.TransferFlags{Linked: true}.ToUint16()
		mustBreak(t, "all transfers of a chain but the last are linked",
			changed(func(chain []tb.Transfer) []tb.Transfer {
				chain[0].Flags ^= linked
				return chain
			}))
		mustBreak(t, "all transfers of a chain but the last are linked",
			changed(func(chain []tb.Transfer) []tb.Transfer {
				last := len(chain) - 1
				if c.name == "hold of a return" {
					last--
				}
				chain[last].Flags ^= linked

				return chain
			}))

		if c.purpose == chainReceipt {
			mustBreak(t, "a receipt is one transfer of zero", changed(func(chain []tb.Transfer) []tb.Transfer {
				chain[0].Amount = tb.ToUint128(1)
				return chain
			}))
		} else {
			mustBreak(t, "a chain has 2 to 4 legs", changed(func(chain []tb.Transfer) []tb.Transfer {
				return lastLegs(chain, 1)
			}))
			mustBreak(t, "a chain has 2 to 4 legs", changed(func(chain []tb.Transfer) []tb.Transfer {
				leg := lastLegs(chain, 2)[0]
				return append([]tb.Transfer{leg, leg, leg}, lastLegs(chain, 2)...)
			}))
			mustBreak(t, "the legs of a chain have one purpose", changed(func(chain []tb.Transfer) []tb.Transfer {
				chain[1].Flags ^= tb.TransferFlags{PostPendingTransfer: true}.ToUint16()
				return chain
			}))
		}

		if c.purpose == chainReserve {
			for _, change := range []func(*tb.Transfer){
				func(leg *tb.Transfer) {
					leg.Amount = tb.ToUint128(99)
				}, func(leg *tb.Transfer) { leg.Timeout++ }, func(leg *tb.Transfer) { leg.Timeout = 0 },
			} {
				mustBreak(t, "the legs of a hold have one amount and one timeout",
					changed(func(chain []tb.Transfer) []tb.Transfer {
						change(&chain[1])
						return chain
					}))
			}

			continue
		}

		if c.purpose != chainReceipt {
			mustBreak(t, "the legs of phase 2 have one reason", changed(func(chain []tb.Transfer) []tb.Transfer {
				chain[len(chain)-1].UserData32++
				return chain
			}))
		}

		for _, other := range []payment.Outcome{{Settled: !c.outcome.Settled, Reason: c.outcome.Reason},
			{Settled: c.outcome.Settled, Reason: pix.ReasonPayeeBlocked}} {
			mustBreak(t, "a verdict is the order's outcome", func() { checkChain(c.purpose, c.chain(), other) })
		}

		if !c.outcome.Settled { // a rejection without a reason would be read as settled
			mustBreak(t, "a verdict is the order's outcome", func() {
				chain := c.chain()
				for i := range chain {
					chain[i].UserData32 = 0
				}
				checkChain(c.purpose, chain, payment.Outcome{})
			})
		}
	}
}

// lastLegs returns the last legs of a chain as a chain.
func lastLegs(chain []tb.Transfer, n int) []tb.Transfer {
	if last := len(chain) - 1; chain[last].Code == ledger.CodeReturned {
		chain = chain[:last]
	}

	return chain[len(chain)-n:]
}

// newLawPartition returns a partition with a payment in flight, which waits for its bank.
func newLawPartition() (*partition, *flight) {
	c := &common{register: known{register.After(), true},
		room: room.New(room.Limits{Payments: 1000, Working: 1000, Bytes: 1 << 20, PSPShare: 0.25, PayerShare: 0.25},
			time.Now()), log: zap.NewNop(), config: &Config{Deadline: time.Minute, ReturnsPerSecond: 1}}
	c.metrics = metrics.New(prometheus.NewRegistry(), c.room, chainNames[chainReserve:])
	p := newPartition(c, nil, 0, stream.Hint{}, true)
	f := &flight{kind: paymentKind{}, record: &kgo.Record{Offset: 7}}
	f.payment, _ = payment.Begin(pix.Order{ID: lawID, Content: lawContent, AcceptedAt: time.Now()}, time.Now(),
		time.Minute, pix.ReasonNone)
	p.flights[lawID] = f

	return p, f
}

func TestBrokenStateIsNoticed(t *testing.T) {
	now := time.Now()
	p, f := newLawPartition()
	f.writing = chainReserve
	f.payment.Outcome = lawSettled
	mustBreak(t, "an order has one chain under way", func() {
		p.write(f, chainPost, ledger.AppendPost(nil, lawID, false))
	})
	f.writing = chainNone
	mustBreak(t, "a verdict is the order's outcome", func() {
		p.write(f, chainVoid, ledger.AppendVoid(nil, lawID, false, lawClosed.Reason))
	})
	mustBreak(t, "a chain has one result", func() { p.written(f, ledger.Result{}, now) })

	report := payment.Command{Action: payment.Report}
	mustBreak(t, "a report is the verdict in the ledger", func() { p.perform(f, report, now) }) // not confirmed
	f.decided, f.verdict = true, lawClosed
	mustBreak(t, "a report is the verdict in the ledger", func() { p.perform(f, report, now) }) // another one

	mustBreak(t, "an id is in flight once", func() {
		p.begin(arrival{order: f.payment.Order, kind: paymentKind{}}, pix.ReasonNone, now)
	})
	mustBreak(t, "an order ends once", func() { p.end(&flight{payment: f.payment}, now) })
	mustBreak(t, "a dead letter is acknowledged once", func() {
		p.handle(&event{kind: deadLettered, record: f.record}, now)
	})

	p, f = newLawPartition()
	p.room.AddToShare("10000001")
	p.rests() // its payment is in flight
	p.leave(f)
	mustBreak(t, "what has ended holds no share", func() { p.rests() })
}

func TestBrokenOffsetsAreNoticed(t *testing.T) {
	tracked := func() *offsets {
		o := newOffsets(stream.Hint{})
		for offset := range int64(4) {
			o.track(offset, offset)
		}
		o.finish(0)

		return o
	}
	mustBreak(t, "an offset is tracked and finished once", func() { tracked().finish(0) })
	mustBreak(t, "an offset is tracked and finished once", func() { tracked().finish(9) })
	o := tracked()
	o.stretches[0].next = 3 // passes 1 and 2
	mustBreak(t, "the lowest unfinished offset is committed", func() { o.toCommit() })
	o = tracked()
	o.stretches[0].window[o.stretches[0].start].finished = true // not passed, although it is finished
	mustBreak(t, "the lowest unfinished offset is committed", func() { o.toCommit() })
}
