package ledger

import (
	"crypto/sha256"
	"math/big"
	"strings"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"pgregory.net/rapid"

	"github.com/liquida/liquida/platform/pix"
)

// acts of every kind, all valid.
func acts() *rapid.Generator[Act] {
	return rapid.Custom(func(t *rapid.T) Act {
		act := Act{
			Kind:          ActKind(rapid.Uint16Range(32, 50).Draw(t, "kind")),
			Bank:          ispbs().Draw(t, "bank"),
			ByCentralBank: rapid.Bool().Draw(t, "by the central bank"),
		}

		act.ByCentralBank = act.ByCentralBank || act.Kind <= LiquidityOut || act.Kind == Opening
		switch {
		case act.Kind.OfAccount():
			act.Account = accounts().Draw(t, "account")
			act.Account.ISPB = act.Bank
		case act.Kind.HasDigest():
			copy(act.Digest[:], rapid.SliceOfN(rapid.ByteRange(1, 255), 24, 24).Draw(t, "digest"))
		case act.Kind.Caps():
			act.Centavos = rapid.Int64Range(0, 1e15).Draw(t, "cap")
		case act.Kind == Opening:
			act.Centavos = rapid.Int64Range(-1<<62, 1<<62).Draw(t, "opening")
		}

		if act.Kind.MovesMoney() {
			act.Centavos = rapid.Int64Range(1, 1e15).Draw(t, "amount")
		}

		if act.Kind == DayCapped || act.Kind == NightCapped {
			act.WindowSeconds = rapid.Uint32Range(120, 86400).Draw(t, "window")
		}

		return act
	})
}

func holders() *rapid.Generator[string] {
	return rapid.OneOf(rapid.Just("central-bank"), rapid.Map(ispbs(), func(i pix.ISPB) string { return string(i) }))
}

// The ledger holds the layout forever. It is built here a second time, for every kind.
func TestActLayout(t *testing.T) {
	const none, all = 0, ^uint64(0)
	layout := map[uint16]struct {
		lowers        bool // debit books, credit register
		debit, credit byte // of the money: kinds of accounts
	}{39: {true, 2, 1}, 44: {true, 3, 4}, 38: {false, 1, 2}, 45: {false, 4, 3}}
	rapid.Check(t, func(t *rapid.T) {
		act, holder, id := acts().Draw(t, "act"), holders().Draw(t, "holder"),
			rapid.StringMatching(`[A-Za-z0-9._-]{1,64}`).Draw(t, "id")
		account := func(kind byte) *big.Int { // kind (4 bits), ISPB in base 36 (42), branch (14), number (67)
			packed := big.NewInt(int64(kind))
			ispb, _ := new(big.Int).SetString(string(act.Bank), 36)

			branch, number := new(big.Int), new(big.Int)
			if kind == 4 {
				branch.SetString(act.Account.Branch, 10)
				number.SetString(act.Account.Number, 10)
			}

			if kind == 1 || kind == 6 {
				ispb = new(big.Int)
			}
			packed.Or(packed.Lsh(packed, 42), ispb)
			packed.Or(packed.Lsh(packed, 14), branch)

			return packed.Or(packed.Lsh(packed, 67), number)
		}
		number := func(v *big.Int) tb.Uint128 { return tb.BigIntToUint128(*v) }
		sum := sha256.Sum256([]byte("liquida act\x00" + holder + "\x00" + id))
		first124 := new(big.Int).Rsh(new(big.Int).SetBytes(sum[:]), 256-124)
		withRole := func(role int64) tb.Uint128 {
			return number(new(big.Int).Or(new(big.Int).Lsh(first124, 4), big.NewInt(role)))
		}

		code := uint16(act.Kind)

		record := tb.Transfer{ID: withRole(10), DebitAccountID: number(account(6)), CreditAccountID: number(account(7)),
			Ledger: 1, Code: code}
		if act.ByCentralBank {
			record.UserData32 = 1
		}

		lowers := layout[code].lowers
		switch {
		case code == 50:
			record.ID, lowers = number(account(7)), act.Centavos < 0
			record.Amount = tb.ToUint128(uint64(max(act.Centavos, -act.Centavos)))
		case code >= 35 && code <= 37:
			record.UserData64 = uint64(act.Centavos)
			if code != 35 {
				record.UserData32 = act.WindowSeconds
			}
		case code >= 40 && code <= 45:
			record.UserData128 = number(account(4))
		case code >= 46 && code <= 49:
			digest := new(big.Int).SetBytes(act.Digest[:])
			record.UserData64 = new(big.Int).And(digest, new(big.Int).SetUint64(all)).Uint64()
			record.UserData128 = number(digest.Rsh(digest, 64))
		}

		if lowers {
			record.DebitAccountID, record.CreditAccountID = record.CreditAccountID, record.DebitAccountID
		}
		var want []tb.Transfer

		if money := layout[code]; money.debit != none {
			record.Amount = tb.ToUint128(uint64(act.Centavos))
			moved := record
			moved.ID, moved.Ledger, moved.Flags = withRole(11), 986, 1 // linked
			moved.DebitAccountID, moved.CreditAccountID = number(account(money.debit)), number(account(money.credit))
			want = append(want, moved)
		}
		want = append(want, record)

		got := AppendAct([]tb.Transfer{{}}, holder, id, act)[1:]
		if len(got) != len(want) {
			t.Fatalf("%+v is %d transfers, want %d", act, len(got), len(want))
		}

		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("transfer %d of %+v:\n got %+v\nwant %+v", i, act, got[i], want[i])
			}
		}

		if ActRecordID(holder, id) != withRole(10) || ActMoneyID(holder, id) != withRole(11) ||
			OpeningID(act.Bank) != number(account(7)) {
			t.Fatalf("the ids of act %q of %s differ", id, holder)
		}
	})
}

func TestActsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		act := acts().Draw(t, "act")
		if err := act.Validate(); err != nil {
			t.Fatalf("%+v: %v", act, err)
		}
		chain := AppendAct(nil, "central-bank", "a", act)
		record := chain[len(chain)-1]
		record.Timestamp = rapid.Uint64Range(1, 1<<60).Draw(t, "timestamp")
		record.Flags |= tb.TransferFlags{Linked: rapid.Bool().Draw(t, "in a chain"),
			Imported: rapid.Bool().Draw(t, "imported")}.ToUint16()

		got, at, err := ActOf(record)
		if err != nil || got != act || at != time.Unix(0, int64(record.Timestamp)).UTC() {
			t.Fatalf("%+v reads %+v at %v, %v", act, got, at, err)
		}
		// One bit of another value is another act, or none.
		other := record

		switch bit := uint(rapid.IntRange(0, 31).Draw(t, "bit")); rapid.SampledFrom(
			[]string{"code", "amount", "128", "64", "32", "ledger", "debit", "credit", "flags", "timeout"}).Draw(
			t, "field") {
		case "code":
			other.Code ^= 1 << (bit % 16)
		case "amount":
			other.Amount = flip(other.Amount, bit)
		case "128":
			other.UserData128 = flip(other.UserData128, bit)
		case "64":
			other.UserData64 ^= 1 << bit
		case "32":
			other.UserData32 ^= 1 << bit
		case "ledger":
			other.Ledger ^= 1 << bit
		case "debit":
			other.DebitAccountID = flip(other.DebitAccountID, bit)
		case "credit":
			other.CreditAccountID = flip(other.CreditAccountID, bit)
		case "flags":
			other.Flags ^= 2 << (bit % 7) // neither linked nor imported
		case "timeout":
			other.Timeout ^= 1 << bit
		}

		if read, _, err := ActOf(other); err == nil && read == act {
			t.Fatalf("%+v reads as %+v, too", other, act)
		}
	})
}

func flip(v tb.Uint128, bit uint) tb.Uint128 {
	u := fromTB(v)
	u.low ^= 1 << bit
	return u.toTB()
}

func TestActIDs(t *testing.T) {
	for id, wrong := range map[string]string{
		"": "1 to 64", strings.Repeat("a", 65): "1 to 64", "a b": `" " at position 2`, "a\x00": "position 2",
		"ä": "position 1", "a/b": `"/"`,
	} {
		if err := CheckActID(id); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%q: %v, want %s", id, err, wrong)
		}
	}

	for _, id := range []string{"a", strings.Repeat("Z", 64), "2026-11-23_top.up"} {
		if err := CheckActID(id); err != nil {
			t.Error(err)
		}
	}
	// Neither the holder nor the id can stand for a part of the other.
	seen := map[tb.Uint128]string{}

	for _, holder := range []string{"central-bank", "10000001", "1000000A"} {
		for _, id := range []string{"a", "b", "10000001"} {
			for _, got := range []tb.Uint128{ActRecordID(holder, id), ActMoneyID(holder, id)} {
				if other, taken := seen[got]; taken {
					t.Errorf("%s %s and %s have one id", holder, id, other)
				}
				seen[got] = holder + " " + id
			}
		}
	}
}

