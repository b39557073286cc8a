package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/producer/query"
)

// post sends an order and reads the whole response.
func (p *program) post(path, body string, headers ...string) (r reply, header http.Header) {
	p.t.Helper()
	response := p.send(p.t.Context(), "POST", path, body, headers...)

	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}

	if err != nil {
		p.t.Fatalf("%s: %s: %v", response.Status, text, err)
	}
	r.code, r.text = response.StatusCode, string(text)

	return r, response.Header
}

// conflicts reports whether a response says that an id belongs to other content, and no more than that.
func (r reply) conflicts(id, kind string) bool {
	name := map[byte]string{'E': "end_to_end_id", 'D': "return_id"}[id[0]]

	return r.code == http.StatusConflict && r.Type == "urn:liquida:problem:"+kind && r.Code == "DUPL" &&
		r.Field == name && string(r.Value) == `"`+id+`"` && r.Rule != "" && r.EndToEndID == id &&
		!r.has("amount_centavos") && !strings.Contains(r.text, `"settled"`) && !strings.Contains(r.text, "10000002\"")
}

const (
	knownConflict  = "other-content"
	flightConflict = "other-content-sent"
)

// bodyOf is a payment of content, but for its amount.
func bodyOf(id pix.EndToEndID, centavos int) string {
	return fmt.Sprintf(`{"end_to_end_id": %q, "payer": %s, "payee": %s, "amount_centavos": %d}`, id, payer,
		payee, centavos)
}

// What the ledger knows under an id decides, at each front door and after each restart: the same
// payment is taken again, another one is refused before it is sent.
func TestAnIDThatTheLedgerKnowsNamesOnePayment(t *testing.T) {
	t.Parallel()
	l, client := sharedLedger(t)
	openBooks(t, client, content)
	b := startBroker(t)
	p := startProgram(t, b, l)
	p.AwaitNeed("log", false)
	other := startProgram(t, b, l, "LEDGER_LOOKUP_IDS_MAX=135", "PAGE_MAX=100")
	other.AwaitNeed("log", false)
	type known struct {
		name string
		id   pix.EndToEndID
	}
	var all []known

	for name, do := range map[string]func(pix.EndToEndID){
		"held": func(id pix.EndToEndID) { write(t, client, ledger.AppendReserve(nil, id, content, 600)) },
		"settled": func(id pix.EndToEndID) {
			write(t, client, ledger.AppendReserve(nil, id, content, 600))
			write(t, client, ledger.AppendPost(nil, id, false))
		},
		"rejected": func(id pix.EndToEndID) {
			write(t, client, ledger.AppendReserve(nil, id, content, 600))
			write(t, client, ledger.AppendVoid(nil, id, false, pix.ReasonPayeeBlocked))
		},
		"refused": func(id pix.EndToEndID) {
			write(t, client, ledger.AppendReceipt(nil, id, content, pix.ReasonReserveShort, true))
		},
		"refused, and other content held after it": func(id pix.EndToEndID) {
			write(t, client, ledger.AppendReceipt(nil, id, content, pix.ReasonInactivePSP, true))
			after := content
			after.AmountCentavos = 101
			write(t, client, ledger.AppendReserve(nil, id, after, 600))
		},
	} {
		id := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
		do(id)
		all = append(all, known{name, id})
	}
	taken := 0

	for round, door := range []*program{p, other, p} {
		if round == 2 {
			other.End(9)
			door = startProgram(t, b, l)
			door.AwaitNeed("log", false)
		}
		var lines []string

		for _, k := range all {
			for _, wait := range [][]string{nil, {"Prefer", "wait=1"}} {
				if got, header := door.post("/v1/payments", bodyOf(k.id, 101), wait...); !got.conflicts(k.id.String(),
					knownConflict) || header.Get("Preference-Applied") != "" {
					t.Errorf("%s, another amount: %d %s", k.name, got.code, got.text)
				}
			}

			if got := door.call("POST", "/v1/payments",
				strings.Replace(bodyOf(k.id, 100), payee, strings.Replace(payee, `"2"}`, `"3"}`, 1),
					1)); !got.conflicts(k.id.String(), knownConflict) {
				t.Errorf("%s, another payee: %d %s", k.name, got.code, got.text)
			}

			if got, _ := door.post("/v1/payments", bodyOf(k.id, 100)); got.code != http.StatusAccepted {
				t.Errorf("%s, the same: %d %s", k.name, got.code, got.text)
			}
			taken++
			lines = append(lines, bodyOf(k.id, 101), bodyOf(k.id, 100), valid)
		}

		const times = 4 // so that they are more than other asks for in one look-up
		for i, got := range door.batch(strings.Join(slices.Repeat(lines, times), "\n")) {
			if conflict := i%3 == 0; got.Line != i+1 || conflict != (got.Problem != nil) || conflict &&
				(got.Problem.Status != 409 || got.Problem.Code != "DUPL" ||
					got.Problem.EndToEndID != all[i/3%len(all)].id.String() || got.EndToEndID != "") {
				t.Errorf("line %d: %+v %+v", i+1, got, got.Problem)
			}
		}
		taken += times * 2 * len(all)
	}

	for _, record := range published(t, b, taken) {
		var order pixv1.PaymentOrder
		if err := order.UnmarshalVT(record.Value); err != nil || order.AmountCentavos == 101 ||
			order.Payee.Number == "3" {
			t.Errorf("%v was sent (%v)", &order, err)
		}
	}
	// Its place in the ledger belongs to another id: the engine judges that.
	id := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)

	forged := ledger.AppendReserve(nil, id, content, 600)
	for i := range forged {
		forged[i].UserData128 = tb.ToUint128(1)
	}
	write(t, client, forged)

	if got, _ := p.post("/v1/payments", bodyOf(id, 101)); got.code != http.StatusAccepted {
		t.Errorf("%d %s", got.code, got.text)
	}
}

