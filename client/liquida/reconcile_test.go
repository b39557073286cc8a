package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

// id returns the id of a payment that 10000001 pays.
func id(n int) string { return fmt.Sprintf("E10000001202601021200%011d", n) }

// reconcileWith runs reconcile with a book and the lines of a statement. states are what the API
// says of single payments.
func reconcileWith(t *testing.T, book, statement []string, states map[string]string,
	more ...string) (kit.Output, []difference) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, isPayment := strings.CutPrefix(r.URL.Path, "/v1/payments/"); isPayment {
			if states[name] == "" {
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, `{"type": "urn:liquida:problem:unknown-payment", "title": "Unknown payment", "detail": "no"}`)
				return
			}
			fmt.Fprint(w, states[name])

			return
		}
		fmt.Fprintf(w, "record,at,kind,id,counterparty,direction,amount_centavos,balance_centavos,count\nopening,2026-01-02T03:00:00Z,,,,,,1000,\n")

		for _, line := range statement {
			fmt.Fprintf(w, "line,2026-01-02T12:00:00Z,payment,%s,0,\n", line)
		}
		fmt.Fprintf(w, "closing,2026-01-03T03:00:00Z,,,,,,935,%d\n", len(statement))
	}))
	defer server.Close()

	path := filepath.Join(t.TempDir(), "book.csv")
	if err := os.WriteFile(path, []byte("id,direction,amount_centavos,state\n"+strings.Join(book, "\n")),
		0o600); err != nil {
		t.Fatal(err)
	}
	arguments := append([]string{"reconcile", "--json", "--participant", "10000001", "--day", "2026-01-02", "--book",
		path}, more...)
	out := kit.Run(t, []string{"LIQUIDA_URL=" + server.URL, "LIQUIDA_KEY_FILE="}, arguments...)
	var told []difference

	for decoder := json.NewDecoder(strings.NewReader(out.Out)); decoder.More(); {
		var d difference
		if err := decoder.Decode(&d); err != nil {
			t.Fatal(err)
		}
		told = append(told, d)
	}

	return out, told
}

// What the book has twice is told once, and what was rejected moved nothing.
func TestADuplicateInTheBookIsOneDifference(t *testing.T) {
	const settled, rejected = ",debit,100,settled", ",debit,100,rejected"

	there := id(1) + ",10000002,debit,100"
	for _, c := range []struct {
		name      string
		book      []string
		statement []string
		want      string // kinds
	}{
		{"rejected twice, rejected there", []string{id(1) + rejected, id(1) + rejected}, nil, ""},
		{"rejected, then settled", []string{id(1) + rejected, id(1) + settled}, []string{there}, ""},
		{"settled, then rejected", []string{id(1) + settled, id(1) + rejected}, []string{there}, ""},
		{"rejected twice, settled there", []string{id(1) + rejected, id(1) + rejected}, []string{there}, "other-state"},
		{"settled twice, settled there", []string{id(1) + settled, id(1) + settled}, []string{there}, "twice-here"},
		{"settled three times, with another amount",
			[]string{id(1) + settled, id(1) + ",debit,101,settled", id(1) + settled}, []string{there}, "twice-here"},
		{"settled twice, not there", []string{id(1) + settled, id(1) + settled}, nil, "twice-here"},
		{"rejected, settled twice, not there", []string{id(1) + rejected, id(1) + settled, id(1) + settled}, nil,
			"twice-here"},
		{"settled once, not there", []string{id(1) + settled}, nil, "missing-there"},
		{"not here", nil, []string{there}, "missing-here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, told := reconcileWith(t, c.book, c.statement, nil)

			var kinds []string
			for _, d := range told {
				kinds = append(kinds, d.Kind)
			}

			code := exitNot
			if c.want == "" {
				code = exitDone
			}

			if out.Is(t, code); strings.Join(kinds, " ") != c.want {
				t.Errorf("told %+v, want %q", told, c.want)
			}
		})
	}
}

