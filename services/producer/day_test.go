package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/deadletter"
	"github.com/liquida/liquida/services/producer/query"
)

// dayPath is the path of a bank's statement of the part of a day before an instant.
func dayPath(psp pix.ISPB, day pix.Day, until time.Time, format string) string {
	return fmt.Sprintf("/v1/participants/%s/statements/%v?format=%s&until=%s", psp, day, format,
		url.QueryEscape(until.Format(time.RFC3339Nano)))
}

// statements reads a bank's statements from one instant until another, of each day that has begun
// then. It waits for the ledger's clock.
func (p *program) statements(psp pix.ISPB, from, until time.Time, format string) (texts []string) {
	p.t.Helper()

	for day := pix.DayOf(from); day.Begins().Before(until); day = day.Next() {
		to := until
		if next := day.Next().Begins(); next.Before(to) {
			to = next
		}
		var text string
		kit.Await(p.t, "the statement", func() (bool, string) {
			response := p.send(p.t.Context(), http.MethodGet, dayPath(psp, day, to, format), "")

			read, err := io.ReadAll(response.Body)
			if text = string(read); err != nil || response.StatusCode != http.StatusOK &&
				response.StatusCode != http.StatusConflict {
				p.t.Fatalf("%s %v: %s %s %v", psp, day, response.Status, text, err)
			}

			return response.StatusCode == http.StatusOK, text
		})
		texts = append(texts, text)
	}

	return texts
}

// lastInstant returns the first instant after all that moved a bank's reserve, and one before.
func lastInstant(t *testing.T, client tigerbeetle.Client, psp pix.ISPB) (from, until time.Time) {
	t.Helper()
	ask := func(reversed bool) time.Time {
		found, err := client.GetAccountTransfers(tb.AccountFilter{AccountID: ledger.ReserveAccount(psp), Limit: 1,
			Flags: tb.AccountFilterFlags{Debits: true, Credits: true, Reversed: reversed}.ToUint32()})
		if err != nil || len(found) == 0 {
			t.Fatalf("%v %v", found, err)
		}

		return time.Unix(0, int64(found[0].Timestamp)).UTC()
	}

	return ask(false), ask(true).Add(1)
}

