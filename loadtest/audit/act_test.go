package audit

import (
	"strings"
	"testing"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"

	"github.com/liquida/liquida/loadtest/audit/spec"
)

var (
	aliceBooks, brunoBooks = spec.BooksOf(idOf(alice)), spec.BooksOf(idOf(bruno))
	// zoe is a customer of a bank that joins at run time.
	zoe = pix.Account{ISPB: "12345678", Branch: "0001", Number: "1"}
)

// withRegister returns the clean history with a register: both banks have joined.
func withRegister(t *testing.T) *history {
	h := clean(t)
	h.open(spec.Register, aliceBooks, brunoBooks, spec.AllowanceSource)

	for _, books := range []spec.AccountID{aliceBooks, brunoBooks} {
		opening, _ := spec.PopulationIn(populationMoney, populationCount).Opening(books)
		h.open(spec.AllowanceOf(books, 0), spec.AllowanceOf(books, 1))
		h.opening(books, opening)
		h.act(spec.CodeJoined, books, tb.Transfer{})
	}

	return h
}

func (h *history) open(ids ...spec.AccountID) {
	for _, id := range ids {
		account := h.account(id)
		account.Ledger = spec.Chart[spec.KindOf(id)].Ledger
		h.accounts = append(h.accounts, account)
	}
}

func (h *history) opening(books spec.AccountID, amount spec.Money) {
	debit, credit := spec.Register, books
	if amount.Less(spec.Money{}) {
		debit, credit, amount = books, spec.Register, spec.Money{}.Minus(amount)
	}
	h.move(spec.CodeOpening, debit, credit, amount.Low)
	t := h.last(1)
	t.ID, t.Ledger = books.TigerBeetle(), spec.BooksLedger
}

func (h *history) last(n int) *tb.Transfer { return &h.transfers[len(h.transfers)-n] }

// act adds an act's record, and its money before it. what says amount and user_data.
func (h *history) act(code uint16, books spec.AccountID, what tb.Transfer) {
	key := spec.Number{High: uint64(len(h.transfers)), Low: 0xabcd0}

	if code <= spec.CodeLiquidityOut && what.UserData32 == 0 {
		what.UserData32 = 1 // by the central bank
	}
	amount, _ := spec.Centavos(what.Amount)
	add := func(role int, ledger uint32, debit, credit spec.AccountID) {
		h.move(code, debit, credit, amount)
		t := h.last(1)
		t.ID, t.Ledger = key.Role(role).TigerBeetle(), ledger
		t.UserData128, t.UserData64, t.UserData32 = what.UserData128, what.UserData64, what.UserData32
		h.stamp()
	}

	debit, credit, moves := spec.MoneyOfAct(code, books, spec.NumberOf(what.UserData128))
	if moves {
		add(spec.MoneyRole, spec.LedgerNumber, debit, credit)
		h.last(1).Flags = spec.LinkedFlag
	}

	from, to := spec.Register, books
	if spec.FromBooks(code) {
		from, to = to, from
	}
	add(spec.RecordRole, spec.BooksLedger, from, to)

	if moves {
		h.last(1).Timestamp = h.last(2).Timestamp + 1
	}
}

// actsOfAllKinds adds one act of every kind as the services write it, so that nothing is in the way of other payments.
// The two derivations of acts meet only here and in the worlds.
func (h *history) actsOfAllKinds() {
	for kind := ledger.Joined; kind < ledger.Opening; kind++ {
		act := ledger.Act{Kind: kind, Bank: alice.ISPB, ByCentralBank: true}
		switch {
		case kind.OfAccount():
			act.Account = alice
		case kind.HasDigest():
			act.Digest = ledger.ActDigest([]byte("123456789012345678901234"))
		case kind == ledger.PaymentCapped:
			act.Centavos = ledger.ActCentavosMax
		case kind.Caps():
			act.WindowSeconds = ledger.WindowSecondsMin
		}

		if kind.MovesMoney() {
			act.Centavos = 7
		}
		kit.Must(h.t, act.Validate())

		chain := ledger.AppendAct(nil, "central-bank", "a.1_"+kind.String(), act)
		for i := range chain {
			h.stamp()
			chain[i].Timestamp = h.last(1).Timestamp + 1000 + uint64(i)
		}
		h.write(chain)
	}
}

func TestARegisterPasses(t *testing.T) {
	h := withRegister(t)
	h.actsOfAllKinds()
	h.open(spec.BooksOf(idOf(zoe)), spec.AllowanceOf(idOf(zoe), 0), spec.AllowanceOf(idOf(zoe), 1))

	for _, id := range []spec.AccountID{spec.ReserveOf(idOf(zoe)), spec.TransitOf(idOf(zoe)), idOf(zoe)} {
		h.open(id)
	}
	h.act(spec.CodeJoined, spec.BooksOf(idOf(zoe)), tb.Transfer{UserData32: 1})
	h.act(spec.CodeLiquidityIn, spec.BooksOf(idOf(zoe)), tb.Transfer{Amount: tb.ToUint128(spec.ActCentavosMax)})

	verdict := h.finds("acts", "", 0)
	if total(verdict.Summary.Acts) != 2+18+2 {
		t.Fatalf("%v\n%v\n%+v", verdict, verdict.Summary.Acts, verdict.Findings)
	}

	if want := spec.MoneyOf(2*reserveCentavos + spec.ActCentavosMax); verdict.Summary.IssuanceCentavos != want {
		t.Fatalf("%v issued, it must be %v", verdict.Summary.IssuanceCentavos, want)
	}
}

// Totals above 2^63 and 2^64 are judged as any other.
func TestTotalsThatOutgrow64Bits(t *testing.T) {
	h := withRegister(t)

	const amount, times = 1<<63 - 1, 6
	for i := range times {
		from, to := alice, bruno
		if i%2 == 1 {
			from, to = bruno, alice
		}
		h.clear(h.order(from, to, amount), "", 1, 2, 3)
	}

	verdict := h.finds("above 64 bits", "", 0)
	if got := verdict.Summary.SettledCentavos.String(); got != "55340232221128656092" { // 6 · (2^63 − 1) + 1,250
		t.Fatal(got)
	}
	h.add(aliceBooks, 1, 0)

	if verdict := h.audit(); verdict.ByKind[BrokenLaw] != 1 ||
		!strings.Contains(verdict.Findings[0].Detail+verdict.Findings[1].Detail, "books") {
		t.Fatalf("%+v", verdict.Findings)
	}
}