// What the ledger knows of a payment that the statement does not have is what it says, no guess.
func TestMissingThereSaysWhatTheLedgerSays(t *testing.T) {
	state := func(status, payer, payee string) string {
		return fmt.Sprintf(`{"status": %q, "decided_at": "2026-01-02T23:00:00Z", "payer": {"ispb": %q}, "payee": {"ispb": %q}}`,
			status, payer, payee)
	}
	states := map[string]string{
		id(1): state("settled", "10000001", "10000002"), id(2): state("settled", "10000002", "10000001"),
		id(3): state("settled", "10000001", "10000001"),
		id(4): state("settled", "10000002", "10000003"), id(5): state("settled", "10000002", "10000002"),
		id(6): state("rejected", "10000001", "10000002"),
	}
	want := map[string]difference{
		id(1): {Kind: "missing-there", There: "settled at 2026-01-02T23:00:00.000Z"},
		id(2): {Kind: "missing-there", There: "settled at 2026-01-02T23:00:00.000Z"},
		id(3): {Kind: "missing-there", There: "settled within the bank: it moved no reserve"},
		id(4): {Kind: "missing-there", There: "a payment between 10000002 and 10000003"},
		id(5): {Kind: "missing-there", There: "a payment between 10000002 and 10000002"},
		id(6): {Kind: "other-state", There: "rejected"},
		id(7): {Kind: "missing-there"},
	}

	var book []string
	for n := range len(want) {
		book = append(book, id(n+1)+",debit,100,settled")
	}
	out, told := reconcileWith(t, book, nil, states, "--until", "2026-01-02T15:00:00Z")
	out.Is(t, exitNot, fmt.Sprintf("differences: %d", len(want)))

	for _, d := range told {
		if w := want[d.ID]; d.Kind != w.Kind || d.There != w.There {
			t.Errorf("told %+v, want %+v", d, w)
		}
		delete(want, d.ID)
	}

	if len(want) > 0 {
		t.Errorf("not told: %v", want)
	}
}

// Exit code 1 says that the book differs, and nothing else.
func TestAFailedComparisonIsNoDifference(t *testing.T) {
	book := filepath.Join(t.TempDir(), "book.csv")
	if err := os.WriteFile(book, []byte("id,direction,amount_centavos,state\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	for kind, status := range map[string]int{"not-yours": 403, "unknown-day": 404, "no-history": 409,
		"invalid-value": 422, "broken-law": 500, "http-version": 505} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"type": "urn:liquida:problem:%s", "title": "No", "detail": "no"}`, kind)
		}))
		kit.Run(t, []string{"LIQUIDA_URL=" + server.URL, "LIQUIDA_KEY_FILE="}, "reconcile", "--participant", "10000001",
			"--day", "2026-01-02", "--book", book).Is(t, exitFailed, fmt.Sprint(status))
		server.Close()
	}
	full := kit.Run(t, []string{"LIQUIDA_URL=" + nowhere, "LIQUIDA_KEY_FILE=", "TMPDIR=/nowhere"}, "reconcile",
		"--participant", "10000001", "--day", "2026-01-02", "--book", book)
	full.Is(t, exitFailed, "/nowhere")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<html></html>")
	}))
	defer web.Close()
	kit.Run(t, []string{"LIQUIDA_URL=" + web.URL, "LIQUIDA_KEY_FILE="}, "reconcile", "--participant", "10000001",
		"--day", "2026-01-02", "--book", book).Is(t, exitUnknown, "it ends with")
}

// A difference that cannot be printed is not lost.
func TestADifferenceThatCannotBeToldIsAnError(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		r := reconciliation{options: &options{out: fullDisk{}, json: asJSON}}
		if err := r.tell(difference{Kind: "missing-here", ID: id(1)}); !errors.Is(err, errFull) {
			t.Errorf("JSON %v: %v", asJSON, err)
		}
	}
}

type fullDisk struct{}

var errFull = errors.New("no space left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }
