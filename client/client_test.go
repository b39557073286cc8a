package client

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// What a real API answers is tried with the commands of docs/liquida.md. Here is what stands
// between: an API that is not one, and answers that no test can make the real one give at will.

func at(t *testing.T, key string, answer http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)

	c, err := New(server.URL+"/", key)
	if err != nil {
		t.Fatal(err)
	}
	c.RetryFor = time.Minute

	return c
}

func TestTheKeyIsSentAndNotFollowedAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	key, err := ReadKey(path)
	if err != nil || key != "secret" {
		t.Fatal(key, err)
	}
	asked := 0
	c := at(t, key, func(w http.ResponseWriter, r *http.Request) {
		asked++

		if r.Header.Get("Authorization") != "Bearer secret" || r.URL.Path != "/v1/participants/10000001" {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})

	_, err = c.Participant(t.Context(), "10000001")
	if problem := new(Problem); !errors.As(err, &problem) || problem.Status != 307 || TryAgain(err) || asked != 1 {
		t.Errorf("asked %d times, %v", asked, err)
	}

	for _, wrong := range []string{"", "\n", "two words", "two\nlines", strings.Repeat("k", 5000)} {
		if err := os.WriteFile(path, []byte(wrong), 0o600); err != nil {
			t.Fatal(err)
		}

		if _, err := ReadKey(path); err == nil || strings.Contains(err.Error(), "two") {
			t.Errorf("%.20q: %v", wrong, err)
		}
	}
}

func TestTheSamePaymentIsSentUntilItIsAcknowledged(t *testing.T) {
	var bodies []string
	c := at(t, "", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)

		bodies = append(bodies, string(body))
		switch len(bodies) {
		case 1: // no answer at all
			panic(http.ErrAbortHandler)
		case 2: // something between that is not the API
			http.Error(w, "bad gateway", http.StatusBadGateway)
		case 3:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"title": "Fate unknown", "detail": "again", "status": 503}`)
		default:
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, `{"end_to_end_id": "E", "status": "accepted"}`)
		}
	})
	payer := Account{"10000001", "0001", "1"}

	state, err := c.Pay(t.Context(), Payment{Payer: payer, Payee: payer, AmountCentavos: 1}, 0)
	if err != nil || state.Status != Accepted || len(bodies) != 4 || len(slices.Compact(bodies)) != 1 ||
		!strings.Contains(bodies[0], `"end_to_end_id":"E10000001`) {
		t.Errorf("%+v %v %q", state, err, bodies)
	}
	c.RetryFor = 0
	bodies = nil

	_, err = c.Pay(t.Context(), Payment{Payer: payer, Payee: payer, AmountCentavos: 1}, 0)
	if unknown := new(UnknownFate); !errors.As(err, &unknown) || len(bodies) != 1 ||
		!strings.Contains(bodies[0], unknown.EndToEndID) || !TryAgain(err) {
		t.Errorf("%v after %q", err, bodies)
	}
}

