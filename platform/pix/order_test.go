package pix

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func contents() *rapid.Generator[Content] {
	return rapid.Custom(func(t *rapid.T) Content {
		return Content{accounts().Draw(t, "payer"), accounts().Draw(t, "payee"), rapid.Uint64().Draw(t, "amount")}
	})
}

// fieldsOf lets a test change the fields of a content one by one.
func fieldsOf(c *Content) []*string {
	return []*string{(*string)(&c.Payer.ISPB), &c.Payer.Branch, &c.Payer.Number, (*string)(&c.Payee.ISPB),
		&c.Payee.Branch, &c.Payee.Number}
}

func TestContentHashDiffersWhenAnythingDiffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := contents().Draw(t, "content")
		for i := range fieldsOf(&a) {
			b := a
			other := contents().Draw(t, "other")

			*fieldsOf(&b)[i] = *fieldsOf(&other)[i]
			if (a == b) != (a.Hash() == b.Hash()) {
				t.Fatalf("%v and %v", a, b)
			}
		}
		b := a

		b.AmountCentavos ^= 1 << rapid.IntRange(0, 63).Draw(t, "bit")
		if a.Hash() == b.Hash() {
			t.Fatalf("%v and %v have one hash", a, b)
		}

		if b = (Content{a.Payee, a.Payer, a.AmountCentavos}); (a == b) != (a.Hash() == b.Hash()) {
			t.Fatalf("%v and the way back have one hash", a)
		}
	})
}

// A character that moves from one field to the next changes the hash.
func TestContentHashSeesWhereAFieldEnds(t *testing.T) {
	a := Content{Account{"12345678", "0001", "12"}, Account{"34567890", "0001", "1"}, 1}
	// one character short; joined, both are the same text
	b := Content{Account{"12345678", "0001", "123"}, Account{"4567890", "0001", "1"}, 1}
	if a.Hash() == b.Hash() {
		t.Errorf("%v and %v have one hash", a, b)
	}
	// The last field meets the 8 bytes of the amount: "1" + amount must not read as "11" + another.
	c := Content{a.Payer, Account{"34567890", "0001", "11"}, 0}

	d := Content{a.Payer, Account{"34567890", "0001", "1"}, 0x31 << 56}
	if c.Hash() == d.Hash() {
		t.Errorf("%v and %v have one hash", c, d)
	}
}

// The ledger holds the hash forever: no version may change it.
func TestContentHashIsFixed(t *testing.T) {
	// printf '12345678/0001/1/ABCDEFGH/0000/99999999999999999999/\0\0\0\0\0\0\004\322' | sha256sum
	const want = uint64(0xfbeccbebfe10a651)

	content := Content{Account{"12345678", "0001", "1"}, Account{"ABCDEFGH", "0000", "99999999999999999999"}, 1234}
	if got := content.Hash(); got != want {
		t.Errorf("the hash of %v is now %#x, and receipts hold %#x", content, got, want)
	}
}

// 12:00 is the minute of the id; the acceptance and the record follow 30 s later.
var (
	minute   = time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)
	accepted = minute.Add(30 * time.Second)
	record   = accepted.Add(time.Second)
)

func goodDraft() Draft {
	return Draft{
		EndToEndID: "E12345678202506011200abcDEF01234",
		Payer:      Account{"12345678", "0001", "1"}, Payee: Account{"ABCDEFGH", "0000", "99999999999999999999"},
		AmountCentavos: 1, AcceptedAtUnixMs: accepted.UnixMilli(), RemittanceInformation: "obrigado ção",
	}
}

func TestAGoodDraftBecomesItsOrder(t *testing.T) {
	draft := goodDraft()

	order, err := draft.Validate(record)
	if err != nil {
		t.Fatal(err)
	}

	want := Order{
		ID: EndToEndID([]byte(draft.EndToEndID)), AcceptedAt: accepted,
		Content: Content{draft.Payer, draft.Payee, draft.AmountCentavos},
	}
	if order != want {
		t.Errorf("got %+v, want %+v", order, want)
	}
}