// Before the ledger knows it, the front door knows what it has sent. The ledger has the last word.
func TestAnIDThatIsOnItsWayNamesOnePayment(t *testing.T) {
	t.Parallel()
	l, client := sharedLedger(t)
	openBooks(t, client, content)
	b := startBroker(t)
	p := startProgram(t, b, l)
	p.AwaitNeed("log", false)
	id, second := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random),
		pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)

	made := p.call("POST", "/v1/payments", valid).EndToEndID
	for _, c := range []struct {
		body string
		code int
	}{{bodyOf(id, 100), 202}, {bodyOf(id, 101), 409}, {bodyOf(id, 100), 202},
		{`{"end_to_end_id": "` + made + `", ` + valid[1:], 202},
		{strings.Replace(`{"end_to_end_id": "`+made+`", `+valid[1:], "12345}", "12346}", 1), 409}} {
		got, _ := p.post("/v1/payments", c.body, "Prefer", "wait=1")
		if got.code != c.code || c.code == 409 && !got.conflicts(c.body[19:51], flightConflict) {
			t.Errorf("%s: %d %s", c.body, got.code, got.text)
		}
	}

	got := p.batch(bodyOf(second, 100) + "\n" + bodyOf(second, 101) + "\n" + bodyOf(second, 100) + "\n" +
		bodyOf(id, 101))
	if len(got) != 4 || got[0].Problem != nil || got[1].Problem == nil || got[1].Problem.Status != 409 ||
		got[2].Problem != nil || got[3].Problem == nil || got[3].Problem.Status != 409 {
		t.Errorf("%+v", got)
	}

	for _, record := range published(t, b, 6) {
		var order pixv1.PaymentOrder
		if err := order.UnmarshalVT(record.Value); err != nil || order.AmountCentavos == 101 ||
			order.AmountCentavos == 12346 {
			t.Errorf("%v was sent (%v)", &order, err)
		}
	}
	// Another door has sent the other content, and the engine took that.
	settled := content
	settled.AmountCentavos = 101
	write(t, client, ledger.AppendReserve(nil, id, settled, 600))

	if got, _ := p.post("/v1/payments", bodyOf(id, 101)); got.code != 202 {
		t.Errorf("what the ledger holds: %d %s", got.code, got.text)
	}

	if got, _ := p.post("/v1/payments", bodyOf(id, 100)); !got.conflicts(id.String(), knownConflict) {
		t.Errorf("what this door has sent: %d %s", got.code, got.text)
	}
}

// The ledger never knows a dead letter, so its id is not refused for ever.
func TestAnIDThatTheLedgerNeverKnowsIsFreeAgain(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	p := startProgram(t, b, aLedger(t), "FLIGHT_TIME_MAX=1s")
	p.AwaitNeed("log", false)

	id := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
	if got, _ := p.post("/v1/payments", bodyOf(id, 100)); got.code != http.StatusAccepted {
		t.Fatalf("%d %s", got.code, got.text)
	}
	kit.Await(t, "other content to be taken", func() (bool, string) {
		got, _ := p.post("/v1/payments", bodyOf(id, 101))
		if got.code != http.StatusAccepted && !got.conflicts(id.String(), flightConflict) {
			t.Errorf("%d %s", got.code, got.text)
		}

		return got.code == http.StatusAccepted, got.text
	})
}

