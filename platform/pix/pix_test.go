package pix

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestISPBPacksReversiblyAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := ispbs().Draw(t, "a"), ispbs().Draw(t, "b")
		if parsed, err := ParseISPB(string(a)); err != nil || parsed != a {
			t.Fatalf("%s: %v", a, err)
		}

		if a.Pack() >= 1<<42 || UnpackISPB(a.Pack()) != a {
			t.Fatalf("%s packs to %d, which unpacks to %s", a, a.Pack(), UnpackISPB(a.Pack()))
		}

		if cmp.Compare(a, b) != cmp.Compare(a.Pack(), b.Pack()) {
			t.Fatalf("%s and %s change order when packed", a, b)
		}
	})
}

// A field is accepted exactly if it has its form. The error is fit for a dead letter.
func TestTextsAreAcceptedExactlyWhenTheyHaveTheForm(t *testing.T) {
	for _, c := range []struct {
		name  string
		form  string
		near  string // texts that come close
		parse func(string) error
	}{
		{"ISPB", `^[0-9A-Z]{8}$`, `[0-9A-Za-z]{7,9}`, func(s string) error { _, err := ParseISPB(s); return err }},
		{"reason code", `^[0-9A-Z]{4}$`, `[0-9A-Za-z]{3,5}`, func(s string) error {
			_, err := ParseReason(s)
			return err
		}},
		{"branch", `^[0-9]{4}$`, `[0-9a]{3,5}`, func(s string) error { return Account{"12345678", s, "1"}.Validate() }},
		{"account number", `^[1-9][0-9]{0,19}$`, `[0-9]{0,22}`, func(s string) error {
			return Account{"12345678", "0001", s}.Validate()
		}},
		{"account's ISPB", `^[0-9A-Z]{8}$`, `[0-9A-Z]{7,9}`, func(s string) error {
			return Account{ISPB(s), "0001", "1"}.Validate()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			form := regexp.MustCompile(c.form)
			texts := rapid.OneOf(rapid.StringMatching(c.near), rapid.String(),
				rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string {
					return string(b)
				}))
			rapid.Check(t, func(t *rapid.T) {
				text := texts.Draw(t, "text")
				err := c.parse(text)
				// Without (?m), $ in a Go regexp matches at the end only, so form is exact.
				if (err == nil) != form.MatchString(text) {
					t.Fatalf("%q: %v", text, err)
				}

				if err != nil && (!utf8.ValidString(err.Error()) || len(err.Error()) > 500) {
					t.Fatalf("the error cannot stand in a dead letter: %q", err)
				}
			})
		})
	}
}

func TestRefusedAccountsSayWhy(t *testing.T) {
	good := Account{"12345678", "0001", "1"}
	for _, c := range []struct {
		change func(*Account)
		why    string
	}{
		{func(a *Account) { a.ISPB = "123" }, `ISPB "123" has 3 characters: it must have 8`},
		{func(a *Account) { a.Branch = "" }, `branch is "": it must be exactly 4 digits`},
		{func(a *Account) { a.Branch = "12345" }, `branch is "12345"`},
		{func(a *Account) { a.Branch = "00x1" }, `branch is "00x1"`},
		{func(a *Account) { a.Number = "" }, `account number is "": it must be 1 to 20 digits without leading zeros`},
		{func(a *Account) { a.Number = "007" }, `account number is "007"`},
		{func(a *Account) { a.Number = "0" }, `account number is "0"`},
		{func(a *Account) { a.Number = "١٢" }, `account number is "١٢"`}, // digits, but not ours
		{func(a *Account) { a.Number = strings.Repeat("9", 1000) }, `account number is "9999`},
	} {
		account := good
		c.change(&account)

		if err := account.Validate(); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%v: got %v, want %s", account, err, c.why)
		}
	}

	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

func TestReasonsKeepTheirFourCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[0-9A-Z]{4}`).Draw(t, "code")

		reason, err := ParseReason(text)
		if err != nil || reason.String() != text || reason == ReasonNone {
			t.Fatalf("%s became %d, %s, %v", text, reason, reason, err)
		}
	})

	if ReasonNone.String() != "" {
		t.Errorf("no reason reads %q", ReasonNone.String())
	}
}

func TestReasonsOfTheClearingHouseDiffer(t *testing.T) {
	seen := map[Reason]bool{ReasonNone: true}
	for _, d := range Definitions {
		if seen[d.Reason] {
			t.Errorf("%s stands for two things", d.Reason)
		}
		seen[d.Reason] = true
	}

	for _, reason := range []Reason{
		ReasonPayeePSPSilent, ReasonReserveShort, ReasonZeroAmount, ReasonPayerMissing, ReasonPayeeMissing,
		ReasonPayeeBlocked, ReasonPayeeClosed, ReasonUnknownPayerPSP, ReasonUnknownPayeePSP, ReasonInactivePSP,
		ReasonPayerShort, ReasonPayeePSPBusy, ReasonBankUnspecified, ReasonMalformed, ReasonBadEndToEndID,
		ReasonBadAcceptance, ReasonConflict,
	} {
		if !seen[reason] || reason.Meaning() == "" {
			t.Errorf("%s is not defined", reason)
		}
	}
}

// TestTheDocumentListsAllReasons keeps docs/outcomes.md and the definitions equal.
func TestTheDocumentListsAllReasons(t *testing.T) {
	const file = "../../docs/outcomes.md"

	document, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}

	for line := range strings.Lines(string(document)) {
		if strings.HasPrefix(line, "| `") {
			listed[strings.TrimSpace(line)] = true
		}
	}

	for _, d := range Definitions {
		var where []string
		for _, place := range []struct {
			where Where
			name  string
		}{{OfPayment, "payment"}, {OfReturn, "return"}, {OfDeadLetter, "dead letter"}} {
			if d.Where&place.where != 0 {
				where = append(where, place.name)
			}
		}

		row := fmt.Sprintf("| `%s` | %s | %s | %s |", d.Reason, d.Meaning, strings.Join(where, ", "), d.By)
		if !listed[row] {
			t.Errorf("%s has no row\n%s", file, row)
		}
		delete(listed, row)
	}

	for row := range listed {
		t.Errorf("%s has a row of no reason:\n%s", file, row)
	}
}

func TestMustReasonPanicsOnABadConstant(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("it did not")
		}
	}()
	MustReason("abc")
}
