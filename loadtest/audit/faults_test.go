package audit

import (
	"slices"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit/spec"

	"github.com/liquida/liquida/loadtest/audit/source"
)

// fault is one thing that is wrong in a history that is right otherwise.
type fault struct {
	name  string
	kind  string // empty: it is none
	spoil func(h *history)
}

// Each fault is found, by the judge of a whole history and, unless only that can, by one that follows.
func TestEachFaultIsFound(t *testing.T) {
	ofReturn := func(spoil func(h *history, g *giver)) func(h *history) {
		return func(h *history) { spoil(h, h.settled) }
	}
	liquidity := func(h *history) { h.act(spec.CodeLiquidityIn, aliceBooks, tb.Transfer{Amount: tb.ToUint128(700)}) }
	leg := func(change func(leg *tb.Transfer)) func(h *history) {
		return func(h *history) {
			o := h.settle(5)
			_, key := h.legsOf(o)
			change(h.find(key.Role(spec.CapRole)))
		}
	}
	name := func(change func(n *tb.Transfer)) func(h *history) {
		return func(h *history) {
			n := ledger.Origin{Log: 3, Partition: 1023, Offset: 9}.Transfer()
			change(&n)
			h.transfers = append(h.transfers, n)
		}
	}
	adjustment := func(change func(t *tb.Transfer)) func(h *history) {
		return func(h *history) { h.cap(300, change) }
	}

	reject := func(voided bool) func(h *history) {
		return func(h *history) {
			o := h.order(alice, bruno, 5)
			h.capped(o)
			h.void(o, "AC06", 1, 2, 3)

			if voided {
				h.voidCapLeg(o)
			}
			h.report(o, "AC06")
		}
	}
	for _, bank := range []struct {
		of       func(*testing.T) *history
		followed bool
		faults   []fault
	}{
		{clean, true, []fault{
			{"a payment is lost: no report, nothing in the ledger", NoOutcome, func(h *history) {
				h.order(alice, bruno, 5)
			}},
			{"held, reported, and no verdict: only the timeout released it", NoVerdict, func(h *history) {
				h.dropTransfers(expiredOrder, 4)
			}},
			{"a repeated report with one more byte", ReportsDiffer, func(h *history) {
				again := h.reports[0]
				again.Value = append(append([]byte(nil), again.Value...), 0xf8, 0x3f, 0x00) // an unknown field
				h.reports = append(h.reports, again)
			}},
			{"settled by the report, voided in the ledger", LedgerDisagrees, func(h *history) {
				h.dropReports(voidedOrder)
				h.report(h.message(voidedOrder), "")
			}},
			{"rejected with another reason than the ledger's", LedgerDisagrees, func(h *history) {
				h.dropReports(voidedOrder)
				h.report(h.message(voidedOrder), "AC07")
			}},
			{"a conflicting message holds money, and the payment is not refused", LegsDisagree, func(h *history) {
				h.dropTransfers(settledOrder, 0, 1, 2, 4, 5, 6)
				h.hold(h.message(conflictOrder), 1, 2, 3)
			}},
			{"a leg was never held", LegsDisagree, func(h *history) { h.dropTransfers(voidedOrder, 2) }},
			{"a customer has one centavo too much", WrongBalance, func(h *history) { h.add(idOf(alice), 0, 1) }},
			{"one centavo vanished between two banks", BrokenLaw, func(h *history) {
				h.add(spec.ReserveOf(idOf(bruno)), 1, 0)
			}},
			{"money is pending", Pending, func(h *history) {
				h.accountOf(idOf(alice)).DebitsPending = tb.ToUint128(1)
			}},
			{"an account is closed", WrongAccount, func(h *history) {
				h.accountOf(idOf(alice)).Flags |= tb.AccountFlags{Closed: true}.ToUint16()
			}},
			{"an account is gone", WrongBalance, func(h *history) {
				h.accounts = slices.DeleteFunc(h.accounts, func(a tb.Account) bool {
					return spec.NumberOf(a.ID) == idOf(clara)
				})
			}},
			{"a transfer with a code that does not exist", UnexplainedMoney, func(h *history) {
				h.move(8, spec.Issuance, spec.Refusals, 0)
			}},
			{"funding from a customer to another", UnexplainedMoney, func(h *history) {
				h.move(spec.CodeFunding, idOf(alice), idOf(bruno), 1)
			}},
			{"a transfer in another ledger", UnexplainedMoney, func(h *history) { h.transfers[0].Ledger = 840 }},
			{"a leg to another payee", WrongTransfer, func(h *history) {
				h.transfer(settledOrder, 2).CreditAccountID = idOf(clara).TigerBeetle()
			}},
			{"a post of less than was held", WrongTransfer, func(h *history) {
				h.transfer(settledOrder, 6).Amount = tb.ToUint128(999)
			}},
			{"a leg that names another payment", WrongTransfer, func(h *history) {
				h.transfer(settledOrder, 1).UserData64++
			}},
			{"a receipt that names another payment", WrongTransfer, func(h *history) {
				h.transfer(receiptOrder, 4).UserData128 = spec.Number{Low: 1}.TigerBeetle()
			}},
			{"a payment whose ids name another one", IDsCollide, func(h *history) {
				h.order(alice, bruno, 5)
				h.letter(len(h.orders)-1, "LQ07")
			}},
			{"a receipt beside a settlement", LegsDisagree, func(h *history) {
				h.receipt(h.message(settledOrder), "AB03", spec.TransitOf(idOf(alice)), spec.ReserveOf(idOf(alice)))
			}},
			{"liquidity without an act", MoneyWithoutAct, func(h *history) {
				h.move(spec.CodeLiquidityIn, spec.Issuance, spec.ReserveOf(idOf(alice)), 1)
				h.last(1).Flags = spec.LinkedFlag
				h.move(spec.CodeClockProbe, spec.Issuance, spec.Refusals, 0)
			}},
			{"undecodable bytes without a dead letter", NoDeadLetter, func(h *history) { h.dropLetter(garbageOrder) }},
			{"another content without a dead letter", TwoContents, func(h *history) { h.dropLetter(conflictOrder) }},
			{"an equal message called a conflict", WrongDeadLetter, func(h *history) {
				h.letter(repeatedOrder, "DUPL")
			}},
			{"every message of a payment called a conflict", WrongDeadLetter, func(h *history) {
				h.order(alice, bruno, 5)
				h.letter(len(h.orders)-1, "DUPL")
			}},
			{"two dead letters that differ", WrongDeadLetter, func(h *history) { h.letter(garbageOrder, "FF08") }},
			{"a dead letter of a record that is not there", WrongDeadLetter, func(h *history) {
				h.letter(garbageOrder, "FF01")
				h.orders = append(h.orders[:garbageOrder], h.orders[garbageOrder+1:]...)
			}},
			{"a dead letter with another payload", WrongDeadLetter, func(h *history) {
				h.orders[garbageOrder].Value = []byte{0xfe}
			}},
			{"a report without an order", ReportWithoutOrder, func(h *history) {
				o := h.unordered()
				h.report(o, "AB03")
			}},
			{"a report that cannot be read", BadReport, func(h *history) {
				h.reports = append(h.reports, source.Record{Value: []byte{0xff}})
			}},
			{"a report with another key", WrongPlace, func(h *history) { h.reports[0].Key = h.reports[0].Key[:31] }},
			{"a dead letter in another partition", WrongDeadLetter, func(h *history) { h.letters[0].Partition = 3 }},
			{"a dead letter that names another field", WrongDeadLetter, func(h *history) {
				h.sayInLetter(garbageOrder, "FF01", "amount_centavos: 1 is too much")
			}},
			{"a dead letter that names another payment", WrongDeadLetter, func(h *history) {
				h.sayInLetter(conflictOrder, "DUPL", "end_to_end_id: "+h.message(sameBankOrder).EndToEndId)
			}},
			{"a hold that ends before the deadline", WrongTransfer, func(h *history) {
				h.transfer(settledOrder, 1).Timeout = 44
			}},
			{"rejected before the deadline", WrongDeadline, func(h *history) {
				h.transfer(expiredOrder, 4).Timestamp -= uint64(clockSkewMax) + 1
			}},
			{"refused too early as past its deadline", WrongDeadline, func(h *history) { h.refuse("LQ13", 500, 37e9) }},
			{"messages that the engines have not finished", Lag, func(h *history) { h.uncommitted = 1 }},
			{"a deposit of one centavo more", WrongFunding, func(h *history) {
				h.find(idOf(alice)).Amount = tb.ToUint128(depositCentavos + 1)
				h.add(idOf(alice), 0, 1)
				h.add(spec.TransitOf(idOf(alice)), 1, 0)
			}},
			{"a second marker", WrongFunding, func(h *history) { h.move(spec.CodeMarker, spec.Issuance, spec.Refusals, 0) }},
			{"a marker of another population", WrongFunding, func(h *history) { h.find(spec.MarkerID).UserData64++ }},
			{"no marker", WrongFunding, func(h *history) { h.drop(spec.MarkerID) }},
			{"a deposit is missing", WrongFunding, func(h *history) {
				h.drop(idOf(elisa))
				h.add(idOf(elisa), 0, -2*reserveCentavos)
				h.add(spec.TransitOf(idOf(elisa)), -2*reserveCentavos, 0)
			}},
		}},
		{clean, false, []fault{
			{"the end of a rebuild where nothing was imported", UnexplainedMoney, func(h *history) {
				h.end(spec.CodeRebuilt, 13)
			}},
			{"the name of a log", "", name(func(*tb.Transfer) {})},
			{"a log that was given up", LogGivenUp, name(func(n *tb.Transfer) { *n = ledger.GivenUp(3) })},
			{"a name with money", UnexplainedMoney, name(func(n *tb.Transfer) { n.Amount = tb.ToUint128(1) })},
			{"a name with another code", UnexplainedMoney, name(func(n *tb.Transfer) { n.Code = spec.CodeGivenUp })},
			{"a name with the id of no log", UnexplainedMoney, name(func(n *tb.Transfer) { n.ID = ledger.OriginID(0, 3) })},
		}},
		{rebuilt, false, []fault{
			{"imported after the end", UnexplainedMoney, func(h *history) {
				h.move(spec.CodeReturned, spec.Issuance, spec.Refusals, 0)
				h.last(1).Flags = spec.ImportedFlag
			}},
			{"a hold without a timeout that was not imported", WrongTransfer, func(h *history) {
				h.transfer(settledOrder, 0).Flags &^= spec.ImportedFlag
			}},
			{"no end", UnexplainedMoney, func(h *history) {
				h.drop(spec.Number{Low: 13})
				h.drop(spec.Number{Low: 29})
			}},
			{"another end", UnexplainedMoney, func(h *history) { h.end(spec.CodeRebuilt, 14) }},
			{"what was told has no end", UnexplainedMoney, func(h *history) { h.drop(spec.Number{High: 1, Low: 61}) }},
			{"what was told has no begin", UnexplainedMoney, func(h *history) { h.drop(spec.Number{High: 1, Low: 45}) }},
			{"what was told is of now", UnexplainedMoney, func(h *history) {
				h.find(spec.Number{High: 1, Low: 45}).Flags = 0
			}},
			{"an end and money", UnexplainedMoney, func(h *history) {
				h.find(spec.Number{Low: 13}).Amount = tb.ToUint128(1)
			}},
		}},
		{withReturns, true, []fault{
			{"posted without a verdict", LegsDisagree, ofReturn(func(_ *history, g *giver) {
				g.drop(ledger.ReturnVerdict(g.id))
			})},
			{"more than was paid", ReturnedTooMuch, func(h *history) {
				g := h.giveBack(settledOrder, 701)
				g.settle(1)
			}},
			{"settled before its original", WrongReturn, ofReturn(func(h *history, g *giver) {
				h.find(spec.NumberOf(ledger.ReturnVerdict(g.id))).Timestamp = 1
			})},
			{"after 90 days", WrongReturn, func(h *history) {
				h.now = h.now.AddDate(0, 0, 90).Add(time.Minute)
				g := h.giveBack(settledOrder, 9)
				g.settle(1)
			}},
			{"in a slot that does not exist", WrongTransfer, ofReturn(func(h *history, g *giver) {
				original, minutes, err := spec.ParseID(g.content.Original.String())
				kit.Must(h.t, err)

				moved := func(id tb.Uint128) tb.Uint128 { // the services' own code refuses slot 64
					_, role := spec.Split(spec.NumberOf(id))
					return spec.ReturnKey(original, minutes, 64).Role(role).TigerBeetle()
				}
				for leg := 1; leg <= 3; leg++ {
					h.find(spec.NumberOf(g.ids(0).Pending(leg))).ID = moved(g.ids(0).Pending(leg))
					resolution := h.find(spec.NumberOf(g.ids(0).Resolution(leg)))
					resolution.ID, resolution.PendingID = moved(resolution.ID), moved(resolution.PendingID)
				}
			})},
			{"in two slots", WrongTransfer, func(h *history) { h.sameBank.hold(1) }},
			{"held, and the payment is not marked", NoMark, ofReturn(func(_ *history, g *giver) { g.drop(g.mark()) })},
			{"a mark of a payment of which nothing was given back", UnexplainedMoney, func(h *history) {
				g := h.unsaid(voidedOrder)
				h.write(ledger.AppendReturnedMark(nil, g.content.Original))
			}},
			{"held in a slot that is marked as burnt", WrongTransfer, ofReturn(func(h *history, g *giver) {
				h.write(g.burnt(0))
			})},
			{"a mark of a slot that does not exist", WrongTransfer, ofReturn(func(h *history, g *giver) {
				mark := g.burnt(5)
				id := mark[0].ID.Bytes()
				id[1] ^= 1
				mark[0].ID = tb.BytesToUint128(id)
				h.write(mark)
			})},
			{"a report to the wrong account", ReportedContent, ofReturn(func(_ *history, g *giver) {
				g.dropReports()
				other := *g
				other.payment.Payer = clara
				other.report("")
			})},
		}},
		{func(t *testing.T) *history {
			h := withRegister(t)
			h.actsOfAllKinds()
			return h
		}, false, []fault{
			{"an act without its money", WrongAct, func(h *history) {
				liquidity(h)
				h.add(spec.Issuance, -700, 0)
				h.add(spec.ReserveOf(aliceBooks), 0, -700)
				h.transfers = append(h.transfers[:len(h.transfers)-2], *h.last(1))
			}},
			{"more than an act may move", WrongAct, func(h *history) {
				h.act(spec.CodeLiquidityIn, aliceBooks, tb.Transfer{Amount: tb.ToUint128(spec.ActCentavosMax + 1)})
			}},
			{"an act of a bank that has not joined", WrongAct, func(h *history) {
				h.open(spec.BooksOf(idOf(zoe)))
				h.act(spec.CodeSuspended, spec.BooksOf(idOf(zoe)), tb.Transfer{})
			}},
			{"a suspension by a bank", WrongAct, func(h *history) {
				h.act(spec.CodeSuspended, aliceBooks, tb.Transfer{})
				h.last(1).UserData32 = 0
			}},
			{"an opening is missing", WrongFunding, func(h *history) {
				opening := h.find(brunoBooks)
				amount, _ := spec.Centavos(opening.Amount)
				h.add(spec.Register, 0, -int64(amount))
				h.add(brunoBooks, -int64(amount), 0)
				h.drop(brunoBooks)
			}},
		}},
		{func(t *testing.T) *history {
			h := withRegister(t)
			h.at(0)
			h.cap(100)
			h.at(10 * time.Second)

			return h
		}, false, []fault{
			{"rejected, and leg 4 voided", "", reject(true)},
			{"settled, and leg 4 voided", WrongAllowance, func(h *history) { h.voidCapLeg(h.settle(5)) }},
			{"leg 4 of another amount", WrongAllowance, leg(func(t *tb.Transfer) { t.Amount = tb.ToUint128(4) })},
			{"leg 4 of a payment that nobody ordered", WrongAllowance, func(h *history) {
				o := h.order(alice, bruno, 5)
				h.capped(o)
				h.orders = h.orders[:len(h.orders)-1]
				h.transfers = append(h.transfers[:len(h.transfers)-4], *h.last(1))
			}},
			{"an adjustment to another cap", WrongAllowance, adjustment(func(t *tb.Transfer) { t.UserData64++ })},
			{"a right adjustment", "", adjustment(func(*tb.Transfer) {})},
			{"an allowance of less than its cap", WrongAllowance, func(h *history) {
				h.act(spec.CodeNightCap, aliceBooks, tb.Transfer{UserData64: 300, UserData32: windowSeconds})
				h.adjust(250, 300)
			}},
			{"a cap that is lowered, and does not take all that is free", WrongAllowance, func(h *history) {
				h.settle(20)
				h.act(spec.CodeNightCap, aliceBooks, tb.Transfer{UserData64: 50, UserData32: windowSeconds})
				h.adjust(60, 50)
				h.cap(60)
			}},
		}},
	} {
		for _, fault := range bank.faults {
			t.Run(fault.name, func(t *testing.T) {
				h := bank.of(t)
				fault.spoil(h)

				if fault.kind == "" {
					h.finds(fault.name, "", 0)
					h.rebuild()
					h.finds("built again", "", 0)

					return
				}

				if bank.followed {
					h.isFollowed(fault.name, fault.kind)
				}

				if verdict := h.audit(); verdict.Clean || verdict.ByKind[fault.kind] == 0 {
					t.Fatalf("found are %+v; there must be %q", verdict.Findings, fault.kind)
				}
			})
		}
	}
}