// Who waits is told the outcome of what it has sent, not of other content that came first.
func TestAWaitEndsWithTheOutcomeOfItsOwnContent(t *testing.T) {
	t.Parallel()
	_, client := sharedLedger(t)

	for name, do := range map[string]func(pix.EndToEndID){
		"settled": func(id pix.EndToEndID) {
			write(t, client, ledger.AppendReserve(nil, id, content, 600))
			write(t, client, ledger.AppendPost(nil, id, false))
		},
		"refused": func(id pix.EndToEndID) {
			write(t, client, ledger.AppendReceipt(nil, id, content, pix.ReasonReserveShort, true))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, b, _ := wokenByReports(t)
			id := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				published(t, b, 1)
				kit.Await(t, "the submission to wait", func() (bool, string) {
					return strings.Contains(p.metrics(), "pix_producer_waits 1\n"), ""
				})
				do(id)
				deadLetter(t, b, "DUPL", &pixv1.PaymentOrder{EndToEndId: id.String(), AmountCentavos: 101})
			}()

			got, header := p.post("/v1/payments", bodyOf(id, 101), "Prefer", "wait=600")
			if !got.conflicts(id.String(), knownConflict) || header.Get("Preference-Applied") != "wait=60" {
				t.Errorf("%d %s %v", got.code, got.text, header)
			}
			<-ended
		})
	}
}

func TestAnIDNamesOneReturn(t *testing.T) {
	t.Parallel()
	p, b, client := wokenByReports(t)
	original := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
	write(t, client, ledger.AppendReserve(nil, original, content, 60))
	write(t, client, ledger.AppendPost(nil, original, false))
	fundPayee(t, client, 1000)
	order := func(id pix.ReturnID, centavos int, reason string) string {
		return fmt.Sprintf(`{"return_id": %q, "original_end_to_end_id": %q, "amount_centavos": %d, "reason_code": %q}`,
			id, original, centavos, reason)
	}
	ask := func(when string, id pix.ReturnID, body string, code int, kind string) {
		t.Helper()

		if got, _ := p.post("/v1/returns", body); got.code != code || code == 409 && !got.conflicts(id.String(), kind) {
			t.Errorf("%s: %d %s", when, got.code, got.text)
		}
	}
	write(t, client, ledger.AppendReturnedMark(nil, original))
	held := func(id pix.ReturnID, of pix.ReturnContent, slot int) {
		write(t, client, ledger.AppendReturnReserve(nil, id, of, slot, content, 600))
	}
	inFlight, _ := newReturn(t, original)
	ask("the first", inFlight, order(inFlight, 40, "MD06"), 202, "")
	ask("on its way", inFlight, order(inFlight, 41, "MD06"), 409, flightConflict)
	ask("the same", inFlight, order(inFlight, 40, "MD06"), 202, "")
	isHeld, of := newReturn(t, original)
	held(isHeld, of, 0)
	settled, of := newReturn(t, original)
	held(settled, of, 1)
	write(t, client, ledger.AppendReturnPost(nil, settled, of, 1, false))
	refused, of := newReturn(t, original)
	write(t, client, ledger.AppendReturnReceipt(nil, refused, of, pix.ReasonReturnExceeds, true))

	for name, id := range map[string]pix.ReturnID{"held": isHeld, "settled": settled, "refused": refused} {
		ask(name+", another amount", id, order(id, 41, "MD06"), 409, knownConflict)
		ask(name+", another reason", id, order(id, 40, "FR01"), 409, knownConflict)
		ask(name+", the same", id, order(id, 40, "MD06"), 202, "")
	}
	// A verdict of another original counts, too.
	elsewhere := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
	ask("another original", settled,
		strings.Replace(order(settled, 40, "MD06"), original.String(), elsewhere.String(), 1), 409, knownConflict)
	// Who waits hears of its own return.
	late, of := newReturn(t, original)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		kit.Await(t, "the submission to wait", func() (bool, string) {
			return strings.Contains(p.metrics(), "pix_producer_waits 1\n"), ""
		})
		held(late, of, 2)
		write(t, client, ledger.AppendReturnPost(nil, late, of, 2, false))
		back(t, b, late, original, true)
	}()

	if got, _ := p.post("/v1/returns", order(late, 41, "MD06"), "Prefer", "wait=60"); !got.conflicts(late.String(),
		knownConflict) {
		t.Errorf("%d %s", got.code, got.text)
	}
	<-ended
}

