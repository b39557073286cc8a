package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
)

// The central bank and the banks run a clearing house with liquida, while it runs.
func TestActs(t *testing.T) {
	s := plain.startFresh(t)
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
	one("account", "open", opened, "--id", "ticket-1").Is(t, exitDone, "by 10000001")
	one("account", "open", opened).Is(t, exitNot, "409", "exists already")
	two("account", "block", opened).Is(t, exitNot, "403")
	centralBank("account", "block", opened).Is(t, exitNot, "403")
	one("account", "deposit", opened, "250.00").Is(t, exitDone, "available BRL 250.00")
	one("pay", opened, payee, "12.34").Is(t, exitDone, "settled")
	one("account", "withdraw", opened, "237.67").Is(t, exitNot, "422", "new one")
	one("account", "withdraw", opened, "37.66").Is(t, exitDone, "available BRL 200.00")
	for _, c := range []struct{ act, state, reason string }{{"block", "BLOCKED", "AC06"}, {"close", "CLOSED", "AC07"}} {
		one("account", c.act, opened).Is(t, exitDone, c.state)
		one("pay", opened, payee, "1.00").Is(t, exitNot, "account-not-open"[:7], "is not open (422)")
		soon(exitNot, "rejected "+c.reason, pay(payee, opened)) // its bank says so
		one("account", "reopen", opened).Is(t, exitDone, "available")
		soon(exitDone, "settled", pay(payee, opened))
	}
	one("account", "list", "10000001").Is(t, exitDone, opened)

	// Liquidity, which the books follow.
	reserve := func() int64 {
		return read[client.Participant](t, centralBank("participants", "10000002", "--json").Is(t, exitDone))[0].Reserve.PostedCentavos
	}
	before := reserve()
	centralBank("participant", "liquidity", "in", "10000002", "1000.00", "--id", "in").Is(t, exitDone, "liquidity-in", "books agree")
	centralBank("participant", "liquidity", "in", "10000002", "1000.00", "--id", "in").Is(t, exitDone, "liquidity-in", "books agree")
	centralBank("participant", "liquidity", "in", "10000002", "1000.01", "--id", "in").Is(t, exitNot, "409", "names one act")
	if now := reserve(); now != before+100_000 {
		t.Errorf("the reserve is %d, and was %d", now, before)
	}
	centralBank("participant", "liquidity", "out", "10000002", "99999999999.00").Is(t, exitNot, "422", "does not have so much")
	two("participant", "suspend", "10000001").Is(t, exitNot, "403", "only the central bank")

	// A suspension and its end.
	centralBank("participant", "suspend", "10000002").Is(t, exitDone, "SUSPENDED")
	soon(exitNot, "rejected DS27", pay(payer, payee))
	soon(exitNot, "rejected DS27", pay(payee, payer))
	centralBank("participant", "resume", "10000002").Is(t, exitDone, "books agree")
	soon(exitDone, "settled", pay(payer, payee))

	// A bank joins. It needs a key to do more.
	centralBank("participant", "register", "10000006").Is(t, exitDone, "register", "reserve BRL 0.00", "books agree")
	centralBank("participant", "register", "10000006").Is(t, exitNot, "409", "a participant already")
	centralBank("participant", "cap", "10000006", "payment", "50.00").Is(t, exitDone, "cap on a payment BRL 50.00")
	centralBank("participant", "cap", "10000006", "payment", "none").Is(t, exitDone, "lifted")
	if all := read[client.Participant](t, centralBank("participants", "--json").Is(t, exitDone)); len(all) != 6 {
		t.Errorf("%+v", all)
	}
	centralBank("acts").Is(t, exitDone, "opening", "suspend", "by central-bank", "deposit", opened+"  BRL 250.00")
	two("acts", "10000001").Is(t, exitNot, "403")
	s.audit()
	began := time.Now()
	one("acts", "10000001", "--for", "2s").Is(t, exitDone, "block")
	if time.Since(began) < 2*time.Second {
		t.Error("it does not follow")
	}
}
