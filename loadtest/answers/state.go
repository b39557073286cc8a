package answers

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Span is the time of a request, from its sending to its response, by the client's clock.
type Span struct{ From, To time.Time }

// Outcome is how a payment or return ended.
type Outcome struct {
	Settled bool
	Reason  string // of a rejection
}

func (o Outcome) String() string {
	if o.Settled {
		return "settled"
	}

	return "rejected " + o.Reason
}

// Status is the progress of a payment or return.
type Status uint8

// The statuses, in the order of a payment's life.
const (
	Unknown Status = iota
	Reserved
	Ended
)

func (s Status) String() string { return [...]string{"unknown", "reserved", "ended"}[s] }

// answer is what the HTTP API said of a payment. It was true at some instant of its span,
// which begins with the request (for an event: the request for its stream) and ends when the
// answer was there.
type answer struct {
	Span
	Status
	Outcome // if Status is Ended
	event   bool
	report  bool // it is no answer but the settlement report, and event is true
	// ReturnedCentavos is what was given back. Events do not say it.
	ReturnedCentavos uint64
	paymentFacts
}

// paymentFacts never change. Some answers leave out some of them.
type paymentFacts struct {
	AmountCentavos uint64      `json:"amount_centavos"`
	Payer          bankAccount `json:"payer"`
	Payee          bankAccount `json:"payee"`
	ReservedAt     time.Time   `json:"reserved_at"`
	ExpiresAt      time.Time   `json:"expires_at"`
	DecidedAt      time.Time   `json:"decided_at"`
}

type bankAccount struct {
	ISPB   string `json:"ispb"`
	Branch string `json:"branch"`
	Number string `json:"number"`
}

func accountOf(a *pixv1.Account) bankAccount {
	return bankAccount{a.GetIspb(), a.GetBranch(), a.GetNumber()}
}

// facts returns the facts that are told, in a form to compare.
func (a *answer) facts() map[string]string {
	told := map[string]string{}
	if a.Status == Ended {
		told["the end"] = a.Outcome.String()
	}

	if a.AmountCentavos > 0 {
		told["amount_centavos"] = fmt.Sprint(a.AmountCentavos)
	}

	for name, account := range map[string]bankAccount{"payer": a.Payer, "payee": a.Payee} {
		if account != (bankAccount{}) {
			told[name] = fmt.Sprint(account)
		}
	}

	for name, at := range map[string]time.Time{"reserved_at": a.ReservedAt, "expires_at": a.ExpiresAt,
		"decided_at": a.DecidedAt} {
		if !at.IsZero() {
			told[name] = at.UTC().Format(time.RFC3339Nano)
		}
	}

	return told
}

// parseAnswer reads a payment's state, from GET or an event.
func parseAnswer(text []byte, span Span) (answer, error) {
	var body struct {
		Status     string `json:"status"`
		ReasonCode string `json:"reason_code"`
		Returned   uint64 `json:"returned_centavos"`
		paymentFacts
	}
	if err := json.Unmarshal(text, &body); err != nil {
		return answer{}, err
	}

	a := answer{Span: span, paymentFacts: body.paymentFacts, ReturnedCentavos: body.Returned}
	switch body.Status {
	case "unknown":
	case "reserved":
		a.Status = Reserved
	case "settled", "rejected":
		a.Status, a.Outcome = Ended, Outcome{Settled: body.Status == "settled", Reason: body.ReasonCode}
	default:
		return a, fmt.Errorf("the status is %q", body.Status)
	}

	return a, nil
}

const timeOfDay = "15:04:05.000000"

// words describe an answer and its times.
func (a *answer) words(how string) string {
	return fmt.Sprintf("%s %s, answered %s: %v, %v, %d given back", how, a.From.UTC().Format(timeOfDay),
		a.To.UTC().Format(timeOfDay), a.Status, a.facts(), a.ReturnedCentavos)
}