// A bank learns nothing of another one's payments from a conflict: it may not name their ids.
func TestAConflictTellsOtherBanksNothing(t *testing.T) {
	t.Parallel()
	r := makeRing(t)
	l, client := sharedLedger(t)
	openBooks(t, client, content)
	p := startProgram(t, startBroker(t), l, "HTTP_KEYS_FILE="+r.digests)
	p.AwaitNeed("log", false)
	held, nowhere := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random),
		pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
	write(t, client, ledger.AppendReserve(nil, held, content, 600))
	back, of := newReturn(t, held)
	write(t, client, ledger.AppendReturnReceipt(nil, back, of, pix.ReasonReturnExceeds, true))
	absent, _ := newReturn(t, held)
	foreign := strings.Replace(payer, "10000001", "10000003", 1)

	for _, as := range []string{"10000002", "10000003", "central-bank"} {
		var said []string

		for _, id := range []pix.EndToEndID{held, nowhere} {
			for _, body := range []string{bodyOf(id, 101), strings.Replace(bodyOf(id, 101), payer, foreign, 1)} {
				code, _, problem, text := p.as("Bearer "+r.of(t, as), "POST", "/v1/payments", body)
				if code != 403 && code != 422 || problem.Code == "DUPL" {
					t.Errorf("%s: %d %s", as, code, text)
				}
				said = append(said, ofRequest.ReplaceAllString(strings.ReplaceAll(text, id.String(), "ID"), ""))
			}
		}

		if said[0] != said[2] || said[1] != said[3] {
			t.Errorf("%s can tell them apart: %v", as, said)
		}

		if as == "10000002" {
			continue // the return is its own
		}
		said = nil

		for _, id := range []pix.ReturnID{back, absent} {
			code, _, problem, text := p.as("Bearer "+r.of(t, as), "POST", "/v1/returns",
				fmt.Sprintf(`{"return_id": %q, "original_end_to_end_id": %q, "amount_centavos": 41, "reason_code": "MD06"}`,
					id, held))
			if code != 403 || problem.Code == "DUPL" {
				t.Errorf("%s: %d %s", as, code, text)
			}
			said = append(said, ofRequest.ReplaceAllString(strings.ReplaceAll(text, id.String(), "ID"), ""))
		}

		if said[0] != said[1] {
			t.Errorf("%s can tell them apart: %v", as, said)
		}
	}
}

// ofRequest is what differs between any two problems.
var ofRequest = regexp.MustCompile(`,"request_id":"[0-9a-f]{16}"`)