func TestAStatementOfADayIsTheLedgers(t *testing.T) {
	t.Parallel()
	l, client := sharedLedger(t)
	content := ownBanks()
	openBooks(t, client, content)
	p := startProgram(t, startBroker(t), l, "LEDGER_LOOKUP_IDS_MAX=134", "PAGE_MAX=100") // so that a day has many pages
	p.AwaitNeed("ledger", false)
	payer, payee := content.Payer.ISPB, content.Payee.ISPB
	pay := func() pix.EndToEndID {
		id := pix.NewEndToEndID(payer, time.Now(), random)
		write(t, client, ledger.AppendReserve(nil, id, content, 600))
		return id
	}
	want := []string{"funding credit 1000000 central-bank"}

	var settled pix.EndToEndID
	for range 150 { // each has a hold and a post on the reserve
		settled = pay()
		write(t, client, ledger.AppendPost(nil, settled, false))
		want = append(want, fmt.Sprintf("payment %v debit 100 %s", settled, payee))
	}
	// None of these moves a reserve.
	write(t, client, ledger.AppendVoid(nil, pay(), false, pix.ReasonPayeeBlocked))
	pay()
	refused := pix.NewEndToEndID(payer, time.Now(), random)
	write(t, client, ledger.AppendReceipt(nil, refused, content, pix.ReasonPayerShort, true))
	// A return does.
	back := pix.NewReturnID(payee, time.Now(), random)
	returned := pix.ReturnContent{Original: settled, AmountCentavos: 40, Reason: pix.ReturnReasons[0]}
	write(t, client, ledger.AppendReturnReserve(nil, back, returned, 0, content, 600))
	write(t, client, ledger.AppendReturnPost(nil, back, returned, 0, false))
	want = append(want, fmt.Sprintf("return %v credit 40 %s", back, payee))

	from, until := lastInstant(t, client, payer)

	first := map[string]string{}
	for _, format := range []string{"json", "csv", "camt053"} {
		first[format] = strings.Join(p.statements(payer, from, until, format), "")
	}
	var got []string
	closing := int64(0)

	for _, text := range p.statements(payer, from, until, "json") {
		var day query.DayStatement
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()

		if err := decoder.Decode(&day); err != nil || day.OpeningCentavos != closing {
			t.Fatalf("the day opens with %d, want %d (%v): %s", day.OpeningCentavos, closing, err, text)
		}

		for _, line := range day.Lines {
			text := fmt.Sprintf("%s %s %s %d %s", line.Kind, line.ID, line.Direction, line.AmountCentavos,
				line.Counterparty)
			if line.Kind == "funding" { // its id is the test's
				text = fmt.Sprintf("%s %s %d %s", line.Kind, line.Direction, line.AmountCentavos, line.Counterparty)
			}
			got = append(got, text)

			if line.Direction == "credit" {
				closing += line.AmountCentavos
			} else {
				closing -= line.AmountCentavos
			}

			if line.BalanceCentavos != closing {
				t.Errorf("%+v: the balance is %d", line, closing)
			}
		}

		if day.ClosingCentavos != closing {
			t.Errorf("the day closes with %d, want %d", day.ClosingCentavos, closing)
		}
	}

	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the lines are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	if reserve := get[query.Participant](t, p,
		"/v1/participants/"+string(payer)).Reserve.PostedCentavos; reserve != closing ||
		closing != 1_000_000-150*100+40 {
		t.Errorf("the reserve is %d, the statement closes with %d", reserve, closing)
	}
	// The sums of the last day; most days of this test are one.
	sums := strings.Split(strings.TrimSpace(first["csv"]), "\n")
	if last := sums[len(sums)-1]; !strings.HasPrefix(last, "closing,") ||
		!strings.Contains(last, fmt.Sprintf(",%d,", closing)) {
		t.Errorf("the last row is %s", last)
	}

	rows, err := csv.NewReader(strings.NewReader(first["csv"])).ReadAll()
	if err != nil || strings.Join(rows[0], ",") != query.DayColumns {
		t.Errorf("%v, the header is %v", err, rows[0])
	}
	summed := map[string]int64{}

	for _, row := range rows {
		if amount, err := strconv.ParseInt(row[6], 10, 64); err == nil {
			summed[row[0]+" "+row[4]+" "+row[5]] += amount
		}
	}

	for _, of := range []string{"central-bank credit", string(payee) + " credit", string(payee) + " debit"} {
		if summed["sum "+of] == 0 || summed["sum "+of] != summed["line "+of] {
			t.Errorf("%s: the lines sum up to %d, the sums say %d", of, summed["line "+of], summed["sum "+of])
		}
	}
	var camt struct {
		Statement []struct {
			Entries []struct {
				Amount string `xml:"Amt"`
				ID     string `xml:"NtryRef"`
			} `xml:"Ntry"`
			Balances []struct {
				Amount string `xml:"Amt"`
			} `xml:"Bal"`
		} `xml:"BkToCstmrStmt>Stmt"`
	}

	texts := p.statements(payer, from, until, "camt053")
	if err := xml.Unmarshal([]byte(texts[len(texts)-1]), &camt); err != nil || len(camt.Statement) != 1 ||
		len(camt.Statement[0].Balances) != 2 ||
		camt.Statement[0].Balances[1].Amount != "9850.40" || len(texts) == 1 &&
		len(camt.Statement[0].Entries) != len(want) {
		t.Errorf("%+v %v", camt, err)
	}

	// The other bank says the same from its side.
	other := p.statements(payee, from, until, "csv")
	// with the day's sum
	for row, count := range map[string]int{"\nline,": 151, "," + string(payer) + ",credit,100,": 150,
		"," + string(payer) + ",debit,40,": 1 + len(other)} {
		if got := strings.Count(strings.Join(other, ""), row); got != count {
			t.Errorf("the other bank has %d of %q, want %d", got, row, count)
		}
	}
	// Whatever comes later changes nothing.
	write(t, client, ledger.AppendPost(nil, pay(), false))

	for format, before := range first {
		if now := strings.Join(p.statements(payer, from, until, format), ""); now != before {
			t.Errorf("%s was\n%s\nand is\n%s", format, before, now)
		}
	}
}