func TestInvalidActs(t *testing.T) {
	const bank = pix.ISPB("10000001")

	account := pix.Account{ISPB: bank, Branch: "0001", Number: "7"}
	for _, c := range []struct {
		wrong string
		act   Act
	}{
		{"kind is 31", Act{Kind: 31, Bank: bank}},
		{"kind is 51", Act{Kind: 51, Bank: bank}},
		{"ISPB", Act{Kind: KeyNamed, Bank: "x", Digest: ActDigest{1}}},
		{"only the central bank", Act{Kind: Suspended, Bank: bank}},
		{"only the central bank", Act{Kind: LiquidityOut, Bank: bank, Centavos: 1}},
		{"amount is 0", Act{Kind: LiquidityIn, Bank: bank, ByCentralBank: true}},
		{"amount is -1", Act{Kind: Deposit, Bank: bank, Account: account, Centavos: -1}},
		{"amount is 1000000000000001", Act{Kind: Withdrawal, Bank: bank, Account: account, Centavos: 1e15 + 1}},
		{"cap is -1", Act{Kind: PaymentCapped, Bank: bank, ByCentralBank: true, Centavos: -1}},
		{"cap is 1000000000000001",
			Act{Kind: NightCapped, Bank: bank, ByCentralBank: true, Centavos: 1e15 + 1, WindowSeconds: 120}},
		{"window is 119 s", Act{Kind: DayCapped, Bank: bank, ByCentralBank: true, WindowSeconds: 119}},
		{"window is 86401 s", Act{Kind: DayCapped, Bank: bank, ByCentralBank: true, WindowSeconds: 86401}},
		{"has none", Act{Kind: PaymentCapped, Bank: bank, ByCentralBank: true, WindowSeconds: 120}},
		{"moves no money", Act{Kind: Joined, Bank: bank, ByCentralBank: true, Centavos: 1}},
		{"not one of bank", Act{Kind: AccountBlocked, Bank: "10000002", Account: account}},
		{"branch", Act{Kind: AccountOpened, Bank: bank, Account: pix.Account{ISPB: bank, Branch: "1", Number: "1"}}},
		{"not about an account", Act{Kind: Joined, Bank: bank, ByCentralBank: true, Account: account}},
		{"digest", Act{Kind: SealRevoked, Bank: bank}},
		{"digest", Act{Kind: Joined, Bank: bank, ByCentralBank: true, Digest: ActDigest{1}}},
		{"an opening is", Act{Kind: Opening, Bank: bank, ByCentralBank: true, Centavos: -1<<62 - 1}},
	} {
		if err := c.act.Validate(); err == nil || !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %v, want %s", c.act, err, c.wrong)
		}
	}
}

func TestAccountsOfTheRegister(t *testing.T) {
	limit := tb.AccountFlags{DebitsMustNotExceedCredits: true}.ToUint16()
	for _, c := range []struct {
		id           AccountID
		kind         AccountKind
		ledger       uint32
		flags        uint16
		owner        pix.Account
		name, layout string // the layout: kind, ISPB in base 36, branch
	}{
		{RegisterAccount, 6, 1, 0, pix.Account{}, "register", "6 0 0"},
		{BooksAccount("1000000Z"), 7, 1, 0, pix.Account{ISPB: "1000000Z"}, "books/1000000Z", "7 1000000Z 0"},
		{AllowanceSourceAccount, 8, 2, 0, pix.Account{}, "allowances", "8 0 0"},
		{AllowanceAccount("10000001", Day), 9, 2, limit, pix.Account{ISPB: "10000001", Branch: "0000"},
			"allowance/10000001/0000", "9 10000001 0"},
		{AllowanceAccount("10000001", Night), 9, 2, limit, pix.Account{ISPB: "10000001", Branch: "0001"},
			"allowance/10000001/0001", "9 10000001 1"},
	} {
		if got, want := NewAccount(c.id),
			(tb.Account{ID: c.id, Ledger: c.ledger, Code: uint16(c.kind), Flags: c.flags}); got != want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, want)
		}

		if kind, owner := UnpackAccount(c.id); kind != c.kind || owner != c.owner || AccountName(c.id) != c.name {
			t.Errorf("%s reads %d, %v, %s", c.name, kind, owner, AccountName(c.id))
		}

		parts, want := strings.Fields(c.layout), new(big.Int)
		for i, bits := range []uint{0, 42, 14} {
			part, _ := new(big.Int).SetString(parts[i], 36)
			want.Or(want.Lsh(want, bits), part)
		}

		if got := bigOf(fromTB(c.id)); got.Cmp(want.Lsh(want, 67)) != 0 {
			t.Errorf("%s: got %x, want %x", c.name, got, want)
		}
	}
}
