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
			ledger.BooksAccount(psp): booksOf(of), ledger.AllowanceAccount(psp, ledger.Day): allowanceOf(of, 0), ledger.AllowanceAccount(psp, ledger.Night): allowanceOf(of, 1),
			ledger.RegisterAccount: register, ledger.AllowanceSourceAccount: allowanceSource,
		} {
			account := ledger.NewAccount(theirs)
			if want := chart[kindOf(ours)]; fromTigerBeetle(theirs) != ours || account.Ledger != want.ledger || account.AccountFlags().DebitsMustNotExceedCredits != want.guarded {
				t.Errorf("%s: %+v, it must be in ledger %d", nameOf(ours), account, want.ledger)
			}
		}
	}
}

func TestEachFaultOfTheRegisterIsFound(t *testing.T) {
	liquidity := func(h *history) { h.act(codeLiquidityIn, aliceBooks, tb.Transfer{Amount: tb.ToUint128(700)}) }
	unrecorded := func(h *history) {
		liquidity(h)
		h.add(register, -700, 0)
		h.add(aliceBooks, 0, -700)
		h.transfers = h.transfers[:len(h.transfers)-1]
	}
	for _, fault := range []struct {
		name, kind string
		spoil      func(h *history)
	}{
		{"money without an act", MoneyWithoutAct, unrecorded},
		{"money without an act breaks the law of the books", BrokenLaw, unrecorded},
		{"an act without its money", WrongAct, func(h *history) {
			liquidity(h)
			h.add(issuance, -700, 0)
			h.add(reserveOf(aliceBooks), 0, -700)
			h.transfers = append(h.transfers[:len(h.transfers)-2], *h.last(1))
		}},
		{"a record of less than its money", WrongAct, func(h *history) {
			liquidity(h)
			h.last(1).Amount = tb.ToUint128(699)
			h.add(register, -1, 0)
			h.add(aliceBooks, 0, -1)
		}},
		{"a record of another chain than its money", WrongAct, func(h *history) { liquidity(h); h.last(1).Timestamp++ }},
		{"a record with another act's id", WrongAct, func(h *history) { liquidity(h); h.last(1).ID = tb.ToUint128(0x770a) }},
		{"a record with the role of money", WrongAct, func(h *history) {
			h.act(codeSuspended, aliceBooks, tb.Transfer{})
			h.last(1).ID = tb.ToUint128(0x770b)
		}},
		{"money with the role of a record", WrongAct, func(h *history) {
			liquidity(h)
			key, _ := split(fromTigerBeetle(h.last(2).ID))
			h.last(2).ID = key.role(recordRole + 2).toTigerBeetle()
		}},
		{"more than an act may move", WrongAct, func(h *history) {
			h.act(codeLiquidityIn, aliceBooks, tb.Transfer{Amount: tb.ToUint128(actCentavosMax + 1)})
		}},
		{"a record in the wrong direction", WrongAct, func(h *history) {
			liquidity(h)
			h.last(1).DebitAccountID, h.last(1).CreditAccountID = h.last(1).CreditAccountID, h.last(1).DebitAccountID
		}},
		{"a suspension that moves books", WrongAct, func(h *history) {
			h.act(codeSuspended, aliceBooks, tb.Transfer{Amount: tb.ToUint128(1)})
		}},
		{"liquidity out to another bank's reserve", UnexplainedMoney, func(h *history) {
			h.act(codeLiquidityOut, aliceBooks, tb.Transfer{Amount: tb.ToUint128(1)})
			h.last(2).CreditAccountID = reserveOf(brunoBooks).toTigerBeetle()
		}},
		{"a deposit to another bank's customer", WrongAct, func(h *history) {
			h.act(codeDeposit, aliceBooks, tb.Transfer{Amount: tb.ToUint128(1), UserData128: idOf(bruno).toTigerBeetle()})
		}},
		{"an act of a code that does not exist", WrongAct, func(h *history) { h.act(31, aliceBooks, tb.Transfer{}) }},
		{"an act between two banks", WrongAct, func(h *history) {
			h.act(codeSuspended, aliceBooks, tb.Transfer{})
			h.last(1).DebitAccountID = brunoBooks.toTigerBeetle()
		}},
		{"an act of a bank that has not joined", WrongAct, func(h *history) {
			h.open(booksOf(idOf(zoe)))
			h.act(codeSuspended, booksOf(idOf(zoe)), tb.Transfer{})
		}},
		{"a window that is too short", WrongAct, func(h *history) {
			h.act(codeDayCap, aliceBooks, tb.Transfer{UserData64: 5, UserData32: 119})
		}},
		{"a cap above the highest", WrongAct, func(h *history) {
			h.act(codePaymentCap, aliceBooks, tb.Transfer{UserData64: actCentavosMax + 1})
		}},
		{"a key without a digest", WrongAct, func(h *history) { h.act(codeKeyNamed, aliceBooks, tb.Transfer{}) }},
		{"an account of another bank is blocked", WrongAct, func(h *history) {
			h.act(codeAccountBlocked, aliceBooks, tb.Transfer{UserData128: idOf(bruno).toTigerBeetle()})
		}},
		{"a suspension by a bank", WrongAct, func(h *history) {
			h.act(codeSuspended, aliceBooks, tb.Transfer{})
			h.last(1).UserData32 = 0
		}},
		{"an act by a third party", WrongAct, func(h *history) { h.act(codeSuspended, aliceBooks, tb.Transfer{UserData32: 2}) }},
		{"an opening is missing", WrongFunding, func(h *history) {
			opening := h.find(brunoBooks)
			amount, _ := centavos(opening.Amount)
			h.add(register, 0, -int64(amount))
			h.add(brunoBooks, -int64(amount), 0)
			h.drop(brunoBooks)
		}},
		{"an opening of one centavo more", WrongFunding, func(h *history) {
			opening := h.find(brunoBooks)
			amount, _ := centavos(opening.Amount)
			opening.Amount = tb.ToUint128(amount + 1)
			h.add(register, 0, 1)
			h.add(brunoBooks, 1, 0)
		}},
		{"a second opening", WrongFunding, func(h *history) { h.opening(brunoBooks, moneyOf(5)); h.last(1).ID = tb.ToUint128(4711) }},
		{"books that moved without a transfer", WrongBalance, func(h *history) { h.add(aliceBooks, 1, 1) }},
		{"books in the ledger of money", WrongAccount, func(h *history) { h.accountOf(aliceBooks).Ledger = ledgerNumber }},
		{"an allowance that may be overdrawn", WrongAccount, func(h *history) { h.accountOf(allowanceOf(aliceBooks, 0)).Flags = 0 }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			h := withRegister(t)
			h.actsOfAllKinds()
			fault.spoil(h)
			if verdict := h.audit(); verdict.ByKind[fault.kind] == 0 {
				t.Fatalf("found are %+v; there must be %q", verdict.Findings, fault.kind)
			}
		})
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
	if verdict := h.audit(); verdict.ByKind[BrokenLaw] != 1 || !strings.Contains(verdict.Findings[0].Detail+verdict.Findings[1].Detail, "books") {
		t.Fatalf("%+v", verdict.Findings)
	}
}
