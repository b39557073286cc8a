package ledgerfacts

import (
	"strings"
	"testing"
)

// fact is something that the server does and our code relies on. sent is told in words, in order: what is sent and the
// server's answer by TigerBeetle's name for it (`post Exists`; `hold ExceedsCredits@1` if the second leg has it), what
// changes before the next request (`amount 101`), and what must be true (`money is 100,0`: held, moved) or come true
// (`left becomes 100`). words_test.go has the words. Each fact has accounts of its own: payer and payee own 1000, and
// the payment is of 100.
type fact struct{ name, relies, sent string }

// settled is what comes before each return.
const settled = "hold OK; post OK; "

var facts = []fact{
	{"a hold is taken once", "engine: a redelivered order", "hold OK; hold Exists; money is 100,0"},
	{"a post is taken once", "engine: a redelivery after the verdict",
		"hold OK; post OK; post Exists; hold Exists; money is 0,100"},
	{"a void is taken once", "engine: a redelivery after the verdict",
		"hold OK; void AC07 OK; void AC07 Exists; hold Exists; money is 0,0"},
	{"another hold with the ids", "ledger.Result.Exists: each of these is the same id with other content",
		"hold OK; hold/amount ExistsWithDifferentAmount; hold/timeout ExistsWithDifferentTimeout;" +
			"hold/payer ExistsWithDifferentDebitAccountID; hold/code ExistsWithDifferentCode;" +
			"hold/data128 ExistsWithDifferentUserData128; hold/data64 ExistsWithDifferentUserData64;" +
			"hold/data32 ExistsWithDifferentUserData32"},
	{"legs after the first are not compared", "engine: it compares contents itself, ledger.Trace.SameContent",
		"hold OK; payee another; hold Exists; content is other; payee elsewhere; hold Exists; content is other;" +
			"payee near; hold Exists; content is other; payee first; content is same; money is 100,0"},
	{"no void after a post", "engine: one verdict",
		"hold OK; post OK; void AB03 ExistsWithDifferentFlags; money is 0,100"},
	{"no post after a void", "engine: one verdict",
		"hold OK; void AB03 OK; post ExistsWithDifferentFlags; money is 0,0"},
	{"the first reason stays", "ledger.Trace.Verdict",
		"hold OK; void AC07 OK; void AB03 ExistsWithDifferentUserData32; verdict is AC07"},
	{"a post under other ids", "engine: whoever ends a hold first has ended it",
		"hold OK; post OK; void/id AB03 PendingTransferAlreadyPosted; post/id PendingTransferAlreadyPosted"},
	{"a void under other ids", "engine: whoever ends a hold first has ended it",
		"hold OK; void AB03 OK; void/id AB03 PendingTransferAlreadyVoided; post/id PendingTransferAlreadyVoided"},
	{"a post of nothing burns its id", "engine: it never posts what it has not read",
		"post PendingTransferNotFound; hold OK; post IDAlreadyFailed; void AB03 IDAlreadyFailed;" +
			"receipt AB03 IDAlreadyFailed"},
	{"a post of amount 0 posts nothing", "ledger.AppendPost: it names the whole amount",
		"hold OK; post/nothing OK; money is 0,0"},
	{"posts inherit what names their payment", "ledger.EndToEndIDOf: in the audit, and for whoever asks by payment",
		"hold OK; post OK; transfers is 6"},
	{"voids inherit what names their payment", "ledger.EndToEndIDOf: in the audit, and for whoever asks by payment",
		"hold OK; void AC07 OK; transfers is 6"},
	{"a chain is closed in its request", "ledger.Writer: it never cuts a chain", "hold/open LinkedEventChainOpen@1"},

	{"a payer is short, and stays so", "engine: the id is burnt, and the receipt has another",
		"amount 1001; hold ExceedsCredits; money is 0,0; fund-payer; hold IDAlreadyFailed; receipt LQ01 OK"},
	{"more than anybody has", "engine: an amount that no balance can reach", "amount most; hold ExceedsCredits"},
	{"all that a payer has, and one more", "engine: holds count",
		"amount 1000; hold OK; payment 2; amount 1; hold ExceedsCredits"},
	{"a reserve is short, and stays so", "engine: the leg says who is short",
		"payer poor; hold ExceedsCredits@1; fund-reserve; hold IDAlreadyFailed@1; receipt AM04 OK"},
	{"a payee is missing, and only its leg is burnt", "engine: the leg says who is missing",
		"payee missing; hold CreditAccountNotFound@2; open-payee; hold IDAlreadyFailed@2; hold/two OK"},
	{"a payee is missing inside one bank", "engine: the code says which leg it is",
		"payee near; payee missing; hold CreditAccountNotFound@1"},
	{"a payer is missing", "engine: refused with a receipt",
		"payer missing; hold DebitAccountNotFound; receipt AC02 OK"},
	{"a payee's bank is missing", "engine: refused with a receipt",
		"payee nowhere; hold CreditAccountNotFound@1; receipt RC10 OK"},
	{"a payer's bank is missing", "engine: a receipt needs accounts that are there",
		"payer nowhere; hold DebitAccountNotFound; stray-receipt RC09 OK; stray-receipt RC09 Exists"},
	{"a receipt against a missing account burns the verdict's id", "engine: it looks for the payer's bank first",
		"payer nowhere; receipt RC09 DebitAccountNotFound; stray-receipt RC09 IDAlreadyFailed"},
	{"the first failing leg has the result", "engine: a later refusal may have another reason",
		"payee missing; hold CreditAccountNotFound@2; spend; hold ExceedsCredits"},

	{"a receipt is taken once", "engine: a refused order that comes again, as it was or not",
		"receipt AC07 OK; receipt AC07 Exists; receipt AB03 ExistsWithDifferentUserData32; verdict is AC07; content is same;" +
			"amount 101; receipt AC07 ExistsWithDifferentUserData64; content is other; amount 100; money is 0,0"},
	{"a receipt stops the verdict, not the hold", "engine: the hold's timeout gives the money back",
		"timeout 1; receipt AC07 OK; hold OK; post ExistsWithDifferentFlags; void AC07 ExistsWithDifferentFlags;" +
			"money is 100,0; held becomes 0; money is 0,0"},
	{"no receipt after a post", "engine: one verdict", "hold OK; post OK; receipt AB03 ExistsWithDifferentFlags"},
	{"no receipt after a void", "engine: one verdict", "hold OK; void AB03 OK; receipt AB03 ExistsWithDifferentFlags"},

	{"an expired hold takes a receipt only", "engine: a verdict after the timeout",
		"timeout 1; hold OK; held becomes 0; money is 0,0; post PendingTransferExpired; post PendingTransferExpired;" +
			"void AC07 PendingTransferExpired; hold Exists; receipt AB03 OK; receipt AB03 Exists;" +
			"post ExistsWithDifferentFlags; void AB03 ExistsWithDifferentFlags; verdict is AB03; content is same; money is 0,0"},
	{"a post before the timeout stays", "engine: what was settled is settled",
		"timeout 1; hold OK; post OK; payment 2; timeout 1; hold OK; held becomes 0; payment 1; post Exists;" +
			"void AB03 ExistsWithDifferentFlags; money is 0,100"},
	{"payer and payee are one account", "engine: it is a payment as any other",
		"payee payer; hold OK; post OK; balance is 1000"},
	{"inside one bank", "ledger.AppendReserve: two legs",
		"payee near; hold OK; hold Exists; money is 100,0; post OK; post Exists; void AB03 ExistsWithDifferentFlags;" +
			"content is same; money is 0,100"},

	{"a return is taken once", "engine: a redelivered return", settled +
		"return 40; return-hold 0 OK; return-hold 0 Exists; return-post 0 OK; return-post 0 Exists; return-hold 0 Exists;" +
		"money is 0,60"},
	{"no other end after a return's post", "engine: one verdict", settled +
		"return 40; return-hold 0 OK; return-post 0 OK; return-void 0 AB03 ExistsWithDifferentUserData32;" +
		"return-receipt AB03 ExistsWithDifferentFlags; money is 0,60"},
	{"no other end after a return's receipt", "engine: one verdict", settled +
		"return 40; return-hold 0 OK; return-receipt AB03 OK; return-receipt AB03 Exists;" +
		"return-post 0 ExistsWithDifferentFlags; return-void 0 AB03 ExistsWithDifferentFlags; money is -40,100"},
	{"a voided return", "engine: one verdict", settled +
		"return 40; return-hold 0 OK; return-void 0 AC07 OK; return-void 0 AC07 Exists;" +
		"return-post 0 ExistsWithDifferentUserData32; money is 0,100"},
	{"a slot is of one return", "engine: returns that race for a slot", settled +
		"return 40; return-hold 0 OK; return 40; return-hold 0 ExistsWithDifferentUserData128; money is -40,100"},
	{"a refused return burns its slot", "ledger.ReturnTrace.FreeSlot: it passes burnt slots", settled +
		"return 1101; return-hold 0 ExceedsCredits; return 1; return-hold 0 IDAlreadyFailed; return-hold 1 OK; money is -1,100"},
	{"marks of burnt slots are added once", "ledger.ReturnTrace.Burnt: a redelivery adds the missing ones", settled +
		"return 1101; return-hold 0 ExceedsCredits; return-receipt/burnt0 AB03 OK; return-receipt/burnt01 AB03 Exists;" +
		"return 1; return-hold/burnt03 2 OK; burnt is 1011; money is -1,100"},
	{"an expired return takes a receipt only",
		"ledger.ReturnTrace.Left: until a verdict, its money is not free", settled +
			"timeout 1; return 40; return-hold 0 OK; returned becomes 0; return-post 0 PendingTransferExpired@1; return-left is 60;" +
			"return-receipt AB03 OK; return-left is 100; money is 0,100"},

	{"leg 4 takes what a cap leaves", "engine: no centavo above a cap, and a refusal burns leg 4 only",
		"cap 250; capped 605 OK; payment 2; capped 605 OK; payment 3; capped 605 ExceedsCredits@3;" +
			"capped 605 IDAlreadyFailed@3; leg-4 is no; left is 50; payment 1; leg-4 is yes; capped 609 Exists; hold Exists;" +
			"post OK; left is 50; void-cap AC06 ExistsWithDifferentFlags; left is 50; payment 2; void-cap AC06 OK; left is 150;" +
			"void-cap AC06 Exists; payment 3; capped 605 IDAlreadyFailed@3; hold OK"},
	{"a leg 4 that has ended stops the void", "engine: then it voids the other legs",
		"cap 1000; capped 1 OK; payment 2; capped 1 OK; payment 1; release AC06 OK; void-cap AC06 Exists@3;" +
			"left becomes 1000; payment 2; void-cap AC06 PendingTransferExpired@3; verdict is none; void AC06 OK;" +
			"payment 1; verdict is none; void AC06 OK"},
	{"the next window is free", "ledger.AppendCap: leg 4 is never posted, its timeout is the window's end",
		"cap 100; capped 1 OK; post OK; left becomes 100; payment 2; timeout 1; capped 600 OK; held becomes 0; left is 0;" +
			"receipt-release AB03 OK; left is 100; receipt-release AB03 Exists; left is 100;" +
			"payment 3; capped 1 OK; left becomes 100; release AB03 OK"},
	{"a lower cap takes what is free", "ledger.Grant.AppendAdjustment: a balancing transfer, one for each version",
		"cap 250; capped 605 OK; cap 150; granted is 150; cap 50; granted is 100; cap 20; granted is 100; void-cap AC06 OK;" +
			"cap 20; left is 20"},

	{"an act moves money and its mirror together, once", "producer: a repeated act",
		"join; books is 999000; act in 500 OK;" +
			"act in 500 Exists; books is 999500; act deposit 70 OK; act deposit 70 Exists; books is 999430; act suspended 0 OK;" +
			"act suspended 0 Exists; act out 1000501 ExceedsCredits; act out 1000501 IDAlreadyFailed; books is 999430"},
	{"held money does not leave a reserve", "producer: liquidity goes out as far as it is free",
		"join; hold OK; act out 999901 ExceedsCredits; act out 999900 OK"},

	{"the marker is written once", "bootstrap: a ledger is funded once",
		"marker 5 OK|Exists; marker 5 Exists; marker 6 ExistsWithDifferentUserData64"},
	{"the first name of a log stays", "origin: all engines go by one log",
		"origin 5 OK|Exists; origin 5 Exists; origin/data128 5 ExistsWithDifferentUserData128;" +
			"origin 6 ExistsWithDifferentUserData64; origin 5 Exists; origin is 5"},
}

// TestAnswers sends what each fact tells.
func TestAnswers(t *testing.T) {
	for _, f := range facts {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()

			s := newScene(t)
			for i, sentence := range strings.Split(f.sent, ";") {
				if s.do(sentence); t.Failed() {
					t.Fatalf("%d: %s; our code relies on it: %s", i+1, strings.TrimSpace(sentence), f.relies)
				}
			}
		})
	}
}