func TestAWrongDayIsNamed(t *testing.T) {
	t.Parallel()
	l, client := sharedLedger(t)
	openBooks(t, client, content)
	unkept := ownBanks().Payer.ISPB
	old := ledger.NewAccount(ledger.ReserveAccount(unkept))
	// as versions before statements of days made it
	old.Flags = tb.AccountFlags{DebitsMustNotExceedCredits: true}.ToUint16()
	if results, err := client.CreateAccounts([]tb.Account{old}); err != nil || len(results) > 0 {
		t.Fatalf("%v %v", results, err)
	}
	p := startProgram(t, startBroker(t), l)
	p.AwaitNeed("ledger", false)
	p.AwaitNeed("clock", false)
	today := pix.DayOf(time.Now().Add(time.Hour)) // today, or tomorrow: both are not over

	tomorrow := today.Next().Begins().Add(1).Format(time.RFC3339Nano)
	for _, c := range []struct {
		path, field, value, kind string
		code                     int
	}{
		{"10000001/statements/2026-13-01", "day", `"2026-13-01"`, "invalid-value", 422},
		{"10000001/statements/1999-12-31", "day", `"1999-12-31"`, "invalid-value", 422},
		{"10000001/statements/" + today.String() + "?format=pdf", "format", `"pdf"`, "invalid-value", 422},
		{"10000001/statements/" + today.String() + "?until=noon", "until", `"noon"`, "invalid-value", 422},
		{"10000001/statements/" + today.String() + "?until=" + tomorrow, "until", `"` + tomorrow + `"`,
			"invalid-value", 422},
		{"1000000x/statements/" + today.String(), "ispb", `"1000000x"`, "invalid-value", 422},
		{"99999999/statements/" + today.String(), "ispb", `"99999999"`, "unknown-participant", 404},
		{"10000001/statements/2020-01-01", "day", `"2020-01-01"`, "unknown-day", 404},
		{"10000001/statements/" + today.String(), "day", `"` + today.String() + `"`, "unfinished-day", 409},
		{"10000001/statements/9998-12-31", "day", `"9998-12-31"`, "unfinished-day", 409},
		{string(unkept) + "/statements/" + today.String(), "ispb", `"` + string(unkept) + `"`, "no-history", 409},
	} {
		got := p.call("GET", "/v1/participants/"+c.path, "")
		if got.code != c.code || got.Field != c.field || string(got.Value) != c.value ||
			got.Type != "urn:liquida:problem:"+c.kind || got.Detail == "" {
			t.Errorf("%s: %d %s", c.path, got.code, got.text)
		}
	}

	if got := p.call("GET", "/v1/participants/10000001/statements/9998-12-31", ""); got.retryAfter != "86401" {
		t.Errorf("a far day is to be asked for after %q seconds", got.retryAfter)
	}
	// Before HTTP/1.1 the end of a response is the end of its connection, and a break looks the same.
	http10 := p.connect()
	fmt.Fprintf(http10, "GET /v1/participants/10000001/statements/%v HTTP/1.0\r\n\r\n", today)

	if text, err := io.ReadAll(http10); err != nil || !strings.HasPrefix(string(text), "HTTP/1.0 505 ") ||
		!strings.Contains(string(text), "urn:liquida:problem:http-version") {
		t.Errorf("over HTTP/1.0: %v %s", err, text)
	}

	ends := today.Next().Begins().Format(time.RFC3339)
	if got := p.call("GET", "/v1/participants/10000001/statements/"+today.String(), ""); !strings.Contains(got.Detail,
		ends) || got.retryAfter == "" {
		t.Errorf("it does not say when the day ends, %s: %s", ends, got.text)
	}
}

// What was over a moment ago can be read now: the producer asks the ledger for its clock, and waits for no
// look of its own.
func TestADaySoFarIsReadAtOnce(t *testing.T) {
	t.Parallel()
	l, client := sharedLedger(t)
	psp, _ := bankWith(t, client, 1)
	p := startProgram(t, startBroker(t), l)
	p.AwaitNeed("clock", false)
	p.AwaitNeed("register", false)

	until := time.Now().Add(-50 * time.Millisecond)
	if got := p.call("GET", dayPath(psp, pix.DayOf(until), until, "json"), ""); got.code != http.StatusOK {
		t.Errorf("%d %s", got.code, got.text)
	}
}

