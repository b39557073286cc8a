package ledger

import (
	"math"
	"math/big"
	"strings"
	"testing"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"pgregory.net/rapid"

	"github.com/liquida/liquida/platform/pix"
)

func TestAccountIDsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		account := accounts().Draw(t, "account")
		if kind, back := UnpackAccount(CustomerAccount(account)); kind != Customer || back != account {
			t.Fatalf("%v became %d, %v", account, kind, back)
		}

		psp := account.ISPB
		if kind, back := UnpackAccount(ReserveAccount(psp)); kind != Reserve || back != (pix.Account{ISPB: psp}) {
			t.Fatalf("the reserve of %s became %d, %v", psp, kind, back)
		}

		if kind, back := UnpackAccount(TransitAccount(psp)); kind != Transit || back != (pix.Account{ISPB: psp}) {
			t.Fatalf("the transit of %s became %d, %v", psp, kind, back)
		}
	})

	for kind, id := range map[AccountKind]AccountID{Issuance: IssuanceAccount, Refusals: RefusalsAccount} {
		if got, back := UnpackAccount(id); got != kind || back != (pix.Account{}) {
			t.Errorf("kind %d became %d, %v", kind, got, back)
		}
	}
}

// The ledger holds the layout forever. It is built here a second time: kind (4 bits), ISPB in base 36 (42), branch
// (14), number (67).
func TestAccountIDLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		account := accounts().Draw(t, "account")
		want := big.NewInt(4)

		for _, part := range []struct {
			text string
			base int
			bits uint
		}{{string(account.ISPB), 36, 42}, {account.Branch, 10, 14}, {account.Number, 10, 67}} {
			n, ok := new(big.Int).SetString(part.text, part.base)
			if !ok || n.BitLen() > int(part.bits) {
				t.Fatalf("%s does not fit %d bits", part.text, part.bits)
			}
			want.Or(want.Lsh(want, part.bits), n)
		}

		if got := bigOf(fromTB(CustomerAccount(account))); got.Cmp(want) != 0 {
			t.Fatalf("%v: got %x, want %x", account, got, want)
		}
	})
}

func TestAnUnvalidatedAccountIsNotPacked(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a branch of five digits was packed")
		}
	}()
	CustomerAccount(pix.Account{ISPB: "12345678", Branch: "99999", Number: "1"})
}

func TestOnlyReservesAndCustomersHaveALimit(t *testing.T) {
	limit := tb.AccountFlags{DebitsMustNotExceedCredits: true}.ToUint16()
	for id, want := range map[AccountID]uint16{
		IssuanceAccount: 0, RefusalsAccount: 0, TransitAccount("12345678"): 0,
		ReserveAccount("12345678"): tb.AccountFlags{DebitsMustNotExceedCredits: true, History: true}.ToUint16(),
		CustomerAccount(pix.Account{ISPB: "12345678", Branch: "0001", Number: "1"}): limit,
	} {
		account := NewAccount(id)

		kind, _ := UnpackAccount(id)
		if account.ID != id || account.Ledger != 986 || account.Code != uint16(kind) || account.Flags != want {
			t.Errorf("kind %d is created as %+v, want flags %d", kind, account, want)
		}
	}
}

func TestArithmetic(t *testing.T) {
	mask := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 128), big.NewInt(1))
	same := func(t *rapid.T, what string, got uint128, want *big.Int) {
		if want.And(want, mask); bigOf(got).Cmp(want) != 0 {
			t.Fatalf("%s: got %x, want %x", what, bigOf(got), want)
		}
	}
	values := rapid.Custom(func(t *rapid.T) uint128 {
		return uint128{rapid.Uint64().Draw(t, "high"), rapid.Uint64().Draw(t, "low")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, n, digit := values.Draw(t, "a"), values.Draw(t, "b"), rapid.UintRange(0, 127).Draw(t, "n"),
			rapid.Uint64Range(0, 9).Draw(t, "digit")
		x, y := bigOf(a), bigOf(b)
		same(t, "<<", a.shiftLeft(n), new(big.Int).Lsh(x, n))
		same(t, ">>", a.shiftRight(n), new(big.Int).Rsh(x, n))
		same(t, "|", a.or(b), new(big.Int).Or(x, y))
		same(t, "+", a.plus(b), new(big.Int).Add(x, y))
		same(t, "10a+d", a.timesTenPlus(digit),
			new(big.Int).Add(new(big.Int).Mul(x, big.NewInt(10)), new(big.Int).SetUint64(digit)))

		if fromTB(a.toTB()) != a || a.decimal() != x.String() {
			t.Fatalf("%x reads %s", x, a.decimal())
		}
	})
}