// answerRecord keeps what later answers about a payment or return are compared with. As a status only goes
// forward, each two answers that do not overlap in time agree if these do: then all fit one order.
type answerRecord struct {
	chosen   bool                 // it is asked about until the end
	earliest [Ended + 1]*answer   // by status: the answer that was there first
	latest   [Ended + 1]*answer   // by status: the answer that was asked for last
	facts    map[string]*answer   // by fact: the first answer that said it
	returned *answer              // the first answer that said the most was given back
	report   *answer              // the settlement report
	back     map[string]givenBack // by return, from their reports
}

type givenBack struct {
	at       time.Time
	centavos uint64
}

// Choose decides, before a payment is sent, whether it is asked about.
func (j *Judge) Choose(id pix.EndToEndID) bool {
	if j.payments.Add(1)%j.every != 0 { // without the lock: a load must not wait for what judges do
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()

	t := j.record(id)
	if !t.chosen && len(j.all) < askedMax {
		t.chosen = true
		j.all = append(j.all, id)
	}

	return t.chosen
}

// keep compares all answers about a payment or return, before it is sent, up to the bound of memory.
func (j *Judge) keep(id pix.EndToEndID) {
	j.mu.Lock()
	defer j.mu.Unlock()

	if len(j.kept) < keptMax {
		j.record(id)
	} else {
		j.verdict.Told[toldBeyond]++
	}
}

func (j *Judge) record(id pix.EndToEndID) *answerRecord {
	t := j.of[id]
	if t == nil {
		t = &answerRecord{facts: map[string]*answer{}, back: map[string]givenBack{}}
		j.of[id] = t
		j.kept = append(j.kept, id)
	}

	return t
}

// newest is how many of the payments that were chosen last are asked about more often: they may be under way.
const newest = 20

// pick returns a payment to ask about: half of the time one of the newest, else any.
func (j *Judge) pick(random *rand.Rand) (id pix.EndToEndID, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()

	from := j.all
	if random.IntN(2) == 0 {
		from = from[max(0, len(from)-newest):]
	}

	if len(from) == 0 {
		return id, false
	}

	return from[random.IntN(len(from))], true
}

// chosen returns all payments that are asked about.
func (j *Judge) chosen() []pix.EndToEndID {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.all)
}

// take compares an answer with all earlier ones. before is the event before it in the same
// stream, if there is one.
func (j *Judge) take(id pix.EndToEndID, now answer, before *answer) {
	j.mu.Lock()
	defer j.mu.Unlock()

	t := j.of[id]
	if t == nil {
		return // not compared
	}

	switch {
	case now.report && t.report != nil:
		return // the audit compares repeated reports
	case now.report:
		t.report = &now
	default:
		j.verdict.Told[toldAnswers]++
		if now.event {
			j.verdict.Told[toldEvents]++
		}
	}

	if before != nil && before.Status > now.Status {
		j.differ(id, "the stream's later event goes back", before, &now)
	}

	for status := Unknown; status <= Ended; status++ {
		// Two answers whose spans overlap have no order.
		if e := t.earliest[status]; e != nil && status > now.Status && e.To.Before(now.From) {
			j.differ(id, "the later answer goes back", e, &now)
			break
		}

		if l := t.latest[status]; l != nil && status < now.Status && now.To.Before(l.From) {
			j.differ(id, "the later answer goes back", &now, l)
			break
		}
	}
	least := uint64(0)

	for _, back := range t.back {
		if j.after(now.From, back.at) {
			least += back.centavos
		}
	}

	if !now.event && now.ReturnedCentavos < least {
		j.differ(id, fmt.Sprintf("%d centavos were reported as given back before", least), nil, &now)
	}

	for name, value := range now.facts() {
		switch first := t.facts[name]; {
		case first == nil:
			t.facts[name] = &now
		case first.facts()[name] != value:
			j.differ(id, name+" has changed", first, &now)
		}
	}

	if now.ReturnedCentavos > now.AmountCentavos {
		j.differ(id, "more was given back than was paid", nil, &now)
	}

	if now.Status == Ended && now.DecidedAt.IsZero() && now.To.Before(now.ExpiresAt.Add(-j.tolerance)) {
		j.differ(id, "it was told as ended without a verdict, before its hold had expired", nil, &now)
	}

	switch r := t.returned; {
	case r == nil || now.ReturnedCentavos > r.ReturnedCentavos:
		t.returned = &now
	case !now.event && now.ReturnedCentavos < r.ReturnedCentavos && r.To.Before(now.From):
		j.differ(id, "the later answer has less given back", r, &now)
	}

	if e := t.earliest[now.Status]; e == nil || now.To.Before(e.To) {
		t.earliest[now.Status] = &now
	}

	if l := t.latest[now.Status]; !now.report && (l == nil || now.From.After(l.From)) {
		t.latest[now.Status] = &now
	}
}

