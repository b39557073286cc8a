package ledgerfacts

import (
	"strings"
	"testing"
)

// fact is something that the server does and our code relies on. sent is told in words, in order: what is sent and the
// server's answer by TigerBeetle's name for it (`post Exists`; `hold ExceedsCredits@1` if the second leg has it), what
// changes before the next request (`amount 101`), and what must be true (`money is 100,0`: held, moved) or come true
// (`held becomes 0`). words_test.go has the words. Each fact has accounts of its own: payer and payee own 1000, and
// the payment is of 100.
type fact struct{ name, relies, sent string }

var facts = []fact{
	{"a hold is taken once", "engine: a redelivered order", "hold OK; hold Exists; money is 100,0"},
	{"legs after the first are not compared", "engine: it compares contents itself, ledger.Trace.SameContent",
		"hold OK; payee another; hold Exists; content is other; payee elsewhere; hold Exists; content is other;" +
			"payee near; hold Exists; content is other; payee first; content is same; money is 100,0"},
	{"no void after a post", "engine: one verdict",
		"hold OK; post OK; void AB03 ExistsWithDifferentFlags; money is 0,100"},
	{"no post after a void", "engine: one verdict",
		"hold OK; void AB03 OK; post ExistsWithDifferentFlags; money is 0,0"},
	{"the first reason stays", "ledger.Trace.Verdict",
		"hold OK; void AC07 OK; void AB03 ExistsWithDifferentUserData32; verdict is AC07"},
	{"a post of nothing burns its id", "engine: it never posts what it has not read",
		"post PendingTransferNotFound; hold OK; post IDAlreadyFailed; void AB03 IDAlreadyFailed;" +
			"receipt AB03 IDAlreadyFailed"},

	{"a payer is short, and stays so", "engine: the id is burnt, and the receipt has another",
		"amount 1001; hold ExceedsCredits; money is 0,0; fund-payer; hold IDAlreadyFailed; receipt LQ01 OK"},
	{"a reserve is short, and stays so", "engine: the leg says who is short",
		"payer poor; hold ExceedsCredits@1; fund-reserve; hold IDAlreadyFailed@1; receipt AM04 OK"},
	{"a payee is missing, and only its leg is burnt", "engine: the leg says who is missing",
		"payee missing; hold CreditAccountNotFound@2; open-payee; hold IDAlreadyFailed@2"},
	{"a payer is missing", "engine: refused with a receipt",
		"payer missing; hold DebitAccountNotFound; receipt AC02 OK"},
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
		"short-timeout; receipt AC07 OK; hold OK; post ExistsWithDifferentFlags; void AC07 ExistsWithDifferentFlags;" +
			"money is 100,0; held becomes 0; money is 0,0"},

	{"an expired hold takes a receipt only", "engine: a verdict after the timeout",
		"short-timeout; hold OK; held becomes 0; money is 0,0; post PendingTransferExpired; post PendingTransferExpired;" +
			"void AC07 PendingTransferExpired; hold Exists; receipt AB03 OK; receipt AB03 Exists;" +
			"post ExistsWithDifferentFlags; void AB03 ExistsWithDifferentFlags; verdict is AB03; content is same; money is 0,0"},
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