// Totals may be above 63 bits; what they differ by is a balance.
func TestABalanceOfLargeTotals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := uint128{high: rapid.Uint64Range(0, 1<<40).Draw(t, "high"), low: rapid.Uint64().Draw(t, "low")}.toTB()
		balance := rapid.Uint64Range(0, 1<<63-1).Draw(t, "balance")
		sum, more := total.BigInt(), new(big.Int).SetUint64(balance)

		larger := tb.BigIntToUint128(*sum.Add(&sum, more))
		if up, down := Less(larger, total), Less(total, larger); up != int64(balance) || down != -int64(balance) {
			t.Fatalf("%v less %v is %d, and %d the other way; want %d", larger, total, up, down, balance)
		}
	})

	for _, large := range []uint128{{low: 1 << 63}, {low: 1<<64 - 1}, {high: 1}, {high: 1 << 63}, {high: 1<<64 - 1},
		{high: 1<<64 - 1, low: 1<<64 - 1}} {
		if up, down := Less(large.toTB(), tb.Uint128{}),
			Less(tb.Uint128{}, large.toTB()); up != math.MaxInt64 || down != math.MinInt64 {
			t.Errorf("%v is %d, and %d the other way", large, up, down)
		}
	}

	if least := Less(tb.Uint128{}, tb.ToUint128(1<<63)); least != math.MinInt64 {
		t.Error(least)
	}
}

func TestSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := new(big.Int)
		var amounts []tb.Uint128

		for range rapid.IntRange(0, 5).Draw(t, "amounts") {
			amount := uint128{high: rapid.Uint64Range(0, 1<<60).Draw(t, "high"), low: rapid.Uint64().Draw(t, "low")}
			amounts = append(amounts, amount.toTB())
			want.Add(want, bigOf(amount))
		}

		if got := bigOf(fromTB(Sum(amounts...))); got.Cmp(want) != 0 {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestCentavos(t *testing.T) {
	if got := Centavos(tb.ToUint128(1<<63 - 1)); got != 1<<63-1 {
		t.Error(got)
	}

	for _, v := range []uint128{{low: 1 << 63}, {high: 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v fitted", v)
				}
			}()
			Centavos(v.toTB())
		}()
	}
}

func TestMarker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		markers := rapid.Custom(func(t *rapid.T) Marker {
			return Marker{rapid.Uint32().Draw(t, "banks"), rapid.Uint32().Draw(t, "customers"),
				rapid.Uint64().Draw(t, "deposit"), rapid.Uint64().Draw(t, "reserve")}
		})
		a, b := markers.Draw(t, "a"), markers.Draw(t, "b")

		transfer, account := a.Transfer(), a.Issuance()
		if MarkerOf(transfer.UserData128, transfer.UserData64) != a ||
			MarkerOf(account.UserData128, account.UserData64) != a {
			t.Fatalf("%+v does not read back", a)
		}

		if err := a.Check(a); err != nil {
			t.Fatal(err)
		}

		if (a.Check(b) == nil) != (a == b) {
			t.Fatalf("%+v and %+v: %v", a, b, a.Check(b))
		}
	})

	err := Marker{6, 5000, 1, 2}.Check(Marker{5, 5000, 1, 3})
	if want := "SANDBOX_BANKS is 5 there and 6 here, SANDBOX_RESERVE_CENTAVOS is 3 there and 2 here"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
