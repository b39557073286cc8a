package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

const (
	payer = `{"ispb": "10000001", "branch": "0001", "number": "1"}`
	payee = `{"ispb": "10000002", "branch": "0001", "number": "2"}`
	valid = `{"payer": ` + payer + `, "payee": ` + payee + `, "amount_centavos": 12345}`
)

// published reads this many records of pix.payments.
func published(t *testing.T, b *kit.Broker, count int) []*kgo.Record {
	t.Helper()

	client, err := kgo.NewClient(kgo.SeedBrokers(b.Address), kgo.ConsumeTopics(stream.Payments),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()

	var records []*kgo.Record
	for len(records) < count {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d payments are in the topic", len(records), count)
		}
		records = append(records, fetches.Records()...)
	}

	return records
}

func TestAPaymentIsInTheTopicOnceItIsAccepted(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	p := startProgram(t, b, aLedger(t))
	p.AwaitNeed("kafka", false)
	before := time.Now().Truncate(time.Millisecond)

	first := p.call("POST", "/v1/payments", valid)
	if first.code != http.StatusAccepted || string(first.Status) != `"accepted"` {
		t.Fatalf("%d %s", first.code, first.text)
	}

	id, err := pix.ParseEndToEndID(first.EndToEndID)
	if err != nil || id.Payer() != "10000001" {
		t.Fatalf("made the id %q: %v", first.EndToEndID, err)
	}
	// The same payment again, with its id and a remittance text.
	again := p.call("POST", "/v1/payments",
		fmt.Sprintf(`{"end_to_end_id": %q, "payer": %s, "payee": %s, "amount_centavos": 12345, "remittance_information": "obrigado", "accepted_at": %q}`,
			first.EndToEndID, payer, payee, before.Format(time.RFC3339Nano)))
	if again.code != http.StatusAccepted || again.EndToEndID != first.EndToEndID {
		t.Fatalf("%d %s", again.code, again.text)
	}

	records := published(t, b, 2)
	for i, record := range records {
		order := &pixv1.PaymentOrder{}
		if err := order.UnmarshalVT(record.Value); err != nil {
			t.Fatal(err)
		}

		if string(record.Key) != first.EndToEndID || order.EndToEndId != first.EndToEndID ||
			order.AmountCentavos != 12345 ||
			order.Payer.GetNumber() != "1" || order.Payee.GetIspb() != "10000002" ||
			order.RemittanceInformation != []string{"", "obrigado"}[i] {
			t.Errorf("record %d: key %s, %v", i, record.Key, order)
		}

		if order.AcceptedAtUnixMs < before.UnixMilli() || order.AcceptedAtUnixMs > record.Timestamp.UnixMilli() {
			t.Errorf("record %d: accepted at %d, sent from %d to %d", i, order.AcceptedAtUnixMs, before.UnixMilli(),
				record.Timestamp.UnixMilli())
		}

		if i > 0 && record.Partition != records[0].Partition {
			t.Error("the same payment went to two partitions")
		}
	}

	if again := p.call("GET", "/v1/payments/"+first.EndToEndID, ""); again.code != http.StatusNotFound {
		t.Errorf("a status before an engine has it: %d %s", again.code, again.text)
	}
}

