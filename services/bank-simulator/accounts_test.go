package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/liquida/liquida/client"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// door is the front door of a bank that blocks and closes accounts: it sends the bank's acts. What
// the real one sends is tested in the producer and in loadtest/e2e.
type door struct {
	mu   sync.Mutex
	away bool
	acts []client.Act
	read int // acts that were taken in: the next page was asked for

	calm, all bool // not calm: it never answers two banks one after the other; all: it has told the first of them all
}

func (d *door) do(act, number string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acts = append(d.acts, client.Act{Participant: "10000002", Act: act,
		Account: &client.Account{ISPB: "10000002", Branch: "0001", Number: number}})
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()

	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	switch {
	case r.Header.Get("Authorization") == "Bearer key-of-10000001": // revoked
		w.WriteHeader(http.StatusUnauthorized)
	case r.Header.Get("Authorization") == "Bearer key-of-10000003" && !d.away && (d.calm || !d.all):
		_ = json.NewEncoder(w).Encode(client.ActPage{NextCursor: "0"})
	case r.Header.Get("Authorization") != "Bearer key-of-10000002" || d.away:
		w.WriteHeader(http.StatusServiceUnavailable)
	case d.all && !d.calm && from >= len(d.acts):
		d.all = false
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/v1/participants/10000002/acts":
		d.all = from >= len(d.acts)
		to := min(from+2, len(d.acts)) // in pages of two
		d.read = max(d.read, from)
		_ = json.NewEncoder(w).Encode(client.ActPage{Acts: d.acts[from:to], NextCursor: strconv.Itoa(to)})
	}
}

// Each bank knows its own accounts: what comes in to one that it has blocked or closed it rejects. It answers nothing
// before it has read all its acts, and goes by them while the front door is away. Another bank's key that was revoked
// changes nothing.
func TestABankTakesNothingInForAnAccountThatIsNotOpen(t *testing.T) {
	d := &door{away: true}
	for _, act := range []string{"block", "reopen", "deposit", "open", "close"} {
		d.do(act, "1")
	}
	d.do("block", "2")
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)

	dir := t.TempDir()
	for name, key := range map[string]string{"10000001": "key-of-10000001", "10000002": "key-of-10000002",
		"10000003": "key-of-10000003", "central-bank": "never sent"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(key+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := startBroker(t, bothTopics...)
	p := startProgram(t, b, "SIMULATOR_API_URL="+server.URL, "SIMULATOR_API_KEYS_DIR="+dir)
	a := newAsker(t, b)
	ask := func(number, want string) {
		t.Helper()
		request := a.request("0001")
		request.Payee.Number = number
		a.ask(request)
		a.awaitResponses(1, request)
		a.check([]*pixv1.AuthorizationRequest{request}, func(*pixv1.AuthorizationRequest) string { return want })
	}
	p.AwaitNeed("assignment", false)
	p.AwaitNeed("accounts", true) // a bank that cannot answer is not ready
	early := a.request("0001")
	a.ask(early)
	d.mu.Lock()
	d.away = false
	d.mu.Unlock()
	p.AwaitReady() // although the front door never answers all banks in a row
	d.mu.Lock()
	d.calm = true
	d.mu.Unlock()
	a.awaitResponses(1, early)
	a.check([]*pixv1.AuthorizationRequest{early}, func(*pixv1.AuthorizationRequest) string { return rejected + "AC07" })
	ask("1", rejected+"AC07")
	ask("2", rejected+"AC06")
	ask("3", accepted)
	d.do("reopen", "1")
	d.do("reopen", "2")
	d.do("close", "2")

	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		d.mu.Lock()
		read := d.read
		d.mu.Unlock()

		if read == 9 {
			break
		}

		if time.Now().After(until) {
			t.Fatalf("%d of 9 acts were read", read)
		}
	}
	d.mu.Lock()
	d.away = true
	d.mu.Unlock()
	ask("2", rejected+"AC07")
	ask("1", accepted)
}
