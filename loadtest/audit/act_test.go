package audit

import (
	"strings"
	"testing"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

var (
	aliceBooks, brunoBooks = booksOf(idOf(alice)), booksOf(idOf(bruno))
	// zoe is a customer of a bank that joins at run time.
	zoe = pix.Account{ISPB: "12345678", Branch: "0001", Number: "1"}
)

// withRegister returns the clean history with a register: both banks have joined.
func withRegister(t *testing.T) *history {
	h := clean(t)
	h.open(register, aliceBooks, brunoBooks, allowanceSource)

	for i, books := range []accountID{aliceBooks, brunoBooks} {
		h.open(allowanceOf(books, 0), allowanceOf(books, 1))
		h.opening(books, populationIn(populationMoney, populationCount).opening(uint64(i)))
		h.act(codeJoined, books, tb.Transfer{})
	}

	return h
}

func (h *history) open(ids ...accountID) {
	for _, id := range ids {
		account := h.account(id)
		account.Ledger = chart[kindOf(id)].ledger
		h.accounts = append(h.accounts, account)
	}
}

func (h *history) opening(books accountID, amount money) {
	debit, credit := register, books
	if amount.less(money{}) {
		debit, credit, amount = books, register, money{}.minus(amount)
	}
	h.move(codeOpening, debit, credit, amount.low)
	t := h.last(1)
	t.ID, t.Ledger = books.toTigerBeetle(), booksLedger
}

func (h *history) last(n int) *tb.Transfer { return &h.transfers[len(h.transfers)-n] }

// act adds an act's record, and its money before it. what says amount and user_data.
func (h *history) act(code uint16, books accountID, what tb.Transfer) {
	key := number128{high: uint64(len(h.transfers)), low: 0xabcd0}

	if code <= codeLiquidityOut && what.UserData32 == 0 {
		what.UserData32 = 1 // by the central bank
	}
	amount, _ := centavos(what.Amount)
	add := func(role int, ledger uint32, debit, credit accountID) {
		h.move(code, debit, credit, amount)
		t := h.last(1)
		t.ID, t.Ledger = key.role(role).toTigerBeetle(), ledger
		t.UserData128, t.UserData64, t.UserData32 = what.UserData128, what.UserData64, what.UserData32
		h.stamp()
	}

	debit, credit, moves := moneyOfAct(code, books, fromTigerBeetle(what.UserData128))
	if moves {
		add(moneyRole, ledgerNumber, debit, credit)
		h.last(1).Flags = linkedFlag
	}

	from, to := register, books
	if fromBooks(code) {
		from, to = to, from
	}
	add(recordRole, booksLedger, from, to)

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
	h.open(booksOf(idOf(zoe)), allowanceOf(idOf(zoe), 0), allowanceOf(idOf(zoe), 1))

	for _, id := range []accountID{reserveOf(idOf(zoe)), transitOf(idOf(zoe)), idOf(zoe)} {
		h.open(id)
	}
	h.act(codeJoined, booksOf(idOf(zoe)), tb.Transfer{UserData32: 1})
	h.act(codeLiquidityIn, booksOf(idOf(zoe)), tb.Transfer{Amount: tb.ToUint128(actCentavosMax)})

	verdict := h.finds("acts", "", 0)
	if total(verdict.Summary.Acts) != 2+18+2 {
		t.Fatalf("%v\n%v\n%+v", verdict, verdict.Summary.Acts, verdict.Findings)
	}

	if want := moneyOf(2*reserveCentavos + actCentavosMax); verdict.Summary.IssuanceCentavos != want {
		t.Fatalf("%v issued, it must be %v", verdict.Summary.IssuanceCentavos, want)
	}
}

func TestAccountsOfTheRegisterAgreeWithThePlatform(t *testing.T) {
	for _, psp := range []pix.ISPB{alice.ISPB, zoe.ISPB} {
		of := bankNamed(endToEndID([]byte("E" + string(psp) + "20260504030200000000001")[:32]))
		for theirs, ours := range map[ledger.AccountID]accountID{
			ledger.BooksAccount(psp): booksOf(of), ledger.AllowanceAccount(psp, ledger.Day): allowanceOf(of, 0),
			ledger.AllowanceAccount(psp, ledger.Night): allowanceOf(of, 1),
			ledger.RegisterAccount:                     register, ledger.AllowanceSourceAccount: allowanceSource,
		} {
			account := ledger.NewAccount(theirs)
			if want := chart[kindOf(ours)]; fromTigerBeetle(theirs) != ours || account.Ledger != want.ledger ||
				account.AccountFlags().DebitsMustNotExceedCredits != want.guarded {
				t.Errorf("%s: %+v, it must be in ledger %d", nameOf(ours), account, want.ledger)
			}
		}
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