func TestBadInputIsRefusedWithTheFieldAndTheValue(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	p := startProgram(t, b, aLedger(t))
	p.AwaitNeed("kafka", false)
	id := pix.NewEndToEndID("10000001", time.Now(), random).String()

	with := func(fields string) string { return `{"payer": ` + payer + `, "payee": ` + payee + `, ` + fields + `}` }
	for _, c := range []struct {
		name, body         string
		code               int
		field, value, says string
		reason             string
	}{
		{"empty body", ``, 400, "", "", "ends too early", ""},
		{"cut off", valid[:20], 400, "", "", "send one whole object (line 1, column 21)", ""},
		{"no JSON", `amount=1`, 400, "", "", "send one JSON object (line 1, column 1)", ""},
		{"not an object", `[1]`, 400, "", `"array"`, "must be an object", ""},
		{"two objects", valid + valid, 400, "", "", "something follows", ""},
		{"unknown field", with(`"amount_centavos": 1, "amount": 1`), 400, "amount", "", "not known", ""},
		{"unknown field inside", `{"payer": {"isbp": "10000001"}}`, 400, "payer.isbp", "",
			"not known: remove it or correct its name (line 1, column 12)", ""},
		{"two amounts in different case", with(`"amount_centavos": 5, "AMOUNT_CENTAVOS": 500`), 400, "AMOUNT_CENTAVOS",
			"", "not known", ""},
		{"two amounts", with(`"amount_centavos": 5, "amount_centavos": 500`), 400, "amount_centavos", "", "twice", ""},
		{"two amounts, one escaped", with(`"amount_centavos": 5, "amount_\u0063entavos": 500`), 400, "amount_centavos",
			"", "twice", ""},
		{"a field inside in another case",
			`{"payer": {"ISPB": "10000001", "branch": "0001", "number": "1"}, "payee": ` + payee +
				`, "amount_centavos": 1}`, 400, "payer.ISPB", "", "not known", ""},
		{"amount as text", with(`"amount_centavos": "1"`), 400, "amount_centavos", `"string"`, "an integer", ""},
		{"amount with a fraction", with(`"amount_centavos": 1.5`), 400, "amount_centavos", `"number 1.5"`,
			"an integer", ""},
		{"negative amount", with(`"amount_centavos": -1`), 400, "amount_centavos", `"number -1"`, "an integer", ""},
		{"amount past 64 bits", with(`"amount_centavos": 18446744073709551616`), 400, "amount_centavos",
			`"number 18446744073709551616"`, "an integer", ""},
		{"branch as a number", `{"payer": {"branch": 1}}`, 400, "payer.branch", `"number"`,
			"a string (line 1, column 22)", ""},
		{"too large", with(`"remittance_information": "` + strings.Repeat("x", 16<<10) + `"`), 413, "", "",
			"16384", ""},
		{"no amount", with(`"end_to_end_id": ""`), 400, "amount_centavos", "",
			"is missing: send it (line 1, column 1)", ""},
		{"zero amount", with(`"amount_centavos": 0`), 422, "amount_centavos", "0", "at least 1", "AM01"},
		{"amount of 2^63", with(`"amount_centavos": 9223372036854775808`), 422, "amount_centavos",
			"9223372036854775808", "2^63-1", "FF01"},
		{"no payer", `{"payee": ` + payee + `, "amount_centavos": 1}`, 400, "payer", "", "is missing", ""},
		{"null for the payee", `{"payer": ` + payer + `, "payee": null, "amount_centavos": 1}`, 400, "payee", "",
			"is missing", ""},
		{"no branch", "{\"payer\": " + payer +
			",\n\"payee\": {\"ispb\": \"10000002\", \"number\": \"1\"}, \"amount_centavos\": 1}", 400, "payee.branch",
			"", "is missing: send it (line 2, column 10)", ""},
		{"a negative amount", `{"payer": ` + payer + `, "payee": ` + payee + `, "amount_centavos": -5}`, 400,
			"amount_centavos", `"number -5"`, "it must be an integer from 1 to 9223372036854775807", ""},
		{"nothing", `null`, 400, "", "", "is null", ""},
		{"bad payer ISPB", `{"payer": {"ispb": "1234567a", "branch": "0001", "number": "1"}, "payee": ` + payee +
			`, "amount_centavos": 1}`, 422, "payer.ispb", `"1234567a"`, "ISPB", "FF01"},
		{"bad branch", `{"payer": {"ispb": "10000001", "branch": "1", "number": "1"}, "payee": ` + payee +
			`, "amount_centavos": 1}`, 422, "payer.branch", `"1"`, "branch is", "FF01"},
		{"bad number", `{"payer": ` + payer +
			`, "payee": {"ispb": "10000002", "branch": "0001", "number": "01"}, "amount_centavos": 1}`, 422,
			"payee.number", `"01"`, "account number", "FF01"},
		{"bad id", with(`"end_to_end_id": "E1", "amount_centavos": 1`), 422, "end_to_end_id", `"E1"`, "32", "FF08"},
		{"id of another payer", with(`"end_to_end_id": "E10000002` + id[9:] + `", "amount_centavos": 1`), 422,
			"end_to_end_id", "E10000002", "payer's is 10000001", "FF08"},
		{"id of another day", with(`"end_to_end_id": "E10000001202001020304` + id[21:] + `", "amount_centavos": 1`),
			422, "end_to_end_id", "202001020304", "12 h", "FF08"},
		{"acceptance that is no time", with(`"accepted_at": "yesterday", "amount_centavos": 1`), 422, "accepted_at",
			`"yesterday"`, "RFC 3339", "DT02"},
		{"acceptance in the future",
			with(`"accepted_at": "` + time.Now().Add(time.Minute).Format(time.RFC3339) + `", "amount_centavos": 1`),
			422, "accepted_at", "T", "at most 5 s", "DT02"},
		{"long remittance", with(`"remittance_information": "` + strings.Repeat("x", 141) + `", "amount_centavos": 1`),
			422, "remittance_information", "xxx", "at most 140", "FF01"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := p.call("POST", "/v1/payments", c.body)
			if got.code != c.code || string(got.Status) != fmt.Sprint(c.code) ||
				got.contentType != "application/problem+json" || got.Type == "" || got.Title == "" {
				t.Errorf("%d %s %s, want a problem with %d", got.code, got.contentType, got.text, c.code)
			}

			if got.Field != c.field || !strings.Contains(string(got.Value), c.value) ||
				!strings.Contains(got.Detail, c.says) || got.Code != c.reason {
				t.Errorf("%s, want field %q, value %s, code %q and %q in the detail", got.text, c.field, c.value,
					c.reason, c.says)
			}
		})
	}

	if got := p.call("GET", "/v1/payments/E1", ""); got.code != 422 || got.Field != "end_to_end_id" ||
		string(got.Value) != `"E1"` || got.Code != "FF08" {
		t.Errorf("%d %s", got.code, got.text)
	}
}