func TestBusyIsNotUnknown(t *testing.T) {
	c := at(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"title": "Too many", "detail": "nothing was sent"}`)
	})
	c.RetryFor = time.Second
	payer := Account{"10000001", "0001", "1"}

	_, err := c.Pay(t.Context(), Payment{Payer: payer, Payee: payer, AmountCentavos: 1}, 0)
	if errors.As(err, new(*UnknownFate)) || !TryAgain(err) {
		t.Error(err)
	}
}

func TestAnOutcomeNotSeenIsTold(t *testing.T) {
	c := at(t, "", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, `{"end_to_end_id": "E", "status": "accepted"}`)
			return
		}
		http.Error(w, "", http.StatusForbidden)
	})
	payer := Account{"10000001", "0001", "1"}

	state, err := c.Pay(t.Context(), Payment{Payer: payer, Payee: payer, AmountCentavos: 1}, time.Minute)
	if state.Status != Accepted || err == nil ||
		!strings.Contains(err.Error(), "was accepted, but its outcome was not seen") {
		t.Errorf("%+v %v", state, err)
	}
}

func TestAReturnIsWaitedForAndThenFollowed(t *testing.T) {
	const id, original = "D10000002202601010000ABCDEFGHIJK", "E10000001202601010000ABCDEFGHIJK"
	var asked []string
	c := at(t, "", func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Prefer"))
		if len(asked) == 3 {
			fmt.Fprintf(w, `{"return_id": %q, "status": "rejected", "reason_code": "AM09"}`, id)
			return
		}

		if r.Method == "POST" {
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprintf(w, `{"return_id": %q, "status": "accepted"}`, id)
			return
		}
		fmt.Fprintf(w, "event: state\ndata: {\"return_id\": %q, \"status\": \"reserved\"}\n\nevent: state\ndata: {\"return_id\": %q, \"status\": \"rejected\", \"reason_code\": \"AM09\"}\n\n",
			id, id)
	})

	state, err := c.GiveBack(t.Context(),
		ReturnOrder{ReturnID: id, OriginalEndToEndID: original, AmountCentavos: 1, ReasonCode: "MD06"}, time.Minute)
	if err != nil || state.ReturnID != id || !state.Final() || state.ReasonCode != "AM09" {
		t.Errorf("%+v %v", state, err)
	}
	// A refusal shows no content: the same order is sent again, so that the API says if it is its own.
	if want := "POST /v1/returns wait=10, GET /v1/returns/" + id +
		"/events , POST /v1/returns "; strings.Join(asked, ", ") != want {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

func TestEventsAreRead(t *testing.T) {
	for text, want := range map[string]string{
		"id: a\nevent: n\ndata: 1\n\n: alive\n\nid: b\n\ndata: 2\n\n": "{a n 1} {b  } {b  2} ",
		"data: 1\ndata:2\nother: x\n\n":                               "{  1\n2} ",
		"data: cut off\n":                                             "",
		": alive\n\n\n":                                               "",
	} {
		got := ""

		err := readEvents(bufio.NewScanner(strings.NewReader(text)), func(e event) (bool, error) {
			got += fmt.Sprintf("{%s %s %s} ", e.id, e.name, e.data)
			return false, nil
		})
		if err != nil || got != want {
			t.Errorf("%q is read as %q, not %q (%v)", text, got, want, err)
		}
	}
}

func TestAStreamGoesOnWhereItBroke(t *testing.T) {
	from := []string{}
	c := at(t, "", func(w http.ResponseWriter, r *http.Request) {
		from = append(from, r.URL.Query().Get("from"))
		if len(from) < 3 {
			fmt.Fprintf(w, "id: %d\ndata: {\"end_to_end_id\": \"E%d\"}\n\n: then it breaks\n", len(from), len(from))
			return
		}
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"title": "Invalid value", "detail": "from: no", "value": "2"}`)
	})

	err := c.Settlements(t.Context(), "10000001", "start", func(s Settlement, position string) (bool, error) {
		if s.EndToEndID != "E"+position {
			t.Errorf("%+v at %s", s, position)
		}

		return false, nil
	})
	if problem := new(Problem); !errors.As(err, &problem) || problem.Status != 422 ||
		!slices.Equal(from, []string{"start", "1", "2"}) {
		t.Errorf("%v after %q", err, from)
	}
}

