package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/producer/question"
)

// asking is an engine, as a front door sees it.
type asking struct {
	*keyed
	kafka *kgo.Client
	key   string // of the bank, as it is sent
}

func startAsking(t *testing.T, env ...string) *asking {
	t.Helper()
	k := startKeyed(t, aLedger(t), 1, append(lasting, env...)...)
	own := keys.New(string(k.bank))
	k.name(k.centralBank, own)

	kafka, err := kgo.NewClient(kgo.SeedBrokers(k.broker.Address), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumeTopics(stream.AuthorizationResponses))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)

	return &asking{k, kafka, "Bearer " + own}
}

// another is another bank, at the same front door.
func (a *asking) another() *asking {
	a.t.Helper()
	b := &keyed{t: a.t, bank: ownBanks().Payer.ISPB, centralBank: a.centralBank, doors: a.doors, broker: a.broker}
	own := keys.New(string(b.bank))
	b.act(b.centralBank, `{"act": "register"}`, 200)
	b.name(b.centralBank, own)

	return &asking{b, a.kafka, "Bearer " + own}
}

func (a *asking) write(topic string, partition int32, key string, message interface{ MarshalVT() ([]byte, error) }) {
	a.t.Helper()

	value, err := message.MarshalVT()
	if err == nil {
		err = a.kafka.ProduceSync(a.t.Context(),
			&kgo.Record{Topic: topic, Partition: partition, Key: []byte(key), Value: value}).FirstErr()
	}

	if err != nil {
		a.t.Fatal(err)
	}
}

// ask asks the bank, or another one.
func (a *asking) ask(bank pix.ISPB) (id string) {
	a.t.Helper()
	id, q := a.question(bank)
	a.write(stream.AuthorizationRequests, 1, id, q)

	return id
}

func (a *asking) question(bank pix.ISPB) (id string, q *pixv1.AuthorizationRequest) {
	id = pix.NewEndToEndID("10000001", time.Now(), random).String()

	return id, &pixv1.AuthorizationRequest{EndToEndId: id, AmountCentavos: 12345, ReplyPartition: 2,
		RemittanceInformation: "lunch",
		Payer:                 &pixv1.Account{Ispb: "10000001", Branch: "0001", Number: "1"},
		Payee:                 &pixv1.Account{Ispb: string(bank), Branch: "0001", Number: "2"},
		DeadlineUnixMs:        time.Now().Add(40 * time.Second).UnixMilli()}
}

func (a *asking) report(id string) {
	a.t.Helper()
	a.write(stream.Settlements, 1, id,
		&pixv1.SettlementReport{EndToEndId: id, Status: pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC,
			AmountCentavos: 12345,
			Payer:          &pixv1.Account{Ispb: "10000001", Branch: "0001", Number: "1"},
			Payee:          &pixv1.Account{Ispb: string(a.bank), Branch: "0001", Number: "2"}})
}

// follow opens a stream of the bank's questions.
func (a *asking) follow(query string, headers ...string) (<-chan event, func()) {
	ctx, end := context.WithCancel(a.t.Context())
	return events(a.doors[0].send(ctx, "GET", a.path("questions")+query, "",
		append(headers, "Authorization", a.key)...)), end
}

func (a *asking) path(what string) string { return "/v1/participants/" + string(a.bank) + "/" + what }

// told waits for an event of a kind, and returns its id.
func (a *asking) told(from <-chan event, kind string) question.Question {
	a.t.Helper()
	e := next(a.t, from)

	var q question.Question
	if err := json.Unmarshal([]byte(e.data), &q); err != nil || e.kind != kind {
		a.t.Fatalf("%+v, want an event %s: %v", e, kind, err)
	}

	return q
}