// deadLetter writes dead letters as an engine does.
func deadLetter(t *testing.T, b *kit.Broker, reason string, messages ...*pixv1.PaymentOrder) {
	t.Helper()

	client, err := kgo.NewClient(kgo.SeedBrokers(b.Address))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	for i, message := range messages {
		payload, err := message.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}

		value, err := (&pixv1.DeadLetter{Topic: stream.Payments, Offset: int64(i), ReasonCode: reason,
			Reason: "a secret", Payload: payload}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}

		if err := client.ProduceSync(t.Context(),
			&kgo.Record{Topic: stream.DeadLetters, Key: []byte(message.EndToEndId),
				Value: value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// A status tells of a dead letter, also after a restart, and only to the bank that has sent it.
func TestAStatusTellsOfADeadLetter(t *testing.T) {
	t.Parallel()
	r := makeRing(t)
	l, client := sharedLedger(t)
	openBooks(t, client, content)
	b := startBroker(t)
	p := startProgram(t, b, l, "HTTP_KEYS_FILE="+r.digests)
	p.AwaitNeed("log", false)
	original := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
	dead, held := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random),
		pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
	write(t, client, ledger.AppendReserve(nil, held, content, 600))
	deadReturn, of := newReturn(t, original)
	refused, _ := newReturn(t, original)
	write(t, client, ledger.AppendReturnReceipt(nil, refused, of, pix.ReasonReturnExceeds, true))
	returned := func(id pix.ReturnID) *pixv1.PaymentOrder {
		return &pixv1.PaymentOrder{ReturnOrder: &pixv1.ReturnOrder{ReturnId: id.String(), AmountCentavos: 77}}
	}
	// Whoever writes to Kafka can name any bank: no participant loses its place.
	var strangers []*pixv1.PaymentOrder
	for i := range 1000 {
		strangers = append(strangers,
			&pixv1.PaymentOrder{EndToEndId: pix.NewEndToEndID(pix.ISPB(fmt.Sprint(20000000+i)), time.Now(),
				random).String()})
	}
	deadLetter(t, b, "FF01", strangers...)
	// Of several letters of an id the newest is told, whatever its bank wrote between them.
	deadLetter(t, b, "FF01", &pixv1.PaymentOrder{EndToEndId: dead.String(), AmountCentavos: 76},
		&pixv1.PaymentOrder{EndToEndId: held.String(), AmountCentavos: 76})

	var others []*pixv1.PaymentOrder
	for range 500 { // as many as are kept of one bank in a generation
		others = append(others, &pixv1.PaymentOrder{
			EndToEndId: pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random).String()})
	}
	deadLetter(t, b, "FF01", others...)
	deadLetter(t, b, "LQ07", &pixv1.PaymentOrder{EndToEndId: dead.String(), AmountCentavos: 77}, returned(deadReturn))
	deadLetter(t, b, "DUPL", &pixv1.PaymentOrder{EndToEndId: held.String(), AmountCentavos: 77}, returned(refused))

	payer, payee, bank := "Bearer "+r.of(t, "10000001"), "Bearer "+r.of(t, "10000002"),
		"Bearer "+r.of(t, "central-bank")
	for range 2 {
		for _, c := range []struct {
			as, path string
			code     int
			says     string // empty: nothing of the dead letter
		}{
			{payer, "/v1/payments/" + dead.String(), 404, "LQ07"}, {bank, "/v1/payments/" + dead.String(), 404, "LQ07"},
			{payee, "/v1/payments/" + dead.String(), 403, ""},
			{payer, "/v1/payments/" + held.String(), 200, "DUPL"}, {bank, "/v1/payments/" + held.String(), 200, "DUPL"},
			{payee, "/v1/payments/" + held.String(), 200, ""},
			{payee, "/v1/returns/" + deadReturn.String(), 404, "LQ07"},
			{payer, "/v1/returns/" + deadReturn.String(), 403, ""},
			{payee, "/v1/returns/" + refused.String(), 200, "DUPL"},
			{payer, "/v1/returns/" + refused.String(), 200, ""},
		} {
			kit.Await(t, fmt.Sprintf("%.20s %s: %d %s", c.as, c.path, c.code, c.says), func() (bool, string) {
				code, _, problem, text := p.as(c.as, "GET", c.path, "")
				var state query.PaymentState
				_ = json.Unmarshal([]byte(text), &state) // a problem has no dead letter
				tells := code == 404 && problem.Type == "urn:liquida:problem:dead-letter" && problem.Code == c.says &&
					strings.Contains(problem.Detail, "77 centavos") ||
					code == 200 && state.DeadLetter != nil && state.DeadLetter.ReasonCode == c.says &&
						state.DeadLetter.AmountCentavos == 77 && !state.DeadLetter.At.IsZero()
				// a time or an id may hold a 77
				shows := strings.Contains(text, `"amount_centavos":77`) || strings.Contains(text, "77 centavos")

				return code == c.code && tells == (c.says != "") && shows == tells && !strings.Contains(text, "secret"),
					fmt.Sprint(code, text)
			})
		}
		p.End(9)
		p = startProgram(t, b, l, "HTTP_KEYS_FILE="+r.digests)
		p.AwaitNeed("log", false)
	}
}

// What a client asks for in a header is done or refused.
func TestAHeaderIsAnsweredNotIgnored(t *testing.T) {
	t.Parallel()
	l, client := sharedLedger(t)
	openBooks(t, client, content)
	b := startBroker(t)
	p := startProgram(t, b, l, "WAIT_MAX=1s")
	p.AwaitNeed("log", false)
	back, _ := newReturn(t, pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random))

	giveBack := fmt.Sprintf(
		`{"return_id": %q, "original_end_to_end_id": %q, "amount_centavos": 40, "reason_code": "MD06"}`, back,
		pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random))
	for _, c := range []struct{ path, body, name, value string }{
		{"/v1/payments", valid, "Prefer", "wait"}, {"/v1/payments", valid, "Prefer", "wait=10s"},
		{"/v1/payments", valid, "Prefer", "return=minimal, wait=-1"}, {"/v1/returns", giveBack, "Prefer", "wait=soon"},
		{"/v1/payments", valid, "Idempotency-Key", "7"}, {"/v1/returns", giveBack, "Idempotency-Key", "7"},
		{batchPath, valid, "Idempotency-Key", "7"},
		{"/v1/payments", valid, "X-Idempotency-Key", "7"}, {"/v1/returns", giveBack, "X-Idempotency-Key", "7"},
		{batchPath, valid, "X-Idempotency", "7"},
	} {
		got, _ := p.post(c.path, c.body, c.name, c.value)
		if got.code != 400 || got.Type != "urn:liquida:problem:invalid-header" || got.Field != c.name ||
			!strings.Contains(c.value, strings.Trim(string(got.Value), `"`)) || got.Rule == "" ||
			!strings.Contains(got.Detail, "nothing was") {
			t.Errorf("%s %s: %s: %d %s", c.path, c.name, c.value, got.code, got.text)
		}
	}

	act := p.send(t.Context(), "PUT", "/v1/accounts/10000001/0001/777/acts/a", `{"act": "open"}`,
		"Idempotency-Key", "7")
	if act.StatusCode != 400 {
		t.Errorf("an act: %s", act.Status)
	}

	for path, body := range map[string]string{"/v1/payments": valid, "/v1/returns": giveBack, batchPath: valid} {
		for _, encoding := range []string{"gzip", "br", "identity, gzip"} {
			if got, _ := p.post(path, body, "Content-Encoding", encoding); got.code != 415 ||
				got.Field != "Content-Encoding" || string(got.Value) != `"`+encoding+`"` || got.Rule == "" ||
				!strings.Contains(got.Detail, "nothing was done") {
				t.Errorf("%s in %s: %d %s", path, encoding, got.code, got.text)
			}
		}
	}
	// The standard has servers ignore the preferences that they do not know.
	if got, header := p.post("/v1/payments", valid, "Prefer", "return=minimal, wait=100000000000000000000",
		"Content-Encoding", "Identity"); got.code != 202 || header.Get("Preference-Applied") != "wait=1" {
		t.Errorf("%d %s %v", got.code, got.text, header)
	}

	if records := published(t, b, 1); len(records) != 1 {
		t.Errorf("%d orders were sent", len(records))
	}
}

