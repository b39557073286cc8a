package ledger

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"pgregory.net/rapid"

	"github.com/liquida/liquida/platform/pix"
)

// The ledger holds the layout forever. It is built here a second time: minute (26 bits), 5 suffix characters in base 62
// (30), SHA-256 (68), role (4).
func TestTransferIDLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := endToEndIDs().Draw(t, "id")
		base := new(big.Int).SetUint64(uint64(id.Time().Unix()-1577836800) / 60)
		suffix := new(big.Int)

		for _, c := range id.String()[21:26] {
			digit := strings.IndexRune("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", c)
			suffix.Add(suffix.Mul(suffix, big.NewInt(62)), big.NewInt(int64(digit)))
		}
		base.Or(base.Lsh(base, 30), suffix)
		sum := sha256.Sum256([]byte(id.String()))
		hash := new(big.Int).SetBytes(sum[:])
		base.Or(base.Lsh(base, 68), hash.Rsh(hash, 256-68))
		base.Lsh(base, 4)

		ids := IDsOf(id)
		for role, got := range []tb.Uint128{
			ids.Pending(1), ids.Pending(2), ids.Pending(3), ids.Pending(4),
			ids.Resolution(1), ids.Resolution(2), ids.Resolution(3), ids.Resolution(4),
		} {
			if want := new(big.Int).Or(base, big.NewInt(int64(role))); bigOf(fromTB(got)).Cmp(want) != 0 {
				t.Fatalf("role %d of %s: got %s, want %x", role, id, got, want)
			}
		}

		if ids.Verdict() != ids.Resolution(1) {
			t.Fatalf("the verdict of %s is not the resolution of its first leg", id)
		}
	})
}

func TestTransferIDsOfDifferentPaymentsAreInTheOrderOfTheirTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := endToEndIDs().Draw(t, "a"), endToEndIDs().Draw(t, "b")
		if rapid.Bool().Draw(t, "same minute") {
			copy(b[9:21], a[9:21])
		}
		byTime := cmp.Or(cmp.Compare(a.Minute(), b.Minute()), cmp.Compare(string(a[21:26]), string(b[21:26])))

		for i := 1; i <= legsMax; i++ {
			for k := 1; k <= legsMax; k++ {
				for _, pair := range [][2]tb.Uint128{
					{IDsOf(a).Pending(i), IDsOf(b).Pending(k)}, {IDsOf(a).Pending(i), IDsOf(b).Resolution(k)},
					{IDsOf(a).Resolution(i), IDsOf(b).Pending(k)}, {IDsOf(a).Resolution(i), IDsOf(b).Resolution(k)},
				} {
					byID := bigOf(fromTB(pair[0])).Cmp(bigOf(fromTB(pair[1])))
					if byTime != 0 && byID != byTime || byID == 0 && a != b {
						t.Fatalf("%s and %s: %d by time, %d by id", a, b, byTime, byID)
					}
				}
			}
		}
	})
}

func TestNoPaymentHasAnIDOfBootstrap(t *testing.T) {
	// No payment uses the roles from 8 on but the mark of returns; the marker's is 15.
	if fromTB(MarkerID).low&15 != 15 {
		t.Errorf("the marker %s has a role of payments", MarkerID)
	}
}

func TestEveryLegNamesItsPayment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := endToEndIDs().Draw(t, "id")
		for _, leg := range AppendReserve(nil, id, contents().Draw(t, "content"), 60) {
			if got, err := EndToEndIDOf(leg); err != nil || got != id {
				t.Fatalf("leg %d of %s names %s, %v", leg.Code, id, got, err)
			}
		}
	})
}

// The resolution of leg 1 is the verdict, so a leg 5 would decide the payment; a slot 64
// would be one more than the limit.
func TestBrokenIDsAreNoticed(t *testing.T) {
	broken := func(what string, f func()) {
		t.Helper()
		defer func() {
			if said := fmt.Sprint(recover()); !strings.HasPrefix(said, "broken law: "+what) {
				t.Errorf("%q is not noticed, but %q", what, said)
			}
		}()
		f()
	}
	var ids PaymentIDs

	for _, leg := range []int{-1, 0, 5} {
		broken("a leg is 1 to 4", func() { ids.Pending(leg) })
		broken("a leg is 1 to 4", func() { ids.Resolution(leg) })
	}

	for _, slot := range []int{-1, 64, 256} {
		broken("a slot is 0 to 63", func() { ReturnIDs(pix.EndToEndID{}, slot) })
	}
}

// A transfer that is no leg of a payment must not be read as a leg of another payment.
func TestForeignUserDataNamesNoPayment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		transfer := tb.Transfer{
			UserData128: uint128{rapid.Uint64().Draw(t, "high"), rapid.Uint64().Draw(t, "low")}.toTB(),
			UserData64:  rapid.Uint64().Draw(t, "64"),
		}
		if rapid.Bool().Draw(t, "nearly") { // all right but for one bit at most
			id := endToEndIDs().Draw(t, "id")
			v := fromTB(userData128(id))
			v = uint128{high: v.high ^ 1<<rapid.IntRange(0, 63).Draw(t, "bit"), low: v.low}
			transfer.UserData128, transfer.UserData64 = v.toTB(), userData64(id)
		}

		id, err := EndToEndIDOf(transfer)
		if err == nil && (userData128(id) != transfer.UserData128 || userData64(id) != transfer.UserData64) {
			t.Fatalf("%s, %x reads %s, which is kept as %s, %x", transfer.UserData128, transfer.UserData64, id,
				userData128(id), userData64(id))
		}
	})
}