// A bank that reads many statements at once keeps nobody else out.
func TestABankSharesTheStatements(t *testing.T) {
	t.Parallel()
	// Without a ledger each one takes its place for two seconds. No key is taken then, but certificates.
	p, bank := startCertified(t, "DAY_STATEMENTS_MAX=8", "STATUS_TIMEOUT=2s")
	p.AwaitNeed("kafka", false)
	one, other := bank("10000001"), bank("10000002")
	ask := func(ispb string) int {
		client := one
		if ispb == "10000002" {
			client = other
		}
		response := p.by(t.Context(), client, "https://", "", "GET", "/v1/participants/"+ispb+"/statements/2026-01-02", http.NoBody) //nolint:bodyclose // it closes it

		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode == http.StatusTooManyRequests &&
			!strings.Contains(string(text), "DAY_STATEMENTS_MAX") {
			t.Errorf("%s %v", text, err)
		}

		return response.StatusCode
	}
	codes := make(chan int, 10)

	var asks sync.WaitGroup
	for range cap(codes) {
		asks.Go(func() { codes <- ask("10000001") })
	}
	// the others are refused at once, while two wait
	kit.Await(t, "refusals", func() (bool, string) { return len(codes) == 8, fmt.Sprint(len(codes)) })

	if code := ask("10000002"); code != http.StatusServiceUnavailable {
		t.Errorf("another bank gets %d", code)
	}
	asks.Wait()
	close(codes)

	count := map[int]int{}
	for code := range codes {
		count[code]++
	}

	if count[http.StatusTooManyRequests] != 8 || count[http.StatusServiceUnavailable] != 2 {
		t.Errorf("%v", count)
	}
}

// changedLedger is the real ledger, but for the transfers of accounts.
type changedLedger struct {
	tigerbeetle.Client
	change func(tb.AccountFilter, []tb.Transfer) []tb.Transfer
}

func (c changedLedger) GetAccountTransfers(filter tb.AccountFilter) ([]tb.Transfer, error) {
	found, err := c.Client.GetAccountTransfers(filter)
	return c.change(filter, found), err
}

// queryLedger returns what answers from a ledger in this process, until stopping ends. No payments wait, unless
// payments says so.
func queryLedger(stopping context.Context, t *testing.T, client tigerbeetle.Client, change func(*query.Config),
	payments ...func() bool) (*query.Ledger, *telemetry.Telemetry, *register.Register) {
	t.Helper()

	var config query.Config
	if err := settings.Parse(&config); err != nil {
		t.Fatal(err)
	}
	change(&config)
	health := &telemetry.Telemetry{Log: zap.NewNop(), Registry: prometheus.NewRegistry(), Health: telemetry.NewHealth()}
	health.Health.Need(query.Need)
	health.Health.Need(query.ClockNeed)
	follows := register.New(client, config.IDsMax, health)
	l := query.New(stopping, config, client, follows, deadletter.New(follows), time.Now, append(payments, func() bool {
		return false
	})[0], web.NewPools(web.PoolsConfig{ShareMax: 1}, health.Registry), health)
	t.Cleanup(l.Close)
	l.Compared(nil)

	return l, health, follows
}

// serveDays serves statements of days from a ledger in this process, with small pages, until
// stopping ends. It returns when the ledger's clock is known.
func serveDays(stopping context.Context, t *testing.T, client tigerbeetle.Client,
	longest time.Duration) (url string, registry *prometheus.Registry) {
	t.Helper()
	l, health, _ := queryLedger(stopping, t, client, func(config *query.Config) {
		config.IDsMax, config.PageMax, config.DayTimeMax = 134, 100, longest
	})
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { l.Watch(ctx, health, make(chan struct{})) })
	t.Cleanup(func() { cancel(); watching.Wait() })
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/participants/{ispb}/statements/{day}", func(w http.ResponseWriter, r *http.Request) {
		if problem := l.DayStatement(w, access.With(r, access.Caller{Holder: keys.CentralBank})); problem != nil {
			problem.Write(w)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)

	return server.URL, health.Registry
}

// bankWith returns a bank that has paid this often, and the instant after the last payment.
func bankWith(t *testing.T, client tigerbeetle.Client, payments int) (psp pix.ISPB, until time.Time) {
	t.Helper()
	content := ownBanks()
	openBooks(t, client, content)

	for range payments {
		id := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
		write(t, client, ledger.AppendReserve(nil, id, content, 600))
		write(t, client, ledger.AppendPost(nil, id, false))
	}
	_, until = lastInstant(t, client, content.Payer.ISPB)

	return content.Payer.ISPB, until
}

// readDay reads a statement to its end, once the ledger's clock is past it.
func readDay(t *testing.T, url string, psp pix.ISPB, until time.Time) (code int, text string, err error) {
	t.Helper()
	kit.Await(t, "the ledger's clock", func() (bool, string) {
		var response *http.Response

		response, err = http.Get(url + dayPath(psp, pix.DayOf(until.Add(-1)), until, "csv"))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var read []byte
		read, err = io.ReadAll(response.Body)
		code, text = response.StatusCode, string(read)

		return code != http.StatusConflict && !strings.Contains(text, "time is not known yet") &&
			(code != http.StatusServiceUnavailable || !isAway(text)), text
	})

	return code, text, err
}