// A text that is not what its sender meant is refused, not changed: the record would say something else.
func TestATextIsWhatItsSenderMeant(t *testing.T) {
	t.Parallel()
	l, client := sharedLedger(t)
	openBooks(t, client, content)
	b := startBroker(t)
	p := startProgram(t, b, l)
	p.AwaitNeed("log", false)

	for _, text := range []string{"caf\xe9", `half \ud83d`, `\ude00\ud83d`, `a NUL \u0000`} {
		body := strings.Replace(valid, "{", `{"remittance_information": "`+text+`", `, 1)
		if got, _ := p.post("/v1/payments", body); got.code != 400 || got.Type != "urn:liquida:problem:malformed" ||
			got.Field != "remittance_information" || got.Rule == "" ||
			!strings.Contains(got.Detail, "line 1, column 28") {
			t.Errorf("%q: %d %s", text, got.code, got.text)
		}

		if got, _ := p.post(batchPath, body); got.code != 200 || !strings.Contains(got.text, `"status":400`) ||
			!strings.Contains(got.text, `"field":"remittance_information"`) {
			t.Errorf("%q in a batch: %d %s", text, got.code, got.text)
		}
	}

	if got, _ := p.post("/v1/payments",
		strings.Replace(valid, "{", `{"remittance_information": "café \ud83d\ude00", `, 1)); got.code != 202 {
		t.Errorf("a good text: %d %s", got.code, got.text)
	}
	records := published(t, b, 1)

	var order pixv1.PaymentOrder
	if err := order.UnmarshalVT(records[0].Value); err != nil || len(records) != 1 ||
		order.RemittanceInformation != "café 😀" {
		t.Errorf("%d orders were sent: %v %v", len(records), &order, err)
	}
}