// valueOf is a bank's word in base64, and sealOf one that is a seal by its length.
func (a *asking) valueOf(id, code string) string {
	m := &pixv1.AuthorizationResponse{EndToEndId: id, Ispb: string(a.bank),
		Status: pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP, ReasonCode: code}
	if code != "" {
		m.Status = pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT
	}

	value, err := m.MarshalVT()
	if err != nil {
		a.t.Fatal(err)
	}

	return base64.StdEncoding.EncodeToString(value)
}

var sealOf = base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))

func (a *asking) answer(id, code string, want int) {
	a.t.Helper()
	a.send(a.valueOf(id, code), sealOf, want, "")
}

func (a *asking) send(value, seal string, want int, field string) {
	a.t.Helper()
	kit.Await(a.t, "the front door to have read the questions", func() (bool, string) {
		code, _, problem, text := a.doors[0].as(a.key, "POST", a.path("answers"),
			fmt.Sprintf(`{"answers": [{"value": %q, "seal": %q}]}`, value, seal))
		if code == 503 {
			return false, text
		}

		if code != want || field != "" && problem.Field != field {
			a.t.Fatalf("%d %s, want %d %s", code, text, want, field)
		}

		return true, ""
	})
}

// stored returns the next answer in Kafka.
func (a *asking) stored() *kgo.Record {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), kit.Patience)
	defer cancel()

	for ctx.Err() == nil {
		if records := a.kafka.PollRecords(ctx, 1).Records(); len(records) > 0 {
			return records[0]
		}
	}
	a.t.Fatal("no answer comes")

	return nil
}

// A bank is asked and answers over HTTP alone, and sees only what concerns it.
func TestABankAnswersOverHTTP(t *testing.T) {
	t.Parallel()
	a := startAsking(t)
	first := a.ask(a.bank)
	other := a.ask("10000002")
	live, end := a.follow("")
	defer end()

	q := a.told(live, "question")
	if q.EndToEndID != first || q.RemittanceInformation != "lunch" || q.LeftMilliseconds < 1 ||
		q.LeftMilliseconds > 42_000 || q.Payee.ISPB != string(a.bank) || q.AmountCentavos != 12345 {
		t.Fatalf("%+v", q)
	}

	a.answer(first, "", 202)

	record := a.stored()
	if record.Partition != 2 || string(record.Key) != first ||
		base64.StdEncoding.EncodeToString(record.Value) != a.valueOf(first, "") ||
		len(record.Headers) != 1 || record.Headers[0].Key != keys.SealHeader ||
		base64.StdEncoding.EncodeToString(record.Headers[0].Value) != sealOf {
		t.Fatalf("stored is %+v", record)
	}
	a.answer(first, "", 202)     // which changes nothing
	a.answer(first, "AC06", 409) // the first one counts
	a.answer(other, "", 404)     // another bank's
	a.report(first)

	if over := a.told(live, "over"); over.EndToEndID != first {
		t.Fatalf("%+v", over)
	}
	a.answer(first, "", 410)

	// An engine calls a seal forged: the bank is told, and asked again.
	forged := a.ask(a.bank)
	a.told(live, "question")
	a.answer(forged, "", 202)

	record = a.stored()
	if string(record.Key) != forged {
		t.Fatalf("%s was stored once more", record.Key)
	}
	a.write(stream.DeadLetters, 2, forged,
		&pixv1.DeadLetter{Topic: stream.AuthorizationResponses, Partition: record.Partition, Offset: record.Offset,
			Payload: record.Value, ReasonCode: "FF01"})
	var kinds []string

	for range 2 {
		e := next(t, live)

		kinds = append(kinds, e.kind)
		if !strings.Contains(e.data, forged) {
			t.Fatalf("%+v", e)
		}
	}

	if got := strings.Join(kinds, " "); got != "question refused" {
		t.Fatal(got)
	}
	a.answer(forged, "AC06", 202)
	a.stored()

	// Who may write questions may write that an answer belongs nowhere. Nobody is told to try that again and again.
	nowhere, wrong := a.question(a.bank)
	wrong.ReplyPartition = 2147483647
	a.write(stream.AuthorizationRequests, 1, nowhere, wrong)
	a.told(live, "question")
	a.answer(nowhere, "", 404)

	// Nothing is called stored that Kafka does not have.
	unsure := a.ask(a.bank)
	a.told(live, "question")
	a.broker.Stop()

	if code, _, problem, text := a.doors[0].as(a.key, "POST", a.path("answers"),
		fmt.Sprintf(`{"answers": [{"value": %q, "seal": %q}]}`, a.valueOf(unsure, ""), sealOf)); code != 503 ||
		problem.Type != "urn:liquida:problem:unknown-fate" {
		t.Errorf("without a broker: %d %s", code, text)
	}
	a.broker.Start()
	a.answer(unsure, "AC06", 409)
	a.answer(unsure, "", 202)

	// What is wrong is named.
	for _, c := range []struct {
		value, seal string
		want        int
		field       string
	}{
		{"!", sealOf, 422, "value"},
		{base64.StdEncoding.EncodeToString([]byte{0xff}), sealOf, 422, "value"},
		{base64.StdEncoding.EncodeToString(make([]byte, 300)), sealOf, 422, "value"},
		{a.valueOf("E1", ""), sealOf, 422, "value.end_to_end_id"},
		{strings.Replace(a.valueOf(forged, ""), "", "", 1), "AAAA", 422, "seal"},
		{a.valueOf(forged, "LQ01"), sealOf, 422, "value.reason_code"},
		{a.valueOf(forged, "x"), sealOf, 422, "value.reason_code"},
	} {
		a.send(c.value, c.seal, c.want, c.field)
	}
	as := &asking{keyed: &keyed{t: t, bank: "10000002"}}
	a.send(as.valueOf(forged, ""), sealOf, 422, "value.ispb")

	for _, key := range []string{a.key, a.centralBank} { // nobody is asked for, or answers for, another bank
		code, _, _, _ := a.doors[0].as(key, "GET", "/v1/participants/10000002/questions", "")

		then, _, _, _ := a.doors[0].as(key, "POST", "/v1/participants/10000002/answers",
			`{"answers": [{"value": "", "seal": ""}]}`)
		if code != 403 || then != 403 {
			t.Errorf("%d and %d, want 403", code, then)
		}
	}
}