// after reports whether a request began after a report, whose time Kafka keeps in milliseconds.
func (j *Judge) after(from, report time.Time) bool {
	return from.After(report.Add(time.Millisecond + j.tolerance))
}

// reported takes the settlement report of a payment or return: as an answer, of the millisecond that Kafka keeps.
func (j *Judge) reported(id pix.EndToEndID, at time.Time, outcome Outcome, report *pixv1.SettlementReport) {
	told := answer{Span: Span{From: at, To: at.Add(time.Millisecond + j.tolerance)}, Status: Ended, Outcome: outcome,
		event: true, report: true}

	told.AmountCentavos = report.AmountCentavos
	if id[0] == 'E' { // the API tells no accounts of a return
		told.Payer, told.Payee = accountOf(report.Payer), accountOf(report.Payee)
	}
	j.take(id, told, nil)
}

// reportedBack takes the settlement report of a settled return.
func (j *Judge) reportedBack(original pix.EndToEndID, at time.Time, report *pixv1.SettlementReport) {
	j.mu.Lock()
	defer j.mu.Unlock()

	if t := j.of[original]; t != nil && t.back[report.EndToEndId].centavos == 0 {
		t.back[report.EndToEndId] = givenBack{at, report.AmountCentavos}
	}
}

// concludeStates compares each payment's last answer with its settlement report.
func (j *Judge) concludeStates() {
	for _, id := range j.kept {
		t := j.of[id]

		var last *answer
		for _, l := range t.latest {
			if l != nil && (last == nil || l.From.After(last.From)) {
				last = l
			}
		}

		switch {
		case last == nil && t.chosen:
			j.differ(id, "the API never told of it, not even at the end", nil, nil)
		case last == nil: // its client saw nothing of it
		case t.report == nil && last.Status != Unknown:
			j.differ(id, "it has no settlement report", last, nil)
		case t.report != nil && last.Status == Ended: // what was told as open after the report is a contradiction
			j.concludeEnd(id, t, last)
		}
	}
}

// concludeEnd compares the last answer about a payment with what its reports add to it.
func (j *Judge) concludeEnd(id pix.EndToEndID, t *answerRecord, last *answer) {
	back := uint64(0)
	for _, given := range t.back {
		back += given.centavos
	}

	if last.ReturnedCentavos > back || t.chosen && last.ReturnedCentavos < back {
		j.differ(id, fmt.Sprintf("the settlement reports of its returns give %d centavos back", back), t.report, last)
	}

	if decided := t.facts["decided_at"]; decided != nil && j.after(decided.DecidedAt, t.report.From) {
		j.differ(id, "the ledger decided it after its report", t.report, decided)
	} else if first := t.earliest[Ended]; first.Settled && first.To.Before(last.DecidedAt.Add(-j.tolerance)) {
		j.differ(id, "it was told as settled before the ledger had settled it", first, last)
	}
}

// differ adds a contradiction between answers about a payment. The caller holds the lock.
func (j *Judge) differ(id pix.EndToEndID, what string, earlier, later *answer) {
	words := func(x *answer) string {
		switch {
		case x == nil:
			return "none"
		case x.report:
			return x.words("reported")
		case x.event:
			return x.words("stream opened")
		}

		return x.words("asked")
	}
	j.contradict(id.String(), what, words(earlier), words(later))
}
