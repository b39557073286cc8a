package audit

import (
	"strings"
	"testing"
	"time"

	pixv1 "github.com/liquida/liquida/proto/pix/v1"

	"github.com/liquida/liquida/loadtest/audit/source"
)

// ask adds the question that an engine asks about an order.
func (h *history) ask(o *pixv1.PaymentOrder, change ...func(*pixv1.AuthorizationRequest, *source.Record)) {
	message := &pixv1.AuthorizationRequest{EndToEndId: o.EndToEndId, Payer: o.Payer, Payee: o.Payee,
		AmountCentavos: o.AmountCentavos}
	h.addQuestion(message, o.EndToEndId, change)
}

func (h *history) addQuestion(message *pixv1.AuthorizationRequest, key string,
	change []func(*pixv1.AuthorizationRequest, *source.Record)) {
	r := source.Record{Offset: int64(len(h.questions)), Time: h.now, Key: []byte(key)}
	for _, c := range change {
		c(message, &r)
	}

	var err error
	if r.Value, err = message.MarshalVT(); err != nil {
		h.t.Fatal(err)
	}
	h.questions = append(h.questions, r)
}

// ask adds the question about a return.
func (g *giver) ask(change ...func(*pixv1.AuthorizationRequest, *source.Record)) {
	o := &pixv1.PaymentOrder{EndToEndId: g.content.Original.String(), Payer: accountMessage(g.payment.Payer),
		Payee: accountMessage(g.payment.Payee)}
	g.h.addQuestion(&pixv1.AuthorizationRequest{
		EndToEndId: g.id.String(), OriginalEndToEndId: o.EndToEndId, Payer: o.Payee, Payee: o.Payer,
		AmountCentavos: g.content.AmountCentavos,
	}, o.EndToEndId, change)
}

func (h *history) askAbout(orders ...int) {
	for _, order := range orders {
		h.ask(h.message(order))
	}
}

func TestEachBankWasAskedAboutItsPayment(t *testing.T) {
	h := clean(t)
	h.askAbout(settledOrder, sameBankOrder, voidedOrder, expiredOrder)
	h.ask(h.message(settledOrder))  // at a redelivery
	h.ask(h.message(conflictOrder)) // which may hold money beside a receipt

	if s := h.finds("asked", "", 0).Summary; s.Requests != 6 {
		t.Errorf("%+v", s)
	}
	h.questions = append(h.questions, source.Record{Value: []byte{0xff}})
	h.finds("bytes that are no request", WrongQuestion, 1)
}

// A question about a payment or a return must be about just that.
func TestABankWasAskedAboutSomethingElse(t *testing.T) {
	for name, change := range map[string]func(*pixv1.AuthorizationRequest, *source.Record){
		"another amount": func(m *pixv1.AuthorizationRequest, _ *source.Record) { m.AmountCentavos += 2 },
		"another branch": func(m *pixv1.AuthorizationRequest, _ *source.Record) { m.Payer.Branch = "0002" },
		"exchanged": func(m *pixv1.AuthorizationRequest, _ *source.Record) {
			m.Payer, m.Payee = m.Payee, m.Payer
		},
		"no payer":         func(m *pixv1.AuthorizationRequest, _ *source.Record) { m.Payer = nil },
		"another original": func(m *pixv1.AuthorizationRequest, _ *source.Record) { m.OriginalEndToEndId += "0" },
		"a payment nobody made": func(m *pixv1.AuthorizationRequest, _ *source.Record) {
			m.EndToEndId = "E10000001202605040302000000000AB"
		},
		"a key of another": func(_ *pixv1.AuthorizationRequest, r *source.Record) { r.Key = r.Key[:31] },
		"another partition": func(m *pixv1.AuthorizationRequest, r *source.Record) {
			r.Partition, m.ReplyPartition = 2, 2
		},
		"another reply partition": func(m *pixv1.AuthorizationRequest, _ *source.Record) { m.ReplyPartition = 1 },
	} {
		h := withReturns(t)
		h.askAbout(settledOrder, sameBankOrder, voidedOrder, expiredOrder)
		h.settled.ask()
		h.voided.ask()
		h.sameBank.ask()
		h.finds("asked", "", 0)
		h.ask(h.message(settledOrder), change)
		h.settled.ask(change)
		h.finds(name, WrongQuestion, 2)
	}
}

// The topic keeps requests for a time. What is older is not blamed.
func TestABankWasNotAsked(t *testing.T) {
	for _, c := range []struct {
		cut    bool
		oldest time.Duration // of the request that is left, since the payments
		found  int
	}{{false, 0, 1}, {true, 0, 0}, {true, -2 * answersMargin, 1}} {
		h := clean(t)
		h.stamp()
		h.askAbout(sameBankOrder, voidedOrder, expiredOrder)

		if c.cut {
			h.cutAsked = reach{0: time.Time{}}
		}
		h.questions[0].Time = h.now.Add(c.oldest)
		verdict := h.finds(c, WrongQuestion, c.found)
		// None of the payments is blamed, and the verdict says so.
		if gone := 1 - c.found; verdict.Summary.NotChecked[requestsGone] != gone ||
			strings.Contains(verdict.String(), "1 requests that are gone") != (gone == 1) {
			t.Errorf("%+v: %d are gone: %v", c, verdict.Summary.NotChecked[requestsGone], verdict)
		}
	}
}