// Programs of a bank that name a share divide the questions. What one had goes to the other when it is gone. A poll is
// given what no other has, and a stream that comes back is not told again what it knows.
func TestProgramsShareTheQuestions(t *testing.T) {
	t.Parallel()
	a := startAsking(t, "QUESTION_AGAIN_INTERVAL=2s")
	one, endOne := a.follow("?share=s")
	defer endOne()
	two, endTwo := a.follow("?share=s")
	defer endTwo()
	all, endAll := a.follow("")
	defer endAll()

	asked := map[string]bool{}
	for range 10 {
		asked[a.ask(a.bank)] = true
	}
	last := ""

	for range 10 {
		e := next(t, all)
		last = e.id
	}
	mine := map[string]int{}

	for range 10 {
		var e event
		select {
		case e = <-one:
		case e = <-two:
		case <-time.After(kit.Patience):
			t.Fatal("no event comes")
		}

		var q question.Question
		if err := json.Unmarshal([]byte(e.data), &q); err != nil || e.kind != "question" {
			t.Fatalf("%+v", e)
		}
		mine[q.EndToEndID]++
	}

	if len(mine) != 10 {
		t.Fatalf("of 10 questions %d were told", len(mine))
	}
	endTwo()

	again := map[string]bool{}
	for len(again) < 10 { // what nobody has answered comes to the one that is left
		again[a.told(one, "question").EndToEndID] = true
	}
	endOne()
	endAll()

	for id := range asked {
		a.answer(id, "", 202)
	}
	young := a.ask(a.bank)
	// An id of the future would hide what comes.
	future := a.doors[0].send(t.Context(), "GET", a.path("questions"), "", "Last-Event-ID", "99999999999999",
		"Authorization", a.key)
	if future.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("an id of the future: %s", future.Status)
	}
	back, endBack := a.follow("", "Last-Event-ID", last)
	defer endBack()

	if q := a.told(back, "question"); q.EndToEndID != young {
		t.Errorf("%s, want %s", q.EndToEndID, young)
	}
	var page question.Page

	response := a.doors[0].send(t.Context(), "GET", a.path("questions"), "", "Authorization", a.key, "Accept",
		"application/json", "Prefer", "wait=20")
	if err := json.NewDecoder(response.Body).Decode(&page); err != nil || len(page.Questions) != 1 ||
		page.Questions[0].EndToEndID != young {
		t.Errorf("%+v %v", page, err)
	}
}