func TestChains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, content := endToEndIDs().Draw(t, "id"), contents().Draw(t, "content")
		reason := pix.MustReason(rapid.StringMatching(`[0-9A-Z]{4}`).Draw(t, "reason"))
		ids := IDsOf(id)
		payer, payee := content.Payer, content.Payee

		legs := []int{1, 2, 3}
		if payer.ISPB == payee.ISPB {
			legs = []int{1, 3}
		}
		before := []tb.Transfer{{ID: tb.ToUint128(7)}} // the chain is appended to it
		reserve := AppendReserve(before, id, content, 60)[1:]
		post := AppendPost(before, id, content.SameBank())[1:]

		void := AppendVoid(before, id, content.SameBank(), reason)[1:]
		if len(reserve) != len(legs) || len(post) != len(legs) || len(void) != len(legs) {
			t.Fatalf("%d legs, %d posts, %d voids, want %d of each", len(reserve), len(post), len(void), len(legs))
		}

		for i, leg := range legs {
			linked := i < len(legs)-1 // a linked last transfer would leave the chain open

			debit, credit := [...]AccountID{CustomerAccount(payer), ReserveAccount(payer.ISPB),
				TransitAccount(payee.ISPB)}[leg-1],
				[...]AccountID{TransitAccount(payer.ISPB), ReserveAccount(payee.ISPB), CustomerAccount(payee)}[leg-1]
			if want := (tb.Transfer{
				ID: ids.Pending(leg), DebitAccountID: debit, CreditAccountID: credit,
				Amount:      tb.ToUint128(content.AmountCentavos),
				UserData128: userData128(id), UserData64: userData64(id), Timeout: 60, Ledger: 986, Code: uint16(leg),
				Flags: tb.TransferFlags{Pending: true, Linked: linked}.ToUint16(),
			}); reserve[i] != want {
				t.Fatalf("leg %d: got %+v, want %+v", leg, reserve[i], want)
			}

			if want := (tb.Transfer{
				ID: ids.Resolution(leg), PendingID: ids.Pending(leg), Amount: uint128{1<<64 - 1, 1<<64 - 1}.toTB(),
				Flags: tb.TransferFlags{PostPendingTransfer: true, Linked: linked}.ToUint16(),
			}); post[i] != want {
				t.Fatalf("post %d: got %+v, want %+v", leg, post[i], want)
			}

			if want := (tb.Transfer{
				ID: ids.Resolution(leg), PendingID: ids.Pending(leg), UserData32: uint32(reason),
				Flags: tb.TransferFlags{VoidPendingTransfer: true, Linked: linked}.ToUint16(),
			}); void[i] != want {
				t.Fatalf("void %d: got %+v, want %+v", leg, void[i], want)
			}
		}

		for _, known := range []bool{true, false} {
			debit, credit := IssuanceAccount, RefusalsAccount
			if known {
				debit, credit = TransitAccount(payer.ISPB), ReserveAccount(payer.ISPB)
			}

			receipt := AppendReceipt(before, id, content, reason, known)[1:]
			if want := (tb.Transfer{
				ID: ids.Verdict(), DebitAccountID: debit, CreditAccountID: credit, UserData128: userData128(id),
				UserData64: content.Hash(), UserData32: uint32(reason), Ledger: 986, Code: CodeReceipt,
			}); len(receipt) != 1 || receipt[0] != want {
				t.Fatalf("receipt: got %+v, want %+v", receipt, want)
			}
		}
	})
}

// A single id of another place in each of the ledger's tables makes all of them overlap.
func TestAProbeStandsAmongThePaymentsOfItsInstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(1_600_000_000, 4_000_000_000).Draw(t, "second"),
			rapid.Int64Range(0, 999_999_999).Draw(t, "nanosecond"))
		payment := func(at time.Time) (id, userData *big.Int) {
			one := pix.NewEndToEndID("12345678", at, rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed"))))
			i, u := IDsOf(one).Verdict().BigInt(), userData128(one).BigInt()
			return &i, &u
		}
		i, u := probeIDs(at)
		id, userData := i.BigInt(), u.BigInt()

		for _, other := range []struct {
			at   time.Time
			want int
		}{{at.Add(-time.Millisecond), -1}, {at.Add(time.Millisecond), 1}} {
			otherID, otherData := payment(other.at)
			if otherID.Cmp(&id) != other.want || otherData.Cmp(&userData) != other.want {
				t.Fatalf("a probe at %s has %x and %x, a payment at %s has %x and %x", at, &id, &userData, other.at,
					otherID, otherData)
			}
		}

		if role := new(big.Int).And(&id, big.NewInt(1<<roleBits-1)).Int64(); role != roleProbe {
			t.Fatalf("a probe has the role %d", role)
		}
	})
}
