package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/producer/submission"
)

// batch sends a body and reads all results, again if no line was taken, and one of them for want of the ledger.
func (p *program) batch(body string) (results []submission.BatchResult) {
	p.t.Helper()

	for giveUp := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		results = p.batchOnce(body)
		taken := slices.ContainsFunc(results, func(r submission.BatchResult) bool { return r.Problem == nil })

		away := slices.ContainsFunc(results, func(r submission.BatchResult) bool {
			return r.Problem != nil && isAway(r.Problem.Type)
		})
		if p.asIs || taken || !away || time.Now().After(giveUp) {
			return results
		}
	}
}

func (p *program) batchOnce(body string) (results []submission.BatchResult) {
	p.t.Helper()

	response := p.send(p.t.Context(), http.MethodPost, batchPath, body, "Content-Type", "application/x-ndjson")
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "application/x-ndjson" {
		p.t.Fatalf("%s %v", response.Status, response.Header)
	}
	decoder := json.NewDecoder(response.Body)

	for {
		var one submission.BatchResult
		if err := decoder.Decode(&one); err == io.EOF {
			return results
		} else if err != nil {
			p.t.Fatal(err)
		}
		results = append(results, one)
	}
}

func TestEachLineOfABatchStandsForItself(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	p := startProgram(t, b, aLedger(t), "BATCH_LINES_MAX=1000", "BATCH_BYTES_MAX=1048576", "HTTP_BODY_BYTES_MAX=1024",
		"PAYMENTS_IN_FLIGHT_MAX=300", "CALLER_SHARE_MAX=1")
	p.AwaitNeed("kafka", false)
	id := pix.NewEndToEndID("10000001", time.Now(), random).String()
	got := p.batch(strings.Join([]string{
		valid, "", `{"end_to_end_id": "` + id + `", ` + valid[1:], `{"amount_centavos": "1"}`,
		`{"payer": ` + payer + `, "payee": ` + payee + `, "amount_centavos": 0}`, "x", `{"isbp": 1}`, valid,
		strings.Replace(valid, "12345}", "9223372036854775808}", 1),
		strings.Replace(valid, "12345}", `5, "AMOUNT_CENTAVOS": 500}`, 1),
	}, "\n"))
	published(t, b, 3)

	want := []struct {
		line   int
		status int // 0: accepted
		field  string
	}{{1, 0, ""}, {3, 0, ""}, {4, 400, "amount_centavos"}, {5, 422, "amount_centavos"}, {6, 400, ""}, {7, 400, "isbp"},
		{8, 0, ""}, {9, 422, "amount_centavos"}, {10, 400, "AMOUNT_CENTAVOS"}}
	if len(got) != len(want) {
		t.Fatalf("%d results, want %d: %+v", len(got), len(want), got)
	}

	for i, w := range want {
		g := got[i]
		if g.Line != w.line || (g.Problem == nil) != (w.status == 0) || g.Problem != nil &&
			(g.Problem.Status != w.status || g.Problem.Field != w.field || g.Status != "") ||
			g.Problem == nil && (g.Status != "accepted" || len(g.EndToEndID) != 32) {
			t.Errorf("result %d is %+v %+v, want %+v", i, g, g.Problem, w)
		}
	}

	if got[1].EndToEndID != id {
		t.Errorf("the id of line 3 is %s", got[1].EndToEndID)
	}
	first := got
	t.Run("more lines than the window and the limit", func(t *testing.T) {
		got := p.batch(strings.Repeat(valid+"\n", 1200))
		if len(got) != 1001 || got[1000].Problem == nil || got[1000].Problem.Status != 413 || got[1000].Line != 1001 {
			t.Fatalf("%d results, the last %+v", len(got), got[len(got)-1])
		}

		ids := map[string]bool{}
		for _, g := range first {
			ids[g.EndToEndID] = true
		}

		for i, g := range got[:1000] {
			if g.Line != i+1 || g.Status != "accepted" {
				t.Fatalf("%+v %+v", g, g.Problem)
			}
			ids[g.EndToEndID] = true
		}

		for _, record := range published(t, b, 1003) {
			if !ids[string(record.Key)] {
				t.Fatalf("%s was published and not answered", record.Key)
			}
		}
	})
	t.Run("a line that is too long ends it", func(t *testing.T) {
		got := p.batch(valid + "\n" + strings.Repeat("x", 2000) + "\n" + valid)
		if len(got) != 2 || got[0].Status != "accepted" || got[1].Problem == nil || got[1].Problem.Status != 413 ||
			got[1].Line != 2 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("no line", func(t *testing.T) {
		if got := p.batch("\n\n"); len(got) != 1 || got[0].Problem == nil || got[0].Problem.Status != 400 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("too many bytes, declared", func(t *testing.T) {
		if got := p.call("POST", batchPath, strings.Repeat(" ", 1<<20+1)); got.code != 413 {
			t.Errorf("%d %s", got.code, got.text)
		}
	})
	t.Run("too many bytes, not declared", func(t *testing.T) {
		response, err := http.Post("http://"+p.HTTP+batchPath, "application/x-ndjson",
			io.MultiReader(strings.NewReader(valid+"\n"),
				strings.NewReader(strings.Repeat(strings.Repeat(" ", 1000)+"\n", 1100))))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()

		text, _ := io.ReadAll(response.Body)
		if lines := bytes.Split(bytes.TrimSpace(text), []byte("\n")); len(lines) != 2 ||
			!bytes.Contains(lines[0], []byte(`"accepted"`)) || !bytes.Contains(lines[1], []byte(`"status":413`)) {
			t.Errorf("%s", text)
		}
	})

	if !strings.Contains(p.metrics(), `pix_producer_batch_lines_total{result="accepted"} 1005`) {
		t.Error("the metric does not count 1005 accepted lines")
	}
}

// Results come while lines are still being sent.
func TestABatchStreams(t *testing.T) {
	t.Parallel()
	p := startProgram(t, startBroker(t), aLedger(t), "HTTP_READ_TIMEOUT=150ms", "BATCHES_MAX=1")
	p.AwaitNeed("kafka", false)
	body, feed := io.Pipe()
	response := make(chan *http.Response, 1)
	go func() {
		r, err := http.Post("http://"+p.HTTP+batchPath, "application/x-ndjson", body) //nolint:bodyclose // the receiver closes it
		if err != nil {
			t.Error(err)
		}
		response <- r
	}()
	var results *bufio.Scanner
	giveUp := time.Now().Add(time.Minute)

	for line, taken := 1, 0; taken < 3; line++ {
		if _, err := io.WriteString(feed, valid+"\n"); err != nil {
			t.Fatal(err)
		}

		if results == nil {
			r := <-response
			if r == nil {
				t.FailNow()
			}
			defer r.Body.Close()
			results = bufio.NewScanner(r.Body)
		}

		if !results.Scan() || !strings.HasPrefix(results.Text(), fmt.Sprintf(`{"line":%d,`, line)) {
			t.Fatalf("line %d: %q %v", line, results.Text(), results.Err())
		}

		switch {
		case strings.Contains(results.Text(), `"end_to_end_id":"E10000001`):
			taken++
		case !strings.Contains(results.Text(), `"status":503`) || time.Now().After(giveUp):
			// the ledger may be slow: it asks for another try
			t.Fatalf("line %d: %s", line, results.Text())
		}
		time.Sleep(200 * time.Millisecond) // longer than HTTP_READ_TIMEOUT, which must not end it
	}

	if got := p.call("POST", batchPath, valid); got.code != http.StatusTooManyRequests || got.retryAfter == "" {
		t.Errorf("past BATCHES_MAX: %d %s", got.code, got.text)
	}
	feed.Close()

	if results.Scan() {
		t.Errorf("after the end: %s", results.Text())
	}
}

// What comes of a body after its batch has ended is not taken for a request.
func TestTheRestOfABatchIsNoRequest(t *testing.T) {
	t.Parallel()
	p := startProgram(t, startBroker(t), aLedger(t), append(lasting, "BATCH_TIMEOUT=1s")...)
	p.AwaitNeed("kafka", false)
	p.AwaitNeed("ledger", false)

	connection := p.connect()
	if _, err := connection.Write([]byte("POST /v1/payments:batch HTTP/1.1\r\nHost: liquida\r\n" +
		"Content-Type: application/x-ndjson\r\nContent-Length: 1000\r\n\r\n{}\n")); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(connection)

	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	_ = response.Body.Close()

	if err == nil || !strings.Contains(string(text), "neither this line nor what follows was sent") {
		t.Errorf("a batch that does not come to its end: %q %v, want it cut off", text, err)
	}
	_, _ = connection.Write([]byte("GET /docs HTTP/1.1\r\nHost: liquida\r\n\r\n")) // an error: the connection is closed

	if text, _ := io.ReadAll(reader); len(text) > 0 {
		t.Errorf("the rest of a batch is answered: %.200q", text)
	}
}

func TestABatchWithTheBrokerAwayNamesEveryPayment(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	p := startProgram(t, b, aLedger(t), "PUBLISH_TIMEOUT=1s")
	p.AwaitNeed("kafka", false)
	b.Stop()
	p.AwaitNeed("kafka", true)

	got := p.batch(strings.Repeat(valid+"\n", 300))
	if len(got) != 300 {
		t.Fatalf("%d results, want 300", len(got))
	}
	unknown := 0

	for i, g := range got {
		if g.Line != i+1 || g.Problem == nil || g.Problem.Status != 503 && g.Problem.Status != 429 ||
			len(g.Problem.EndToEndID) != 32 {
			t.Fatalf("%+v %+v", g, g.Problem)
		}

		if g.Problem.Status == 503 {
			unknown++
		}
	}

	if unknown < submission.BatchWindow {
		t.Errorf("%d of unknown fate, want at least the %d that were in flight", unknown, submission.BatchWindow)
	}
}