// Of a bank that does not ask a front door keeps nothing, nor of who is no participant. When it comes, it is told what
// is open: also what was asked before, and not what is over.
func TestWhoDoesNotAskTakesNoRoom(t *testing.T) {
	t.Parallel()
	a := startAsking(t, "QUESTIONS_OPEN_MAX=100")
	late := a.another()

	open, over := map[string]bool{late.ask(late.bank): true}, ""
	for range 200 { // more than it may have open
		over = late.ask(late.bank)
		late.report(over)
	}
	open[late.ask(late.bank)] = true
	own := a.ask(a.bank)
	live, end := a.follow("")
	defer end()

	if q := a.told(live, "question"); q.EndToEndID != own {
		t.Fatalf("%+v, want %s", q, own)
	}
	open[late.ask(late.bank)] = true // now the front door reads
	a.ask("99999998")
	a.ask(a.bank)
	a.told(live, "question")

	const kept = "\npix_producer_questions_open 2\n"
	if text := a.doors[0].metrics(); !strings.Contains(text, kept) {
		t.Errorf("want %s of %s", kept, text)
	}

	lives, endLate := late.follow("")
	defer endLate()

	for range 3 {
		if q := late.told(lives, "question"); !open[q.EndToEndID] {
			t.Errorf("%+v is told, want %v", q, open)
		} else {
			delete(open, q.EndToEndID)
		}
	}
	late.answer(over, "", 410)

	last := late.ask(late.bank)
	if q := late.told(lives, "question"); q.EndToEndID != last {
		t.Errorf("%+v, want %s", q, last)
	}

	last = a.ask(a.bank) // what the other one was told before does not come again
	if q := a.told(live, "question"); q.EndToEndID != last {
		t.Errorf("%+v is told again, want %s", q, last)
	}
}

