package ledgerfacts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// scene is what the words of a fact are about.
type scene struct {
	t        *testing.T
	*payment             // of these
	payments []*payment  // of one payer to one payee
	payee    pix.Account // as it was at first
	back     *repayment  // the last one
	cap      int64       // of the payer's bank
}

func newScene(t *testing.T) *scene {
	p := newPayment(t)
	return &scene{t: t, payment: p, payments: []*payment{p}, payee: p.content.Payee}
}

type words []string

// n reads a number; `most` is the largest of 64 bits.
func (w words) n(i int) int64 {
	if w[i] == "most" {
		return -1
	}

	n, err := strconv.ParseInt(w[i], 10, 64)
	if err != nil {
		panic(err)
	}

	return n
}

func (w words) reason(i int) pix.Reason { return pix.MustReason(w[i]) }

// do does what one sentence says.
func (s *scene) do(sentence string) {
	s.t.Helper()
	w := words(strings.Fields(sentence))

	verb, change, _ := strings.Cut(w[0], "/")
	switch {
	case len(w) == 3 && w[1] == "is":
		if is := s.read(w[0]); is != w[2] {
			s.t.Errorf("it is %s", is)
		}
	case len(w) == 3 && w[1] == "becomes":
		kit.Await(s.t, sentence, func() (bool, string) { is := s.read(w[0]); return is == w[2], is })
	case !s.change(verb, w):
		expect(s.t, s.changed(change, s.chain(verb, w)), w[len(w)-1])
	}
}

// expect sends a chain and compares the answer: the status, its place in the chain, and the code that stands there.
func expect(t *testing.T, chain []tb.Transfer, answers string) {
	t.Helper()
	got := shared.write(t, chain)

	is := strings.TrimPrefix(got.Status.String(), "Transfer")
	if got.Index > 0 {
		is += fmt.Sprintf("@%d", got.Index)
	}

	if !slices.Contains(strings.Split(answers, "|"), is) || !got.OK() && got.Code != chain[got.Index].Code {
		t.Errorf("the answer is %s, code %d, want %s", is, got.Code, answers)
	}
}

// chain returns what a word sends.
func (s *scene) chain(verb string, w words) []tb.Transfer {
	switch verb {
	case "hold":
		return s.reserve()
	case "post":
		return s.post()
	case "void":
		return s.void(w.reason(1))
	case "receipt":
		return s.receipt(w.reason(1))
	case "stray-receipt":
		return ledger.AppendReceipt(nil, s.id, s.content, w.reason(1), false)

	case "return-hold":
		return s.back.reserve(int(w.n(1)))
	case "return-post":
		return ledger.AppendReturnPost(nil, s.back.id, s.back.content, int(w.n(1)), s.content.SameBank())
	case "return-void":
		return ledger.AppendReturnVoid(nil, s.back.id, s.back.content, int(w.n(1)), s.content.SameBank(), w.reason(2))
	case "return-receipt":
		return ledger.AppendReturnReceipt(nil, s.back.id, s.back.content, w.reason(1), true)

	case "capped":
		return ledger.AppendCap(s.reserve(), s.id, s.content, ledger.Day, uint32(w.n(1)))
	case "void-cap":
		return ledger.AppendCapVoid(s.void(w.reason(1)), s.id, w.reason(1))
	case "release":
		return ledger.AppendCapRelease(nil, s.id, w.reason(1))
	case "receipt-release":
		return ledger.AppendCapRelease(s.receipt(w.reason(1)), s.id, w.reason(1))

	case "act": // of the central bank, with the words as its id
		act := ledger.Act{Kind: actKinds[w[1]], Bank: s.content.Payer.ISPB, Centavos: w.n(2), ByCentralBank: true}
		if act.Kind == ledger.Deposit {
			act.Account = s.content.Payer
		}
		kit.Must(s.t, act.Validate())

		return ledger.AppendAct(nil, keys.CentralBank, fmt.Sprint(act.Bank, w[1:3]), act)
	case "marker":
		m := ledger.Marker{Banks: uint32(w.n(1)), Customers: 5000, DepositCentavos: 1e12, ReserveCentavos: 1e15}
		return []tb.Transfer{m.Transfer()}
	case "origin":
		return []tb.Transfer{ledger.Origin{Log: 7, Partition: 3, Offset: w.n(1), Hash: [16]byte{1, 2}}.Transfer()}
	}
	s.t.Fatalf("%q is no word", verb)

	return nil
}

