package register

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

func act(t *rapid.T) ledger.Act {
	a := ledger.Act{
		Kind: ledger.ActKind(rapid.Uint16Range(uint16(ledger.Joined), uint16(ledger.Opening)).Draw(t, "kind")),
		Bank: rapid.SampledFrom([]pix.ISPB{"10000001", "10000002", "10000003"}).Draw(t, "bank"), ByCentralBank: true,
	}
	switch {
	case a.Kind.OfAccount():
		a.Account = pix.Account{ISPB: a.Bank, Branch: "0001",
			Number: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "account")}
	case a.Kind.HasDigest():
		a.Digest[0] = rapid.SampledFrom([]byte{1, 2, 3}).Draw(t, "digest")
	case a.Kind.Caps(), a.Kind == ledger.LiquidityIn, a.Kind == ledger.LiquidityOut:
		a.Centavos = rapid.Int64Range(0, 3).Draw(t, "cap")
	}

	return a
}

// Whatever the acts and however they come in pages: the last one about each thing counts, and
// states that were published before stay as they were.
func TestTheLastActCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		acts := rapid.SliceOfN(rapid.Custom(act), 1, 60).Draw(t, "acts")
		state := newState()
		var published []*State
		var said []string

		for i := 0; i < len(acts); {
			d := state.draft()
			for page := min(len(acts), i+rapid.IntRange(1, 10).Draw(t, "page")); i < page; i++ {
				d.apply(acts[i], time.Unix(0, int64(i+1)).UTC())
			}
			state = d.finish()
			published, said = append(published, state), append(said, describe(state))
		}

		for i := range published {
			if now := describe(published[i]); now != said[i] {
				t.Fatalf("state %d said\n%s and says\n%s", i, said[i], now)
			}
		}

		// last returns the place of the last act of one of the kinds that is about the same thing.
		last := func(is func(ledger.Act) bool, kinds ...ledger.ActKind) int {
			for i, a := range slices.Backward(acts) {
				if slices.Contains(kinds, a.Kind) && is(a) {
					return i
				}
			}

			return -1
		}
		rules := 1

		for i, a := range acts {
			if a.Kind >= ledger.Suspended && a.Kind <= ledger.NightCapped {
				rules = i + 1
			}
		}

		if state.ReadTo != uint64(len(acts)) || state.Rules != uint64(rules) {
			t.Fatalf("read to %d with rules of %d, want %d and %d", state.ReadTo, state.Rules, len(acts), rules)
		}

		for _, psp := range []pix.ISPB{"10000001", "10000002", "10000003"} {
			of := func(a ledger.Act) bool { return a.Bank == psp }
			joined := slices.IndexFunc(acts, func(a ledger.Act) bool {
				return a.Kind == ledger.Joined && a.Bank == psp
			})

			p := state.Participant(psp)
			if (p != nil) != (joined >= 0) {
				t.Fatalf("%s is %+v and joined with act %d", psp, p, joined)
			}

			i := last(of, ledger.Suspended, ledger.Resumed)
			if suspended := i >= 0 && acts[i].Kind == ledger.Suspended; state.Suspended(psp) != suspended || p != nil &&
				p.Suspended != suspended {
				t.Fatalf("%s suspended: %v, want %v", psp, state.Suspended(psp), suspended)
			}
			notOpen := 0

			for _, number := range []string{"1", "2"} {
				account := pix.Account{ISPB: psp, Branch: "0001", Number: number}

				want := Open
				if i := last(func(a ledger.Act) bool {
					return a.Account == account
				}, ledger.AccountBlocked, ledger.AccountClosed, ledger.AccountReopened); i >= 0 {
					want = map[ledger.ActKind]AccountState{ledger.AccountBlocked: Blocked,
						ledger.AccountClosed: Closed}[acts[i].Kind]
				}

				if got := state.Account(account); got != want {
					t.Fatalf("account %s is %d, want %d", account, got, want)
				}

				if want != Open {
					notOpen++
				}
			}

			if p == nil {
				continue
			}
			acted := 0

			for i, a := range acts {
				if of(a) {
					acted = i + 1
				}
			}

			if p.ActedTo != uint64(acted) {
				t.Fatalf("the last act on %s has the time %d, want %d", psp, p.ActedTo, acted)
			}

			if p.NotOpen != notOpen {
				t.Fatalf("%s has %d accounts that are not open, want %d", psp, p.NotOpen, notOpen)
			}
			liquidity := int64(0)

			for _, a := range acts {
				switch {
				case a.Bank == psp && a.Kind == ledger.LiquidityIn:
					liquidity += a.Centavos
				case a.Bank == psp && a.Kind == ledger.LiquidityOut:
					liquidity -= a.Centavos
				}
			}

			if p.LiquidityCentavos != liquidity {
				t.Fatalf("the liquidity of %s is %d, want %d", psp, p.LiquidityCentavos, liquidity)
			}

			if p.JoinedAt != time.Unix(0, int64(joined+1)).UTC() {
				t.Fatalf("%s joined at %v with act %d", psp, p.JoinedAt, joined)
			}

			for kind, got := range map[ledger.ActKind]int64{
				ledger.PaymentCapped: p.PaymentCapCentavos,
				ledger.DayCapped:     p.Outflow[ledger.Day].Centavos,
				ledger.NightCapped:   p.Outflow[ledger.Night].Centavos,
			} {
				want := int64(0)
				if i := last(of, kind); i >= 0 {
					want = acts[i].Centavos
				}

				if got != want {
					t.Fatalf("%s of %s: %d, want %d", kind, psp, got, want)
				}
			}

			for digest := byte(1); digest <= 3; digest++ {
				this := func(a ledger.Act) bool { return a.Bank == psp && a.Digest == ledger.ActDigest{digest} }

				i := last(this, ledger.KeyNamed, ledger.KeyRevoked)
				if got, want := slices.Contains(p.Keys, ledger.ActDigest{digest}),
					i >= 0 && acts[i].Kind == ledger.KeyNamed; got != want {
					t.Fatalf("key %d of %s is in use: %v, want %v", digest, psp, got, want)
				}

				i = last(this, ledger.SealNamed, ledger.SealRevoked)
				if i >= 0 && !slices.Contains(p.Seals,
					Seal{ledger.ActDigest{digest}, acts[i].Kind == ledger.SealRevoked}) {
					t.Fatalf("seal %d of %s: %+v", digest, psp, p.Seals)
				}
			}
		}

		order := state.Participants()
		if !slices.IsSortedFunc(order, func(a, b *Participant) int { return a.JoinedAt.Compare(b.JoinedAt) }) {
			t.Fatalf("out of order: %s", describe(state))
		}
	})
}