func TestWithTheBrokerAwayTheFateIsUnknownAndTheIdIsNamed(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	p := startProgram(t, b, aLedger(t), "PUBLISH_TIMEOUT=1s", "PAYMENTS_IN_FLIGHT_MAX=20")
	p.AwaitNeed("kafka", false)

	if got := p.call("POST", "/v1/payments", valid); got.code != http.StatusAccepted {
		t.Fatalf("%d %s", got.code, got.text)
	}
	b.Stop()
	p.AwaitNeed("kafka", true)
	// Many at once: each ends in time, and those above the limit end at once.
	ids := make(chan string, 100)

	var calls sync.WaitGroup
	for range cap(ids) {
		calls.Go(func() {
			started := time.Now()
			got := p.call("POST", "/v1/payments", valid)

			if took := time.Since(started); took > 5*time.Second {
				t.Errorf("it took %v, want about 1s", took)
			}

			if got.code != http.StatusServiceUnavailable && got.code != http.StatusTooManyRequests ||
				got.retryAfter == "" {
				t.Errorf("%d %s Retry-After %q, want 503 or 429", got.code, got.text, got.retryAfter)
			}

			if _, err := pix.ParseEndToEndID(got.EndToEndID); err != nil {
				t.Errorf("%s names no payment: %v", got.text, err)
			}

			if got.code == http.StatusServiceUnavailable {
				ids <- got.EndToEndID
			}
		})
	}
	calls.Wait()
	close(ids)

	if len(ids) == 0 || len(ids) == cap(ids) {
		t.Errorf("%d of %d with an unknown fate, want some, and some refused by the limit of 20", len(ids), cap(ids))
	}
	b.Start()
	p.AwaitNeed("kafka", false)
	sent := 0

	for id := range ids {
		body := `{"end_to_end_id": "` + id + `", ` + valid[1:]
		kit.Await(t, "the payment to be accepted", func() (bool, string) {
			got := p.call("POST", "/v1/payments", body)
			return got.code == http.StatusAccepted && got.EndToEndID == id, got.text
		})
		sent++
	}
	published(t, b, 1+sent)
}

func TestStoppingFinishesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	p := startProgram(t, b, aLedger(t))
	p.AwaitNeed("kafka", false)
	b.Stop()
	p.AwaitNeed("kafka", true)
	answer := make(chan reply, 1)
	go func() { answer <- p.call("POST", "/v1/payments", valid) }()
	kit.Await(t, "the payment to be in flight", func() (bool, string) {
		text := p.metrics()
		return strings.Contains(text, "pix_producer_requests_in_flight 1\n"), text
	})
	_ = p.Process.Process.Signal(syscall.SIGTERM)
	b.Start()

	if got := <-answer; got.code != http.StatusAccepted {
		t.Errorf("%d %s", got.code, got.text)
	}

	select {
	case <-p.Exited:
	case <-time.After(kit.Patience):
		t.Fatal("it does not end")
	}

	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
}

// While Kafka is away a payment may wait for PUBLISH_TIMEOUT. The producer does not: it ends within
// SHUTDOWN_TIMEOUT, and says how many payments have an unknown fate.
func TestStoppingDoesNotWaitForAnAbsentKafka(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	p := startProgram(t, b, aLedger(t), "SHUTDOWN_TIMEOUT=2s", "PUBLISH_TIMEOUT=1m", "HTTP_WRITE_TIMEOUT=5m")
	p.AwaitNeed("kafka", false)
	b.Stop()
	p.AwaitNeed("kafka", true)
	go func() {
		if response, err := http.Post("http://"+p.HTTP+"/v1/payments", "application/json",
			strings.NewReader(valid)); err == nil {
			response.Body.Close()

			if response.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("%s without Kafka", response.Status)
			}
		}
	}()
	kit.Await(t, "the payment to be in flight", func() (bool, string) {
		text := p.metrics()
		return strings.Contains(text, "pix_producer_requests_in_flight 1\n"), text
	})
	p.End(syscall.SIGTERM)

	if said := p.Log(); !strings.Contains(said, "1 payments were not acknowledged by Kafka") {
		t.Error("it waited until the payment had failed, or says nothing of it")
	}
}

func (p *program) metrics() string {
	response, err := http.Get("http://" + p.Telemetry + "/metrics")
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}

	return string(text)
}

// BenchmarkAccept measures the program as a whole, 64 payments at a time; cpu-us/payment
// is the producer's own.
func BenchmarkAccept(bench *testing.B) {
	b := startBroker(bench)
	p := startProgram(bench, b, aLedger(bench))
	p.AwaitNeed("kafka", false)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	const atOnce = 64
	var left sync.WaitGroup
	work := make(chan struct{}, atOnce)
	bench.ResetTimer()

	for range atOnce {
		left.Go(func() {
			for range work {
				response, err := client.Post("http://"+p.HTTP+"/v1/payments", "application/json",
					strings.NewReader(valid))
				if err != nil {
					bench.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()

				if response.StatusCode != http.StatusAccepted {
					bench.Errorf("%s", response.Status)
				}
			}
		})
	}

	for range bench.N {
		work <- struct{}{}
	}
	close(work)
	left.Wait()
	bench.StopTimer()
	bench.ReportMetric(float64(bench.N)/bench.Elapsed().Seconds(), "payments/s")
	p.End(syscall.SIGTERM)
	state := p.Process.ProcessState
	bench.ReportMetric(float64((state.UserTime()+state.SystemTime()).Microseconds())/float64(bench.N), "cpu-us/payment")
}