var actKinds = map[string]ledger.ActKind{
	"opening": ledger.Opening, "joined": ledger.Joined, "suspended": ledger.Suspended,
	"in": ledger.LiquidityIn, "out": ledger.LiquidityOut, "deposit": ledger.Deposit,
}

// changed returns a chain with a change to each transfer, or to the chain.
func (s *scene) changed(change string, chain []tb.Transfer) []tb.Transfer {
	if slots, marks := strings.CutPrefix(change, "burnt"); marks {
		var burnt ledger.BurntSlots
		for _, slot := range slots {
			burnt = burnt.Add(int(slot - '0'))
		}

		return ledger.AppendBurntMarks(chain, s.id, burnt)
	}

	switch change {
	case "open":
		return chain[:2]
	case "two":
		chain[1].Flags &^= tb.TransferFlags{Linked: true}.ToUint16()
		return chain[:2]
	}

	for i := range chain {
		t := &chain[i]

		switch change {
		case "id":
			t.ID = tb.ID()
		case "amount":
			t.Amount = tb.ToUint128(amount + 1)
		case "nothing":
			t.Amount = tb.Uint128{}
		case "timeout":
			t.Timeout++
		case "payer":
			t.DebitAccountID = tb.ID()
		case "code":
			t.Code += 100
		case "data128":
			t.UserData128 = tb.ToUint128(1)
		case "data64":
			t.UserData64++
		case "data32":
			t.UserData32++
		}
	}

	return chain
}

// change does what a word changes; false: it is a word for what is sent.
func (s *scene) change(verb string, w words) bool {
	payer := s.content.Payer

	switch verb {
	case "amount":
		s.content.AmountCentavos = uint64(w.n(1))
	case "timeout":
		s.timeout = uint32(w.n(1))
	case "payee":
		s.content.Payee = s.someone(w[1], s.content.Payee.ISPB)
	case "payer":
		s.content.Payer = s.someone(w[1], payer.ISPB)
		s.id = newID(s.t, s.content.Payer.ISPB)
	case "payment": // the n-th; the next one is new
		if int(w.n(1)) > len(s.payments) {
			s.payments = append(s.payments, newPaymentBetween(s.t, payer, s.content.Payee))
		}
		s.payment = s.payments[w.n(1)-1]
	case "return":
		s.back = s.giveBack(s.t, uint64(w.n(1)))
	case "spend": // all that the payer has
		kit.Must(s.t, fund(ledger.CustomerAccount(payer), ledger.TransitAccount(payer.ISPB), deposit))
	case "fund-payer":
		kit.Must(s.t, fund(ledger.TransitAccount(payer.ISPB), ledger.CustomerAccount(payer), deposit))
	case "fund-reserve":
		kit.Must(s.t, fund(ledger.IssuanceAccount, ledger.ReserveAccount(payer.ISPB), deposit))
	case "open-payee":
		kit.Must(s.t, createAccounts(ledger.NewAccount(ledger.CustomerAccount(s.content.Payee))))
	case "cap":
		if s.cap == 0 {
			kit.Must(s.t, createAccounts(ledger.NewAccount(ledger.AllowanceAccount(payer.ISPB, ledger.Day))))
		}
		before := s.allowance()
		s.cap = w.n(1)
		expect(s.t, before.AppendAdjustment(nil, s.cap), "OK")

		if after := s.allowance(); !after.Fits(s.cap) || after == before {
			s.t.Errorf("the allowance was %+v and is %+v", before, after)
		}

		if late := shared.write(s.t, before.AppendAdjustment(nil, 5000)); !late.Exists() {
			s.t.Errorf("a second adjustment of one version: %+v", late)
		}
	case "join": // the payer's bank
		kit.Must(s.t, createAccounts(ledger.NewAccount(ledger.BooksAccount(payer.ISPB))))
		s.do(fmt.Sprintf("act opening %d OK", reserve-deposit))
		s.do("act joined 0 OK")
	default:
		return false
	}

	return true
}