// A query parameter that a route does not have is refused, and so is one that is empty or stands twice.
func TestAQueryParameterIsAnsweredNotIgnored(t *testing.T) {
	t.Parallel()
	l, client := sharedLedger(t)
	openBooks(t, client, content)
	b := startBroker(t)
	p := startProgram(t, b, l)
	p.AwaitNeed("log", false)

	for path, want := range map[string]struct{ field, says string }{
		"/v1/participants/10000001/statements/2026-01-02?formt=csv": {"formt", "format, until"},
		"/v1/participants/10000001/statements/2026-01-02?format=":   {"format", "empty"},
		"/v1/settlements?participant=10000001&form=start":           {"form", "participant, from"},
		"/v1/settlements?participant=10000001&Last-Event-ID=start":  {"Last-Event-ID", "participant, from"},
		"/v1/participants?cursor=":                                  {"cursor", "empty"},
		"/v1/participants?limit=1&limit=2":                          {"limit", "more than once"},
		"/v1/accounts/10000001/0001/1?%00=1":                        {"\x00", "no query parameter"},
		"/v1/accounts/10000001/0001/1/statement?limit=1;cursor=5":   {"query", "semicolon"},
		"/v1/accounts/10000001/0001/1/statement?cursor=%zz":         {"query", "%zz"},
		"/v1/payments/E1000000120260102120000000000001?wait=10":     {"wait", "no query parameter"},
	} {
		got := p.call("GET", path, "")
		if got.code != 422 || got.Field != want.field || got.Code != pix.ReasonMalformed.String() ||
			!strings.Contains(got.Rule+got.Detail, want.says) {
			t.Errorf("%s: %d %s", path, got.code, got.text)
		}
	}

	for _, path := range []string{"/v1/payments", batchPath} {
		if got, _ := p.post(path+"?dry_run=true", valid); got.code != 422 || got.Field != "dry_run" {
			t.Errorf("%s: %d %s", path, got.code, got.text)
		}
	}
	p.post("/v1/payments", valid)

	if records := published(t, b, 1); len(records) != 1 {
		t.Errorf("%d orders were sent", len(records))
	}
}

// Each response names its request, and a problem does so in its body, too.
func TestAResponseNamesItsRequest(t *testing.T) {
	t.Parallel()
	p := startProgram(t, startBroker(t), nil)
	p.AwaitNeed("kafka", false)
	seen := map[string]bool{}

	for _, c := range []struct{ path, id, want string }{
		{"/v1/nothing", "of-mine.7", "of-mine.7"}, {"/v1/payments/E1", "of-mine_8", "of-mine_8"},
		{"/openapi.json", "9", "9"},
		{"/v1/nothing", "", ""}, {"/v1/payments/E1", "two words", ""}, {"/openapi.json", strings.Repeat("x", 65), ""},
	} {
		response := p.send(t.Context(), "GET", c.path, "", "X-Request-Id", c.id)
		text, err := io.ReadAll(response.Body)

		got := response.Header.Get("X-Request-Id")
		if err != nil || got != c.want && c.want != "" || len(got) != 16 && c.want == "" || seen[got] {
			t.Errorf("%+v: %q", c, got)
		}

		if response.StatusCode != 200 && !strings.Contains(string(text), `"request_id":"`+got+`"`) {
			t.Errorf("%+v: the body does not name %s: %s", c, got, text)
		}
		seen[got] = true
	}
}

// The root leads people to the viewer, and programs to the description.
func TestTheRootLeadsSomewhere(t *testing.T) {
	t.Parallel()
	p := startProgram(t, startBroker(t), nil)
	p.AwaitNeed("kafka", false)
	var links map[string]string

	index := p.send(t.Context(), "GET", "/", "")
	if err := json.NewDecoder(index.Body).Decode(&links); err != nil || index.StatusCode != 200 ||
		index.Header.Get("Content-Type") != "application/json" || !strings.Contains(links["health"], "/readyz") {
		t.Fatalf("%s %v %v", index.Status, links, err)
	}

	for _, name := range []string{"documentation", "openapi"} {
		if got := p.send(t.Context(), "GET", links[name], ""); got.StatusCode != 200 {
			t.Errorf("%s: %s", links[name], got.Status)
		}
	}
	// the client follows
	people := p.send(t.Context(), "GET", "/", "", "Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")
	if text, err := io.ReadAll(people.Body); err != nil || people.StatusCode != 200 ||
		!strings.Contains(string(text), "swagger") {
		t.Errorf("%s %s %v", people.Status, text, err)
	}
}
