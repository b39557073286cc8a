package audit

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"

	"github.com/liquida/liquida/loadtest/audit/spec"
)

// The audit derives ids with code of its own. Only here the two derivations meet: where they
// differ, one of them is not what docs/reference.md says.
func TestIdentitiesAgreeWithThePlatform(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	ispb := func() string {
		text := make([]byte, 8)
		for i := range text {
			text[i] = spec.Base36[random.IntN(36)]
		}

		return string(text)
	}

	account := func() pix.Account {
		number := strconv.FormatUint(1+random.Uint64N(1<<random.IntN(63)), 10)
		if random.IntN(4) == 0 {
			number = "99999999999999999999"[:20-random.IntN(3)]
		}

		return pix.Account{ISPB: pix.ISPB(ispb()), Branch: "000" + strconv.Itoa(random.IntN(10)), Number: number}
	}
	for range 10_000 {
		payer, payee := account(), account()
		at := pix.Epoch.Add(time.Duration(random.Int64N(100*365*24*60)) * time.Minute)
		theirs := pix.NewEndToEndID(payer.ISPB, at, random)

		ours, minutes, err := spec.ParseID(theirs.String())
		if err != nil {
			t.Fatalf("%s: %v", theirs, err)
		}
		key := spec.PaymentKey(ours, minutes)

		ids := ledger.IDsOf(theirs)
		for leg := 1; leg <= 3; leg++ {
			if spec.NumberOf(ids.Pending(leg)) != key.Role(leg-1) ||
				spec.NumberOf(ids.Resolution(leg)) != key.Role(spec.ResolutionRole+leg-1) {
				t.Fatalf("%s: the ids of leg %d differ", theirs, leg)
			}
		}
		order := pix.Content{Payer: payer, Payee: payee, AmountCentavos: random.Uint64()}
		names, ispb := spec.UserData(ours, minutes)

		hold := ledger.AppendReserve(nil, theirs, order, 60)[0]
		if spec.NumberOf(hold.UserData128) != names || hold.UserData64 != ispb {
			t.Fatalf("%s: the user data differ", theirs)
		}

		customer, err := spec.CustomerAccount(string(payer.ISPB), payer.Branch, payer.Number)
		if err != nil || customer != spec.NumberOf(ledger.CustomerAccount(payer)) {
			t.Fatalf("%v: the account ids differ: %v", payer, err)
		}

		if spec.AccountName(customer) != payer.String() {
			t.Fatalf("%v is called %s", payer, spec.AccountName(customer))
		}

		if spec.ReserveOf(customer) != spec.NumberOf(ledger.ReserveAccount(payer.ISPB)) ||
			spec.TransitOf(customer) != spec.NumberOf(ledger.TransitAccount(payer.ISPB)) {
			t.Fatalf("%v: the bank's account ids differ", payer)
		}

		if message := orderMessage(theirs.String(), payer, payee, order.AmountCentavos,
			at); spec.ContentHash(message) != order.Hash() {
			t.Fatalf("%v: the content hashes differ", order)
		}
	}

	if spec.Issuance != spec.NumberOf(ledger.IssuanceAccount) ||
		spec.Refusals != spec.NumberOf(ledger.RefusalsAccount) {
		t.Fatal("the central bank's account ids differ")
	}
}

func TestReadOrderRefusesWhatThePlatformRefuses(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	random := rand.New(rand.NewPCG(3, 4))
	payer := pix.Account{ISPB: "10000001", Branch: "0001", Number: "1"}
	payee := pix.Account{ISPB: "10000002", Branch: "0001", Number: "2"}

	good := orderMessage(pix.NewEndToEndID(payer.ISPB, at, random).String(), payer, payee, 5, at)
	if _, err := spec.ReadOrder(encode(t, good), at); err != nil {
		t.Fatalf("a good order is refused: %v", err)
	}
	valid := encode(t, good)

	id := pix.NewReturnID(payer.ISPB, at, random).String()
	for _, centavos := range []uint64{0, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
		for _, message := range []*pixv1.PaymentOrder{
			orderMessage(good.EndToEndId, payer, payee, centavos, at),
			{ReturnOrder: &pixv1.ReturnOrder{ReturnId: id, OriginalEndToEndId: good.EndToEndId,
				AmountCentavos: centavos,
				ReasonCode:     pix.ReturnReasons[0].String(), AcceptedAtUnixMs: at.UnixMilli()}},
		} {
			value := encode(t, message)

			_, ours := spec.ReadOrder(value, at)
			if (ours == nil) != (centavos <= pix.AmountCentavosMax) {
				t.Errorf("%d centavos in %v: the audit says %v", centavos, message, ours)
			}
		}
	}

	back := encode(t, &pixv1.PaymentOrder{
		ReturnOrder: &pixv1.ReturnOrder{ReturnId: id, OriginalEndToEndId: good.EndToEndId, AmountCentavos: 5,
			ReasonCode: pix.ReturnReasons[0].String(), AcceptedAtUnixMs: at.UnixMilli()}})
	for i := range 200_000 {
		value := slices.Clone([][]byte{valid, back}[i%2])
		for range 1 + random.IntN(3) {
			value[random.IntN(len(value))] = byte(random.Uint32())
		}
		_, ours := spec.ReadOrder(value, at)

		theirs := judgedByPlatform(value, at)
		if (ours == nil) != (theirs == nil) {
			t.Fatalf("mutation %d, %x: the audit says %v, the platform %v", i, value, ours, theirs)
		}

		if invalid, ok := errors.AsType[*pix.Invalid](theirs); ok &&
			!ours.Told(invalid.Reason.String(), invalid.Error()) {
			t.Fatalf("mutation %d, %x: the platform's dead letter says %s, %q; to the audit %+v", i, value,
				invalid.Reason,
				invalid, ours)
		}
	}
}