// What the ledger's own balances contradict never looks like a statement: a short one is a problem,
// a long one breaks off. Either is counted.
func TestAWrongStatementIsNotWhole(t *testing.T) {
	t.Parallel()
	_, client := sharedLedger(t)
	short, shortUntil := bankWith(t, client, 2)
	long, longUntil := bankWith(t, client, 100) // a hold and a post each: several pages
	loses := changedLedger{client, func(filter tb.AccountFilter, found []tb.Transfer) []tb.Transfer {
		if last := len(found) - 1; last > 0 && last+1 < int(filter.Limit) { // the last page
			return found[:last]
		}

		return found
	}}
	right, _ := serveDays(t.Context(), t, client, time.Hour)

	wrong, registry := serveDays(t.Context(), t, loses, time.Hour)
	for psp, until := range map[pix.ISPB]time.Time{short: shortUntil, long: longUntil} {
		if code, text, err := readDay(t, right, psp, until); code != http.StatusOK || err != nil ||
			!strings.Contains(text, "\nclosing,") {
			t.Errorf("from the ledger as it is: %d %v %s", code, err, text)
		}
	}

	if code, text, err := readDay(t, wrong, short, shortUntil); code != http.StatusInternalServerError || err != nil ||
		!strings.Contains(text, "urn:liquida:problem:broken-law") {
		t.Errorf("a short one without its last line: %d %v %s", code, err, text)
	}

	if code, text, err := readDay(t, wrong, long, longUntil); code != http.StatusOK ||
		!errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(text, "closing,") {
		t.Errorf("a long one without its last line: %d %v %s", code, err, text)
	}

	if count := counted(t, registry, "pix_producer_wrong_statements_total"); count != 2 {
		t.Errorf("%v wrong statements are counted", count)
	}
}

func counted(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()

	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetCounter().GetValue() + family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)

	return 0
}

// Whatever the ledger does, a statement ends with the service and with its time: with a problem
// before its first part, with a broken connection after it. The first page comes before the second.
func TestAStatementEndsWithTheService(t *testing.T) {
	t.Parallel()
	_, client := sharedLedger(t)

	psp, until := bankWith(t, client, 100)
	for _, c := range []struct {
		name    string
		silent  func(tb.AccountFilter) bool // the ledger does not answer these
		longest time.Duration
		begins  bool
	}{
		{"stopped at the first page", func(tb.AccountFilter) bool { return true }, time.Hour, false},
		{"stopped at the second page", func(f tb.AccountFilter) bool {
			return f.TimestampMin > uint64(pix.DayOf(until.Add(-1)).Begins().UnixNano())
		}, time.Hour, true},
		{"too long", func(tb.AccountFilter) bool { return true }, time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			stopping, stop := context.WithCancel(t.Context())
			defer stop()
			asked, release := make(chan struct{}, 1), make(chan struct{})
			url, _ := serveDays(stopping, t,
				changedLedger{client, func(filter tb.AccountFilter, found []tb.Transfer) []tb.Transfer {
					if filter.TimestampMin > 0 && c.silent(filter) {
						asked <- struct{}{}
						<-release
					}

					return found
				}}, c.longest)
			defer close(release)
			began := make(chan struct{}, 1)
			go func() {
				<-asked

				if c.begins {
					<-began
				}

				if c.longest == time.Hour {
					stop()
				}
			}()
			kit.Await(t, "the ledger's clock", func() (bool, string) {
				response, err := http.Get(url + dayPath(psp, pix.DayOf(until.Add(-1)), until, "csv"))
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()

				if c.begins && response.StatusCode == http.StatusOK {
					row := make([]byte, 100)
					if _, err := io.ReadFull(response.Body, row); err != nil ||
						!strings.HasPrefix(string(row), "record,") {
						t.Fatalf("%v %s", err, row)
					}
					began <- struct{}{}
				}

				text, err := io.ReadAll(response.Body)
				switch {
				case response.StatusCode == http.StatusConflict ||
					strings.Contains(string(text), "time is not known yet"):
					return false, string(text)
				case c.begins && !errors.Is(err, io.ErrUnexpectedEOF):
					t.Errorf("%s %v %s", response.Status, err, text)
				case !c.begins && (response.StatusCode != http.StatusServiceUnavailable || err != nil ||
					!strings.Contains(string(text), "cut short")):
					t.Errorf("%s %v %s", response.Status, err, text)
				}

				return true, ""
			})
		})
	}
}