func TestBadAddresses(t *testing.T) {
	for _, address := range []string{"", "localhost:8080", "ftp://x", "http://", "http://[::1"} {
		if _, err := New(address, ""); err == nil || !strings.Contains(err.Error(), DefaultURL) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// The outcome is that of the content that was sent. What is followed is the id, which another payment
// may have had first.
func TestTheOutcomeIsThatOfTheOwnContent(t *testing.T) {
	payer, payee := Account{"10000001", "0001", "1"}, Account{"10000002", "0001", "1"}
	sent := Payment{EndToEndID: "E10000001202601010000ABCDEFGHIJK", Payer: payer, Payee: payee, AmountCentavos: 2}
	other := sent
	other.AmountCentavos = 1
	conflict := `{"title": "The id belongs to other content", "status": 409, "type": "urn:liquida:problem:other-content", "code": "DUPL", "detail": "read its status"}`
	state := func(p Payment, status string) string {
		text, err := json.Marshal(
			PaymentState{EndToEndID: p.EndToEndID, Status: status, Payer: &p.Payer, Payee: &p.Payee,
				AmountCentavos: p.AmountCentavos})
		if err != nil {
			t.Fatal(err)
		}

		return string(text)
	}

	refused := `{"end_to_end_id": "` + sent.EndToEndID + `", "status": "rejected", "reason_code": "AM04"}`
	for _, c := range []struct {
		name, event string // what is followed says
		code        int    // of the same payment, sent again; 0: it is not
		again       string
		status      string
		conflict    bool
	}{
		{"settled", state(sent, Settled), 0, "", Settled, false},
		{"another amount has settled", state(other, Settled), 409, conflict, Unknown, true},
		{"refused", refused, 200, refused, Rejected, false},
		{"refused, and the same was taken again", refused, 202,
			`{"end_to_end_id": "` + sent.EndToEndID + `", "status": "accepted"}`, Rejected, false},
		{"another content was refused", refused, 409, conflict, Unknown, true},
		{"nobody says whose the refusal is", refused, 503, `{"title": "away"}`, Accepted, false},
	} {
		posts := 0
		api := at(t, "", func(w http.ResponseWriter, r *http.Request) {
			switch posts++; {
			case r.Method == http.MethodGet:
				posts--
				fmt.Fprintf(w, "event: state\ndata: %s\n\n", c.event)
			case posts == 1:
				w.WriteHeader(http.StatusAccepted)
				fmt.Fprintf(w, `{"end_to_end_id": %q, "status": "accepted"}`, sent.EndToEndID)
			default:
				w.WriteHeader(c.code)
				fmt.Fprint(w, c.again)
			}
		})
		api.RetryFor = 0

		got, err := api.Pay(t.Context(), sent, time.Minute)
		if got.Status != c.status || OtherContent(err) != c.conflict || (err != nil) != (c.conflict || c.code == 503) ||
			(posts == 1) != (c.code == 0) {
			t.Errorf("%s: %+v %v after %d posts", c.name, got, err, posts)
		}
	}
	// After a try without an answer, too, nothing is open: no try of other content can have been made.
	for _, kind := range []string{"other-content", "other-content-sent"} {
		posts := 0
		api := at(t, "", func(w http.ResponseWriter, _ *http.Request) {
			if posts++; posts == 1 {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, strings.Replace(conflict, `other-content"`, kind+`"`, 1))
		})

		_, err := api.Pay(t.Context(), sent, 0)
		if errors.As(err, new(*UnknownFate)) != (kind == "other-content-sent") || err == nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// After a try without an answer the ledger's refusal of an act's id tells the fate of both. A refusal of
// another kind does not: the first try may still be on its way.
func TestAnActWhoseIDTheLedgerRefusesIsNotUnknown(t *testing.T) {
	for _, c := range []struct {
		status  int
		body    string
		unknown bool
	}{
		{422, `{"type": "urn:liquida:problem:act-refused", "title": "Not enough", "field": "amount_centavos"}`, false},
		{409, `{"type": "urn:liquida:problem:act-refused", "title": "The act was refused before", "field": "act_id"}`,
			false},
		{409, `{"type": "urn:liquida:problem:act-refused", "title": "It is there", "field": "ispb"}`, true},
		{429, `{"type": "urn:liquida:problem:busy", "title": "Busy", "detail": "nothing was sent"}`, true},
		{403, `{"type": "urn:liquida:problem:not-yours", "title": "Not yours"}`, true},
	} {
		tries := 0
		api := at(t, "", func(w http.ResponseWriter, _ *http.Request) {
			if tries++; tries == 1 {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})
		api.RetryFor = 900 * time.Millisecond
		_, err := api.ActOnAccount(t.Context(), Account{"10000001", "0001", "1"}, "one",
			AccountAct{Act: Withdraw, AmountCentavos: 1})

		again := c.status == http.StatusTooManyRequests
		if err == nil || tries < 2 || tries > 2 && !again || errors.As(err, new(*UnknownFate)) != c.unknown ||
			strings.Contains(err.Error(), "But an earlier try") != again {
			t.Errorf("%s: %v after %d tries", c.body, err, tries)
		}
	}
}

// "Nothing was sent" leaves no fate open; a 503 that names the order does, and so does one of a proxy. A
// caller hears of each retry.
func TestAFateIsOpenOnlyIfSomethingMayHaveBeenDone(t *testing.T) {
	for body, open := range map[string]bool{
		`{"type": "urn:liquida:problem:log-wrong", "title": "No", "status": 503}`:                            false,
		`{"type": "urn:liquida:problem:unknown-fate", "title": "No", "status": 503, "end_to_end_id": "E1"}`:  true,
		`{"type": "urn:liquida:problem:unknown-fate", "title": "No", "status": 503}`:                         true,
		`{"type": "urn:liquida:problem:something-new", "title": "No", "status": 503, "end_to_end_id": "E1"}`: true,
		`<html>503</html>`: true,
	} {
		tries := 0
		c := at(t, "", func(w http.ResponseWriter, _ *http.Request) {
			tries++
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, body)
		})
		c.RetryFor = time.Second
		told := 0
		c.OnRetry = func(err error, left time.Duration) {
			if told++; err == nil || left <= 0 || left > time.Second {
				t.Errorf("%v, %v left", err, left)
			}
		}
		account := Account{ISPB: "10000001", Branch: "0001", Number: "1"}

		_, err := c.Pay(t.Context(), Payment{Payer: account, Payee: account, AmountCentavos: 1}, 0)
		if errors.As(err, new(*UnknownFate)) != open || !TryAgain(err) || told != tries-1 {
			t.Errorf("%s: %v after %d tries, %d retries told", body, err, tries, told)
		}
	}
}

// Who asks much at once keeps its connections: opening one costs both ends more than a request.
func TestConnectionsAreKept(t *testing.T) {
	const together = 8
	var opened atomic.Int32
	var arrived sync.WaitGroup
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived.Done()
		arrived.Wait()
		_, _ = io.WriteString(w, "{}")
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)

	c, err := New(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}

	for range 3 {
		arrived.Add(together)

		var done sync.WaitGroup
		for range together {
			done.Go(func() { _, _ = c.Issuance(t.Context()) })
		}
		done.Wait()
	}

	if n := opened.Load(); n > 2*together { // one that was just answered may not be back yet
		t.Errorf("3 times %d requests opened %d connections; want %d", together, n, together)
	}
}