// A bank takes all streams that it may get and reads none, guesses ids, and sends what is too large, another's or was
// used before. It gains nothing, and the questions and answers of another bank flow.
func TestABankThatAttacksHarmsNobody(t *testing.T) {
	t.Parallel()
	a := startAsking(t, "STREAM_KEEP_ALIVE=15s", "STREAM_WRITE_TIMEOUT=500ms")
	victim, door := a.another(), a.doors[0]
	live, end := victim.follow("")
	defer func() { end() }()
	// heard waits for an event. On a busy machine nobody may read the register for a while, which ends all streams:
	// then the victim follows again, and is told what is open.
	heard := func(kind, id string) {
		t.Helper()
		kit.Await(t, kind+" "+id, func() (bool, string) {
			for {
				select {
				case e, more := <-live:
					if !more {
						end()
						live, end = victim.follow("")
						return kind == "over", "the stream has ended"
					}

					if e.kind == kind && strings.Contains(e.data, id) {
						return true, ""
					}
				case <-time.After(100 * time.Millisecond):
					return false, "no such event"
				}
			}
		})
	}
	flows := func(after string) {
		t.Helper()
		asked := victim.ask(victim.bank)
		heard("question", asked)
		victim.answer(asked, "", 202)

		if record := a.stored(); string(record.Key) != asked {
			t.Fatalf("after %s: stored is %s, want %s", after, record.Key, asked)
		}
		victim.report(asked)
		heard("over", asked)
	}
	flows("nothing")

	// 10,000 streams: some for each share, and one that is told everything. A register that nobody reads for a while
	// ends all, so that one is tried again and again: only what it is told does not fit into what lies between.
	narrow := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err == nil {
				err = connection.(*net.TCPConn).SetReadBuffer(2048)
			}

			return connection, err
		}}}
	open := func(query string) (opened bool) {
		kit.Await(t, "a register that is read, on a busy machine", func() (bool, string) {
			response := door.by(t.Context(), narrow, "http://", a.key, "GET", a.path("questions")+query, http.NoBody) //nolint:bodyclose // by closes it
			if opened = response.StatusCode == http.StatusOK; !opened {
				_, _ = io.Copy(io.Discard, response.Body)
			}

			if code := response.StatusCode; !opened && code != http.StatusTooManyRequests &&
				code != http.StatusServiceUnavailable {
				t.Fatal(response.Status)
			}

			return response.StatusCode != http.StatusServiceUnavailable, response.Status
		})

		return opened
	}
	opened := 0

	for n := range 10_000 {
		query := ""
		if n%50 > 0 {
			query = fmt.Sprint("?share=", n%7)
		}

		if open(query) {
			opened++
		}
	}
	streams := func() (open int) {
		_, text, _ := strings.Cut(door.metrics(), "\npix_producer_streams ")
		_, err := fmt.Sscan(text, &open)
		kit.Must(t, err)

		return open
	}

	flows("10,000 streams") // first, so that the victim's stream counts, also one that it has opened again

	most := streams()
	if opened < 8 || most > 251 { // CALLER_SHARE_MAX of STREAMS_MAX, and the victim's
		t.Errorf("it has opened %d streams, and there are %d", opened, most)
	}

	// It has more questions than fit into what lies between, and reads none.
	questions := make([]*kgo.Record, 10_000)
	for i := range questions {
		id, question := a.question(a.bank)
		question.RemittanceInformation = strings.Repeat("x", 140)

		value, err := question.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		questions[i] = &kgo.Record{Topic: stream.AuthorizationRequests, Partition: 1, Key: []byte(id), Value: value}
	}

	if err := a.kafka.ProduceSync(t.Context(), questions...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	flows("questions that nobody reads")
	kit.Await(t, "the stream that reads nothing to be ended", func() (bool, string) {
		is := streams()
		return is < most, fmt.Sprint(is)
	})

	// Answers that are none of its own.
	refused := func(what, path, body string, want int) {
		t.Helper()
		kit.Await(t, what, func() (bool, string) {
			code, _, _, text := door.as(a.key, "POST", path, body)
			if code != want && code != 503 {
				t.Errorf("%s: %d %s", what, code, text)
			}

			return code != 503, text
		})
	}
	refused("1 MB", a.path("answers"), `{"answers": [{"value": "`+strings.Repeat("A", 1<<20)+`", "seal": ""}]}`, 413)
	foreign := victim.ask(victim.bank)
	heard("question", foreign)
	a.answer(foreign, "", 404) // in its own name
	a.send(victim.valueOf(foreign, ""), sealOf, 422, "value.ispb")
	refused("in the name of another bank", victim.path("answers"),
		fmt.Sprintf(`{"answers": [{"value": %q, "seal": %q}]}`, victim.valueOf(foreign, ""), sealOf), 403)

	for range 100 {
		a.answer(pix.NewEndToEndID("10000001", time.Now(), random).String(), "", 404)
	}
	victim.answer(foreign, "", 202)

	if record := a.stored(); string(record.Key) != foreign || string(record.Value[34:42]) == string(a.bank) {
		t.Errorf("stored is %q", record.Value)
	}
	victim.report(foreign)
	heard("over", foreign)
	flows("guesses")
}
