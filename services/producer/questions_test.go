package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
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
	kafka, err := kgo.NewClient(kgo.SeedBrokers(k.broker.Address), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ConsumeTopics(stream.AuthorizationResponses))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	return &asking{k, kafka, "Bearer " + own}
}

// another is a second bank at the same front door.
func (a *asking) another() *asking {
	a.t.Helper()
	k := &keyed{t: a.t, bank: ownBanks().Payer.ISPB, centralBank: a.centralBank, doors: a.doors, broker: a.broker}
	k.act(k.centralBank, `{"act": "register"}`, 200)
	own := keys.New(string(k.bank))
	k.name(k.centralBank, own)
	return &asking{k, a.kafka, "Bearer " + own}
}

func (a *asking) write(topic string, partition int32, key string, message interface{ MarshalVT() ([]byte, error) }) {
	a.t.Helper()
	value, err := message.MarshalVT()
	if err == nil {
		err = a.kafka.ProduceSync(a.t.Context(), &kgo.Record{Topic: topic, Partition: partition, Key: []byte(key), Value: value}).FirstErr()
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// ask asks the bank, or another one.
func (a *asking) ask(bank pix.ISPB) (id string) {
	a.t.Helper()
	id = pix.NewEndToEndID("10000001", time.Now(), random).String()
	a.write(stream.AuthorizationRequests, 1, id, &pixv1.AuthorizationRequest{EndToEndId: id, AmountCentavos: 12345, ReplyPartition: 2, RemittanceInformation: "lunch",
		Payer: &pixv1.Account{Ispb: "10000001", Branch: "0001", Number: "1"}, Payee: &pixv1.Account{Ispb: string(bank), Branch: "0001", Number: "2"}, DeadlineUnixMs: time.Now().Add(40 * time.Second).UnixMilli()})
	return id
}

func (a *asking) report(id string) {
	a.t.Helper()
	a.write(stream.Settlements, 1, id, &pixv1.SettlementReport{EndToEndId: id, Status: pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC, AmountCentavos: 12345,
		Payer: &pixv1.Account{Ispb: "10000001", Branch: "0001", Number: "1"}, Payee: &pixv1.Account{Ispb: string(a.bank), Branch: "0001", Number: "2"}})
}

// follow opens a stream of the bank's questions.
func (a *asking) follow(query string, headers ...string) (<-chan event, func()) {
	ctx, end := context.WithCancel(a.t.Context())
	return events(a.doors[0].send(ctx, "GET", a.path("questions")+query, "", append(headers, "Authorization", a.key)...)), end
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
	m := &pixv1.AuthorizationResponse{EndToEndId: id, Ispb: string(a.bank), Status: pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP, ReasonCode: code}
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
		code, _, problem, text := a.doors[0].as(a.key, "POST", a.path("answers"), fmt.Sprintf(`{"answers": [{"value": %q, "seal": %q}]}`, value, seal))
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
	if q.EndToEndID != first || q.RemittanceInformation != "lunch" || q.LeftMilliseconds < 1 || q.LeftMilliseconds > 42_000 || q.Payee.ISPB != string(a.bank) || q.AmountCentavos != 12345 {
		t.Fatalf("%+v", q)
	}

	a.answer(first, "", 202)
	record := a.stored()
	if record.Partition != 2 || string(record.Key) != first || base64.StdEncoding.EncodeToString(record.Value) != a.valueOf(first, "") ||
		len(record.Headers) != 1 || record.Headers[0].Key != keys.SealHeader || base64.StdEncoding.EncodeToString(record.Headers[0].Value) != sealOf {
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
	a.write(stream.DeadLetters, 2, forged, &pixv1.DeadLetter{Topic: stream.AuthorizationResponses, Partition: record.Partition, Offset: record.Offset, Payload: record.Value, ReasonCode: "FF01"})
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

	// Nothing is called stored that Kafka does not have.
	unsure := a.ask(a.bank)
	a.told(live, "question")
	a.broker.Stop()
	if code, _, problem, text := a.doors[0].as(a.key, "POST", a.path("answers"), fmt.Sprintf(`{"answers": [{"value": %q, "seal": %q}]}`, a.valueOf(unsure, ""), sealOf)); code != 503 || problem.Type != "urn:liquida:problem:unknown-fate" {
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
		then, _, _, _ := a.doors[0].as(key, "POST", "/v1/participants/10000002/answers", `{"answers": [{"value": "", "seal": ""}]}`)
		if code != 403 || then != 403 {
			t.Errorf("%d and %d, want 403", code, then)
		}
	}
}

// Programs of a bank that name a share divide the questions. What one had goes to the other when it is gone. A poll is given what no
// other has, and a stream that comes back is not told again what it knows.
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
	back, endBack := a.follow("", "Last-Event-ID", last)
	defer endBack()
	if q := a.told(back, "question"); q.EndToEndID != young {
		t.Errorf("%s, want %s", q.EndToEndID, young)
	}
	var page question.Page
	response := a.doors[0].send(t.Context(), "GET", a.path("questions"), "", "Authorization", a.key, "Accept", "application/json", "Prefer", "wait=20")
	if err := json.NewDecoder(response.Body).Decode(&page); err != nil || len(page.Questions) != 1 || page.Questions[0].EndToEndID != young {
		t.Errorf("%+v %v", page, err)
	}
}

// What a bank is asked that does not ask over HTTP, and what nobody is asked, takes no room here. A bank that begins to ask is
// told what is open since before, and the others are not told again.
func TestWhoDoesNotAskTakesNoRoom(t *testing.T) {
	t.Parallel()
	a := startAsking(t)
	late := a.another()
	mine := a.ask(a.bank)
	for range 20 {
		a.ask("99999999") // no participant
	}
	early := a.ask(late.bank)
	live, end := a.follow("")
	defer end()
	if q := a.told(live, "question"); q.EndToEndID != mine {
		t.Fatalf("%s is told, want %s", q.EndToEndID, mine)
	}
	last := a.ask(a.bank)
	if q := a.told(live, "question"); q.EndToEndID != last {
		t.Fatalf("%s is told, want %s", q.EndToEndID, last)
	}
	if text := a.doors[0].metrics(); !strings.Contains(text, "\npix_producer_questions_open 2\n") {
		t.Errorf("not only the two questions of the bank that asks are kept: %s", text)
	}

	begins, endLate := late.follow("")
	defer endLate()
	if q := late.told(begins, "question"); q.EndToEndID != early {
		t.Fatalf("%s is told, want %s", q.EndToEndID, early)
	}
	late.answer(early, "", 202)
	last = a.ask(a.bank)
	if q := a.told(live, "question"); q.EndToEndID != last {
		t.Errorf("%s is told again, want %s", q.EndToEndID, last)
	}
}

// A bank with as many streams as it can open, none of which it reads, and with answers of every wrong kind, harms no other bank.
func TestABankThatAttacksHarmsNobody(t *testing.T) {
	t.Parallel()
	a := startAsking(t)
	victim := a.another()
	question := victim.ask(victim.bank)
	opened, refused := 0, 0
	for i := range 40 {
		response := a.doors[0].send(t.Context(), "GET", fmt.Sprintf("%s?share=s%d", a.path("questions"), i), "", "Authorization", a.key)
		switch response.StatusCode {
		case 200:
			opened++
		case 429:
			refused++
		default:
			t.Fatalf("stream %d: %d", i, response.StatusCode)
		}
	}
	if opened == 0 || refused < 30 {
		t.Errorf("%d streams of one bank were opened, %d refused", opened, refused)
	}
	for range 50 {
		a.ask(a.bank)
	}
	if code, _, _, text := a.doors[0].as(a.key, "POST", a.path("answers"), fmt.Sprintf(`{"answers": [{"value": %q, "seal": ""}]}`, strings.Repeat("A", 1<<20))); code != 413 {
		t.Errorf("an answer of 1 MB: %d %s", code, text)
	}
	for range 20 { // guessed ids, and the victim's
		a.answer(pix.NewEndToEndID("10000001", time.Now(), random).String(), "", 404)
	}
	a.answer(question, "", 404)

	live, end := victim.follow("")
	defer end()
	if q := victim.told(live, "question"); q.EndToEndID != question {
		t.Fatalf("%s is told, want %s", q.EndToEndID, question)
	}
	victim.answer(question, "", 202)
	if record := a.stored(); string(record.Key) != question {
		t.Errorf("%s is stored, want %s", record.Key, question)
	}
}
