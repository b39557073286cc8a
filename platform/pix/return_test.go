package pix

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestReturnIDsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payment := endToEndIDs().Draw(t, "id")
		text := "D" + payment.String()[1:]

		id, err := ParseReturnID(text)
		if err != nil || id.String() != text || id.PSP() != payment.Payer() || !id.Time().Equal(payment.Time()) {
			t.Fatalf("%s became %s: %v", text, id, err)
		}
		var psp [8]byte
		copy(psp[:], id.PSP())

		if joined, err := JoinReturnID(psp, payment.Minute(), payment.Suffix()); err != nil || joined != id {
			t.Fatalf("%s joined is %s: %v", id, joined, err)
		}

		if _, err := ParseEndToEndID(text); err == nil {
			t.Fatalf("%s was taken for an EndToEndId", text)
		}

		if _, err := ParseReturnID(payment.String()); err == nil {
			t.Fatalf("%s was taken for an RtrId", payment)
		}

		if made := NewReturnID(payment.Payer(), payment.Time(),
			rand.New(rand.NewPCG(1, 2))); made.PSP() != payment.Payer() || !made.Time().Equal(payment.Time()) {
			t.Fatalf("made %s for %s", made, payment)
		}
	})
}

// The ledger holds the hash forever. It is built here a second time.
func TestReturnContentHash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		content := ReturnContent{endToEndIDs().Draw(t, "original"), rapid.Uint64().Draw(t, "amount"),
			rapid.SampledFrom(ReturnReasons).Draw(t, "reason")}

		sum := sha256.Sum256(append([]byte(content.Original.String()+"/"+content.Reason.String()+"/"),
			binary.BigEndian.AppendUint64(nil, content.AmountCentavos)...))
		if got, want := content.Hash(), binary.BigEndian.Uint64(sum[:]); got != want {
			t.Fatalf("%v: got %x, want %x", content, got, want)
		}
	})
}

func TestReturnValidation(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	const id, original = "D10000002202605040302abcDEF01234", "E10000001202605010302abcDEF01234"
	good := ReturnDraft{id, original, 5, "MD06", at.UnixMilli()}

	valid, err := good.Validate(at)
	if err != nil || valid.ID.String() != id || valid.Original.String() != original || valid.AmountCentavos != 5 ||
		valid.Reason.String() != "MD06" || !valid.AcceptedAt.Equal(at) {
		t.Fatalf("%+v, %v", valid, err)
	}

	for name, c := range map[string]struct {
		spoil  func(*ReturnDraft)
		reason Reason
		field  string
		says   string
	}{
		"the id of a payment": {func(d *ReturnDraft) {
			d.ReturnID = original
		}, ReasonBadEndToEndID, "return_id", "begin with \"D\""},
		"a return of a return": {func(d *ReturnDraft) {
			d.OriginalEndToEndID = id
		}, ReasonBadEndToEndID, "original_end_to_end_id", "begin with \"E\""},
		"no id": {func(d *ReturnDraft) {
			d.ReturnID = ""
		}, ReasonBadEndToEndID, "return_id", "0 characters"},
		"an unknown reason": {func(d *ReturnDraft) {
			d.ReasonCode = "AB03"
		}, ReasonMalformed, "reason_code", "AB03"},
		"a malformed reason": {func(d *ReturnDraft) {
			d.ReasonCode = "md06"
		}, ReasonMalformed, "reason_code", "md06"},
		"an amount of 2^63": {func(d *ReturnDraft) {
			d.AmountCentavos = 1 << 63
		}, ReasonMalformed, "amount_centavos", "9223372036854775808 is more than 9223372036854775807 centavos"},
		"accepted half a day off": {func(d *ReturnDraft) {
			d.AcceptedAtUnixMs -= 13 * 3600 * 1000
		}, ReasonBadEndToEndID, "return_id", "12 h"},
		"accepted in the future": {func(d *ReturnDraft) {
			d.AcceptedAtUnixMs += 5001
		}, ReasonBadAcceptance, "accepted_at_unix_ms", "5 s"},
	} {
		draft := good
		c.spoil(&draft)

		var invalid *Invalid
		if _, err := draft.Validate(at); !errors.As(err, &invalid) || invalid.Reason != c.reason ||
			invalid.Field != c.field || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %s of %s that says %s", name, err, c.reason, c.field, c.says)
		}
	}
	largest := good

	largest.AmountCentavos = 1<<63 - 1
	if _, err := largest.Validate(at); err != nil {
		t.Errorf("the largest amount: %v", err)
	}

	if !valid.InTime(at.AddDate(0, 0, -90)) || valid.InTime(at.AddDate(0, 0, -90).Add(-time.Nanosecond)) {
		t.Error("90 days are not the limit")
	}
}

func FuzzParseReturnID(f *testing.F) {
	f.Add("D10000002202605040302abcDEF01234")
	f.Add("E10000002202605040302abcDEF01234")
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := ParseReturnID(text); err == nil && id.String() != text {
			t.Fatalf("%q reads back as %s", text, id)
		}
	})
}