// describe shows all that a state says but the accounts, which states share.
func describe(s *State) string {
	text := fmt.Sprintln(s.ReadTo, s.Rules)
	for _, p := range s.joined {
		text += fmt.Sprintf("%+v\n", *p)
	}

	return text
}

// A million acts about accounts take seconds and some hundred bytes each.
func BenchmarkAccountActs(b *testing.B) {
	state := newState()
	b.ReportAllocs()

	for i := 0; b.Loop(); i += 8189 {
		d := state.draft()

		for k := range 8189 {
			account := pix.Account{ISPB: "10000001", Branch: "0001", Number: fmt.Sprint(i + k + 1)}
			d.apply(ledger.Act{Kind: ledger.AccountBlocked, Bank: "10000001", Account: account},
				time.Unix(0, int64(i+k)))
		}
		state = d.finish()
	}
}

// An engine asks this for every order.
func BenchmarkCurrent(b *testing.B) {
	r := &Register{}

	d := newState().draft()
	for i := range 99 {
		d.apply(ledger.Act{Kind: ledger.Joined, Bank: pix.ISPB(fmt.Sprint(10_000_000 + i))}, time.Unix(0, int64(i+1)))
	}
	r.current.Store(&reading{d.finish(), time.Now()})

	for b.Loop() {
		state, _ := r.Current()
		if state.Suspended("10000001") || state.Suspended("10000002") {
			b.Fatal("suspended")
		}
	}
}