// read returns what is so.
func (s *scene) read(what string) string {
	payer, psp := ledger.CustomerAccount(s.content.Payer), s.content.Payer.ISPB

	switch what {
	case "money":
		return s.money(s.t)
	case "balance":
		return fmt.Sprint(balancesOf(s.t, payer)[0].posted)
	case "held":
		return fmt.Sprint(balancesOf(s.t, payer)[0].pending)
	case "returned":
		return fmt.Sprint(balancesOf(s.t, ledger.CustomerAccount(s.content.Payee))[0].pending)
	case "content":
		return map[bool]string{true: "same", false: "other"}[shared.trace(s.t, s.id).SameContent(s.id, s.content)]
	case "transfers": // that a query finds, and that name the payment
		found, err := client.QueryTransfers(tb.QueryFilter{UserData128: s.reserve()[0].UserData128, Limit: 100})
		kit.Must(s.t, err)

		for _, transfer := range found {
			if id, err := ledger.EndToEndIDOf(transfer); err != nil || id != s.id {
				return fmt.Sprintf("%+v, which names %s, %v", transfer, id, err)
			}
		}

		return fmt.Sprint(len(found))
	case "leg-4":
		return map[bool]string{true: "yes", false: "no"}[shared.trace(s.t, s.id).Capped()]
	case "verdict":
		verdict, decided := shared.trace(s.t, s.id).Verdict()
		switch {
		case !decided:
			return "none"
		case verdict.Settled:
			return "settled"
		}

		return verdict.Reason.String()
	case "return-left", "burnt": // as another return sees it
		trace := shared.returnTrace(s.t, s.giveBack(s.t, amount))
		if what == "burnt" {
			return fmt.Sprintf("%b", trace.Burnt())
		}

		return fmt.Sprint(trace.Left(shared.lookup(s.t, trace.AppendOthers(nil))))
	case "granted":
		return fmt.Sprint(s.allowance().Centavos())
	case "left":
		return fmt.Sprint(s.allowance().Left(s.cap))
	case "books": // they are reserve + transit
		got := balancesOf(s.t, ledger.ReserveAccount(psp), ledger.TransitAccount(psp), ledger.BooksAccount(psp))
		if money := got[0].posted + got[1].posted; money != got[2].posted {
			return fmt.Sprintf("%d, and reserve and transit are %d", got[2].posted, money)
		}

		return fmt.Sprint(got[2].posted)
	case "origin": // by its id, and by its code
		byID := shared.lookup(s.t, []tb.Uint128{ledger.OriginID(7, 3)})

		byCode, err := client.QueryTransfers(tb.QueryFilter{Code: ledger.CodeOrigin, Limit: 10})
		if err != nil || len(byID) != 1 || !slices.Equal(byID, byCode) {
			return fmt.Sprintf("%+v and %+v, %v", byID, byCode, err)
		}

		return fmt.Sprint(ledger.OriginOf(byID[0]).Offset)
	}
	s.t.Fatalf("%q is no word", what)

	return ""
}

// someone is a customer by a word; some are not in the ledger.
func (s *scene) someone(who string, psp pix.ISPB) pix.Account {
	switch who {
	case "first":
		return s.payee
	case "payer":
		return s.content.Payer
	case "another": // of the bank
		return newCustomer(s.t, psp, 0)
	case "near":
		return newCustomer(s.t, s.content.Payer.ISPB, 0)
	case "elsewhere":
		return newCustomer(s.t, newPSP(s.t, reserve), 0)
	case "poor":
		return newCustomer(s.t, newPSP(s.t, amount-1), deposit)
	case "missing":
		return noCustomer(psp)
	case "nowhere":
		return noCustomer("ZZZZZZZZ")
	}
	s.t.Fatalf("%q is nobody", who)

	return pix.Account{}
}

func (s *scene) allowance() ledger.Grant {
	found, err := client.LookupAccounts([]tb.Uint128{ledger.AllowanceAccount(s.content.Payer.ISPB, ledger.Day)})
	if err != nil || len(found) != 1 {
		s.t.Fatal(found, err)
	}

	return ledger.GrantOf(found[0])
}
