package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liquida/liquida/client"
)

func TestBatchesAndCertificatesThatAreBadUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "payments")
	if err := os.WriteFile(file, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct{ arguments, says string }{
		{"batch", "accepts 1 arg"},
		{"batch /nowhere/payments", "FILE"},
		{"batch " + file + " --lines 0", "--lines is 0"},
		{"batch " + file + " --wait 2h", "--wait is 2h0m0s"},
		{"participants --ca ca.pem", "begins with https"},
		{"participants --url https://127.0.0.1:1 --cert cert.pem", "give both or none"},
		{"participants --url https://127.0.0.1:1 --ca " + file, "no certificate in PEM"},
	} {
		liquida(t, strings.Fields(c.arguments)...).Is(t, exitBadUsage, c.says, "--help")
	}
	liquida(t, "batch", file).Is(t, exitNot, "there is no payment")
	liquida(t, "__complete", "ba").Is(t, exitDone, "balance", "batch")
}

// A refusal does not show of which content it is. One batch asks that of all of them: no payment is sent again
// alone, and what was read counts, also if the wait has ended meanwhile.
func TestRefusedLinesOfABatchAreComparedTogether(t *testing.T) {
	payer, payee := client.Account{ISPB: "10000001", Branch: "0001", Number: "1"},
		client.Account{ISPB: "10000002", Branch: "0001", Number: "1"}
	kinds := []string{"refused", "refused", "other", "settled", "open"}
	kindOf := map[string]string{}
	var file strings.Builder

	for i, kind := range kinds {
		id := fmt.Sprintf("E10000001202601010000ABCDEFGHIJ%d", i)

		kindOf[id] = kind
		if err := json.NewEncoder(&file).Encode(
			client.Payment{EndToEndID: id, Payer: payer, Payee: payee, AmountCentavos: 1}); err != nil {
			t.Fatal(err)
		}
	}

	name := filepath.Join(t.TempDir(), "payments")
	if err := os.WriteFile(name, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var batches []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			id := path.Base(r.URL.Path)
			// shows no content
			state := client.PaymentState{EndToEndID: id, Status: client.Rejected, ReasonCode: "AM04"}
			switch kindOf[id] {
			case "settled":
				state = client.PaymentState{EndToEndID: id, Status: client.Settled, Payer: &payer, Payee: &payee,
					AmountCentavos: 1}
			case "open":
				<-r.Context().Done() // until the wait has ended
				return
			}
			_ = json.NewEncoder(w).Encode(state)
		case r.URL.Path == "/v1/payments:batch":
			var sent []string

			lines := bufio.NewScanner(r.Body)
			for line := 1; lines.Scan(); line++ {
				var p client.Payment
				if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
					t.Error(err)
				}

				sent = append(sent, kindOf[p.EndToEndID])
				if len(batches) == 1 && kindOf[p.EndToEndID] == "other" {
					fmt.Fprintf(w, `{"line": %d, "problem": {"type": "urn:liquida:problem:other-content", "title": "The id belongs to other content", "status": 409, "code": "DUPL"}}`+"\n",
						line)
				} else {
					fmt.Fprintf(w, `{"line": %d, "end_to_end_id": %q, "status": "accepted"}`+"\n", line, p.EndToEndID)
				}
			}
			batches = append(batches, strings.Join(sent, " "))
		default:
			t.Errorf("%s %s", r.Method, r.URL)
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer server.Close()
	got := liquida(t, "batch", name, "--url", server.URL, "--wait", "1s").Is(t, exitUnknown,
		"of 1 of 5 payments it is not known")

	var said []string
	for line := range strings.Lines(got.Out) {
		said = append(said, strings.Join(append(strings.Fields(line), "")[2:4], " "))
	}

	want := []string{"rejected AM04", "rejected AM04", "refused The", "settled", "accepted"}
	for i := range want {
		if len(said) != len(want) || !strings.HasPrefix(said[i], want[i]) {
			t.Fatalf("line %d: %q, want %q\n%s%s", i+1, said, want, got.Out, got.Err)
		}
	}

	if len(batches) != 2 || batches[1] != "refused refused other" {
		t.Errorf("sent were %q", batches)
	}
	server.Close()
	liquida(t, "batch", name, "--url", server.URL, "--wait", "0s", "--retry-for", "0s").Is(t, exitUnknown,
		"of 5 of 5 payments it is not known")
}