func TestValidate(t *testing.T) {
	at := func(t time.Time) func(*Draft) {
		return func(d *Draft) { d.AcceptedAtUnixMs = t.UnixMilli() }
	}
	ms := func(ms int64) func(*Draft) { return func(d *Draft) { d.AcceptedAtUnixMs = ms } }
	note := func(text string) func(*Draft) { return func(d *Draft) { d.RemittanceInformation = text } }
	id := func(text string) func(*Draft) { return func(d *Draft) { d.EndToEndID = text } }

	later := record.Add(24 * time.Hour)
	for _, c := range []struct {
		name   string
		change func(*Draft)
		record time.Time
		reason Reason // ReasonNone: accepted
		says   string
	}{
		{"zero amount is a payment, refused later with AM01", func(d *Draft) {
			d.AmountCentavos = 0
		}, record, ReasonNone, ""},
		{"the largest amount", func(d *Draft) { d.AmountCentavos = math.MaxInt64 }, record, ReasonNone, ""},
		{"an amount of 2^63", func(d *Draft) {
			d.AmountCentavos = 1 << 63
		}, record, ReasonMalformed, "amount_centavos: 9223372036854775808 is more than 9223372036854775807 centavos"},
		{"the largest amount of the message", func(d *Draft) {
			d.AmountCentavos = math.MaxUint64
		}, record, ReasonMalformed, "2^63-1"},
		{"payer and payee alike", func(d *Draft) { d.Payee = d.Payer }, record, ReasonNone, ""},
		{"no free text", note(""), record, ReasonNone, ""},

		{"12 h before the minute", at(minute.Add(-12 * time.Hour)), later, ReasonNone, ""},
		{"1 ms more", at(minute.Add(-12*time.Hour - time.Millisecond)), later, ReasonBadEndToEndID, "at most 12 h"},
		{"12 h after the minute", at(minute.Add(12 * time.Hour)), later, ReasonNone, ""},
		{"1 ms more after", at(minute.Add(12*time.Hour + time.Millisecond)), later, ReasonBadEndToEndID,
			"12h0m0s away"},
		{"a record long after", func(*Draft) {}, record.AddDate(10, 0, 0), ReasonNone, ""},
		{"accepted 5 s after the record", at(record.Add(5 * time.Second)), record, ReasonNone, ""},
		{"accepted 5.001 s after the record", at(record.Add(5001 * time.Millisecond)), record, ReasonBadAcceptance,
			"5.001s after the record's timestamp: at most 5 s"},
		{"a record without a time", func(*Draft) {}, time.Time{}, ReasonBadAcceptance, "after the record's timestamp"},
		{"the first acceptance there is", ms(math.MinInt64), record, ReasonBadEndToEndID, "12 h"},
		{"the last acceptance there is", ms(math.MaxInt64), record, ReasonBadEndToEndID, "12 h"},
		{"no acceptance", ms(0), record, ReasonBadEndToEndID, "1970-01-01T00:00:00Z"},

		{"no id", id(""), record, ReasonBadEndToEndID, "has 0 characters"},
		{"another PSP's id", id("E87654321202506011200abcDEF01234"), record, ReasonBadEndToEndID,
			"names the PSP 87654321: the payer's is 12345678"},
		{"an id that is not UTF-8", id("E12345678202506011200abcDEF0123\xff"), record, ReasonBadEndToEndID,
			`"\xff" at position 32`},
		{"a huge id", id(strings.Repeat("E", 1<<20)), record, ReasonBadEndToEndID, "1048576 characters"},

		{"bad payer", func(d *Draft) { d.Payer.Branch = "1" }, record, ReasonMalformed, "branch"},
		{"empty payer", func(d *Draft) { d.Payer = Account{} }, record, ReasonMalformed, "payer"},
		{"bad payee", func(d *Draft) { d.Payee.Number = "01" }, record, ReasonMalformed, "payee"},
		{"payee's PSP not UTF-8", func(d *Draft) { d.Payee.ISPB = "1234567\xff" }, record, ReasonMalformed, `\xff`},
		{"a huge account number", func(d *Draft) {
			d.Payee.Number = strings.Repeat("9", 1<<20)
		}, record, ReasonMalformed, "1 to 20 digits"},

		{"140 bytes", note(strings.Repeat("a", 140)), record, ReasonNone, ""},
		{"141 bytes", note(strings.Repeat("a", 141)), record, ReasonMalformed, "141 bytes: at most 140"},
		{"71 letters in 142 bytes", note(strings.Repeat("ç", 71)), record, ReasonMalformed, "142 bytes"},
		{"free text not UTF-8", note("abc\xc3"), record, ReasonMalformed, "not UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			draft := goodDraft()
			c.change(&draft)

			order, err := draft.Validate(c.record)
			if c.reason == ReasonNone {
				if err != nil {
					t.Fatal(err)
				}

				return
			}

			var invalid *Invalid
			if !errors.As(err, &invalid) || invalid.Reason != c.reason || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v (%+v), want %s ... %s", err, order, c.reason, c.says)
			}

			if text := err.Error(); !utf8.ValidString(text) || len(text) > 600 ||
				!strings.HasPrefix(text, invalid.Field+": ") {
				t.Errorf("the error cannot stand in a dead letter: %q", text)
			}
		})
	}
}

// For any input, Validate does not panic and returns no error of another kind.
func TestValidateJudgesAnything(t *testing.T) {
	texts := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string {
		return string(b)
	}))
	account := rapid.OneOf(accounts(), rapid.Custom(func(t *rapid.T) Account {
		return Account{ISPB(texts.Draw(t, "ispb")), texts.Draw(t, "branch"), texts.Draw(t, "number")}
	}))
	rapid.Check(t, func(t *rapid.T) {
		id := endToEndIDs().Draw(t, "id")

		draft := Draft{
			EndToEndID: rapid.OneOf(rapid.Just(id.String()), texts).Draw(t, "text"),
			Payer:      account.Draw(t, "payer"), Payee: account.Draw(t, "payee"),
			AmountCentavos:        rapid.Uint64().Draw(t, "amount"),
			AcceptedAtUnixMs:      rapid.OneOf(rapid.Int64(), rapid.Just(id.Time().UnixMilli())).Draw(t, "accepted"),
			RemittanceInformation: texts.Draw(t, "note"),
		}
		if rapid.Bool().Draw(t, "own") {
			draft.Payer.ISPB = id.Payer()
		}
		record := time.UnixMilli(rapid.OneOf(rapid.Int64(), rapid.Just(draft.AcceptedAtUnixMs)).Draw(t, "record"))

		order, err := draft.Validate(record)
		if err == nil {
			if order.ID.Payer() != order.Payer.ISPB ||
				order.Content != (Content{draft.Payer, draft.Payee, draft.AmountCentavos}) {
				t.Fatalf("%+v became %+v", draft, order)
			}

			return
		}

		var invalid *Invalid
		if !errors.As(err, &invalid) || invalid.Reason == ReasonNone || !utf8.ValidString(err.Error()) ||
			len(err.Error()) > 600 {
			t.Fatalf("%+v: %#v", draft, err)
		}
	})
}
