package e2e

import (
	"strings"
	"testing"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
)

// The central bank and the banks run a clearing house with liquida, while it runs.
func TestActs(t *testing.T) {
	s := start(t, 1)
	as := func(caller string) func(...string) kit.Output { return s.liquida(s.ProducerURL(), caller) }
	one, two, centralBank := as("10000001"), as("10000002"), as(keys.CentralBank)
	const payer, payee, opened = "10000001/0001/1", "10000002/0001/1", "10000001/0001/900001"
	// An act bites everywhere within two seconds: then every try ends like this.
	soon := func(code int, says string, try func() kit.Output) {
		t.Helper()
		kit.Await(t, says, func() (bool, string) {
			got := try()
			return got.Code == code && strings.Contains(got.Out+got.Err, says), got.Out + got.Err
		})
	}
	pay := func(from, to string) func() kit.Output {
		return func() kit.Output { return as(from[:8])("pay", from, to, "1.00") }
	}

	// A customer's account, from its opening to its end.
	one("account", "open", opened, "--id", "ticket-1").Is(t, exitDone, "open ", "by 10000001", opened)
	one("account", "open", opened).Is(t, exitNot, "409", "exists already")
	one("account", "deposit", opened, "250.00").Is(t, exitDone, "available BRL 250.00")
	one("account", "withdraw", opened, "50.00").Is(t, exitDone, "available BRL 200.00")
	one("account", "block", opened).Is(t, exitDone, "BLOCKED")
	soon(exitNot, "rejected AC06", pay(payee, opened)) // its bank says so
	one("account", "reopen", opened).Is(t, exitDone, "available")
	soon(exitDone, "settled", pay(payee, opened))
	one("account", "list", "10000001").Is(t, exitDone, opened)

	// Acts of the central bank.
	centralBank("participant", "liquidity", "in", "10000002", "1000.00").Is(t, exitDone, "liquidity-in", "books agree")
	two("participant", "suspend", "10000001").Is(t, exitNot, "403", "only the central bank")
	centralBank("participant", "suspend", "10000002").Is(t, exitDone, "SUSPENDED")
	soon(exitNot, "rejected DS27", pay(payer, payee))
	centralBank("participant", "resume", "10000002").Is(t, exitDone, "books agree")
	soon(exitDone, "settled", pay(payer, payee))
	centralBank("participant", "register", "10000006").Is(t, exitDone, "register", "reserve BRL 0.00", "books agree")
	centralBank("participant", "cap", "10000006", "payment", "50.00").Is(t, exitDone, "cap on a payment BRL 50.00")
	centralBank("participant", "cap", "10000006", "payment", "none").Is(t, exitDone, "lifted")
	centralBank("acts").Is(t, exitDone, "opening", "suspend", "by central-bank", "deposit", opened+"  BRL 250.00")
	s.audit()
	one("acts", "10000001", "--for", "2s").Is(t, exitDone, "block")
}
