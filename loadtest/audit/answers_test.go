package audit

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"

	"github.com/liquida/liquida/loadtest/audit/source"
)

// sealed writes secrets as bootstrap does, and makes the audit of h check responses.
func sealed(t *testing.T, h *history) keys.Seals {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secrets")
	kit.Must(t, keys.MakeSeals(file, []pix.ISPB{"10000001", "10000002"}))
	seals, err := keys.ReadSeals(file)
	kit.Must(t, err)

	if h.secrets, err = ReadSecrets(file); err != nil {
		t.Fatal(err)
	}
	h.stamp()

	return seals
}

// says adds a response with the seal of a bank; "" accepts.
func (h *history) says(seals keys.Seals, sealedBy, bank, id, code string) {
	h.t.Helper()

	message := &pixv1.AuthorizationResponse{EndToEndId: id, Ispb: bank,
		Status: pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP}
	if code != "" {
		message.Status, message.ReasonCode = pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT, code
	}
	value, err := message.MarshalVT()
	kit.Must(h.t, err)
	h.answers = append(h.answers,
		source.Record{Offset: int64(len(h.answers)), Time: h.now, Value: value,
			Seal: seals.Seal(pix.ISPB(sealedBy), value)})
}

// allSay gives every outcome of the clean history the word of its payee's bank.
func (h *history) allSay(seals keys.Seals) {
	h.says(seals, "10000002", "10000002", h.message(settledOrder).EndToEndId, "")
	h.says(seals, "10000001", "10000001", h.message(sameBankOrder).EndToEndId, "")
	h.says(seals, "10000001", "10000001", h.message(voidedOrder).EndToEndId, "AC06")
}

func TestEveryOutcomeHasTheWordOfItsBank(t *testing.T) {
	h := clean(t)
	h.allSay(sealed(t, h))

	if s := h.finds("answered", "", 0).Summary; s.Answered != 3 || s.NotChecked[answersGone] != 0 {
		t.Errorf("%+v", s)
	}
}

func TestAnOutcomeThatOnlyAForgerGives(t *testing.T) {
	for _, c := range []struct {
		name  string
		order int // whose response is replaced
		say   func(h *history, seals keys.Seals, id string)
	}{
		{"settled without a response", settledOrder, func(*history, keys.Seals, string) {}},
		{"settled, the response has the seal of another bank", settledOrder, func(h *history, s keys.Seals, id string) {
			h.says(s, "10000001", "10000002", id, "")
		}},
		{"settled, the bank rejected", settledOrder, func(h *history, s keys.Seals, id string) {
			h.says(s, "10000002", "10000002", id, "AC06")
		}},
		{"rejected, the bank accepted", voidedOrder, func(h *history, s keys.Seals, id string) {
			h.says(s, "10000001", "10000001", id, "")
		}},
		{"rejected, the bank gave another reason", voidedOrder, func(h *history, s keys.Seals, id string) {
			h.says(s, "10000001", "10000001", id, "AC07")
		}},
	} {
		h := clean(t)
		seals := sealed(t, h)
		id := h.message(c.order).EndToEndId
		h.allSay(seals)
		h.answers = slices.DeleteFunc(h.answers, func(r source.Record) bool {
			return strings.Contains(string(r.Value), id)
		})
		c.say(h, seals, id)

		if verdict := h.finds(c.name, NoAnswer, 1); verdict.Findings[0].Subject != id {
			t.Errorf("%s: %+v", c.name, verdict.Findings)
		}
	}
}

// Engines keep LQ03 for a code that is not a bank's to give; older ones kept the code.
func TestACodeThatIsNotABanks(t *testing.T) {
	for _, kept := range []string{"LQ03", "AM04"} {
		h := clean(t)
		o := h.order(alice, bruno, 500)
		h.clear(o, kept, 1, 2, 3)
		seals := sealed(t, h)
		h.allSay(seals)
		h.says(seals, "10000002", "10000002", o.EndToEndId, "AM04")
		h.finds(kept, "", 0)
	}
}

// The topic keeps responses for a time. What is older is counted, not blamed.
func TestResponsesThatAreGone(t *testing.T) {
	for _, c := range []struct {
		oldest time.Duration // after the last outcome; 0: nothing is left
		gone   int
	}{{0, 3}, {-answersMargin, 3}, {-2 * answersMargin, 0}} {
		h := clean(t)
		seals := sealed(t, h)

		h.cut = reach{0: time.Time{}}
		if c.oldest != 0 {
			h.says(seals, "10000002", "10000002", h.message(settledOrder).EndToEndId, "BE17")
			h.answers[0].Time = time.Unix(0, int64(h.transfers[len(h.transfers)-1].Timestamp)).Add(c.oldest)
		}

		if verdict := h.audit(); verdict.Summary.NotChecked[answersGone] != c.gone ||
			verdict.ByKind[NoAnswer] != 3-c.gone {
			t.Errorf("the oldest %v after the last outcome: %+v %+v", c.oldest, verdict.Summary, verdict.Findings)
		}
	}
}
