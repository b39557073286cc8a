package ledgerfacts

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// scene is what the words of a fact are about.
type scene struct {
	t *testing.T
	*payment
	payee pix.Account // as it was at first
}

func newScene(t *testing.T) *scene {
	p := newPayment(t)
	return &scene{t, p, p.content.Payee}
}

// do does what one sentence says.
func (s *scene) do(sentence string) {
	s.t.Helper()
	w := strings.Fields(sentence)

	switch {
	case len(w) == 3 && w[1] == "is":
		if is := s.read(w[0]); is != w[2] {
			s.t.Errorf("it is %s", is)
		}
	case len(w) == 3 && w[1] == "becomes":
		kit.Await(s.t, sentence, func() (bool, string) { is := s.read(w[0]); return is == w[2], is })
	case !s.change(w):
		expect(s.t, s.chain(w), w[len(w)-1])
	}
}

// expect sends a chain and compares the answer: the status, its place in the chain, and the code that stands there.
func expect(t *testing.T, chain []tb.Transfer, answer string) {
	t.Helper()
	got := shared.write(t, chain)

	is := strings.TrimPrefix(got.Status.String(), "Transfer")
	if got.Index > 0 {
		is += fmt.Sprintf("@%d", got.Index)
	}

	if is != answer || !got.OK() && got.Code != chain[got.Index].Code {
		t.Errorf("the answer is %s, code %d, want %s", is, got.Code, answer)
	}
}

// chain returns what a word sends.
func (s *scene) chain(w []string) []tb.Transfer {
	switch w[0] {
	case "hold":
		return s.reserve()
	case "post":
		return s.post()
	case "void":
		return s.void(pix.MustReason(w[1]))
	case "receipt":
		return s.receipt(pix.MustReason(w[1]))
	case "stray-receipt":
		return ledger.AppendReceipt(nil, s.id, s.content, pix.MustReason(w[1]), false)
	}
	s.t.Fatalf("%q is no word", w[0])

	return nil
}

// change does what a word changes; false: it is a word for what is sent.
func (s *scene) change(w []string) bool {
	payer := s.content.Payer

	switch w[0] {
	case "amount":
		n, err := strconv.ParseUint(w[1], 10, 64)
		kit.Must(s.t, err)

		s.content.AmountCentavos = n
	case "short-timeout":
		s.timeout = shortTimeout
	case "payee":
		s.content.Payee = s.someone(w[1], s.content.Payee.ISPB)
	case "payer":
		s.content.Payer = s.someone(w[1], payer.ISPB)
		s.id = newID(s.t, s.content.Payer.ISPB)
	case "spend": // all that the payer has
		kit.Must(s.t, fund(ledger.CustomerAccount(payer), ledger.TransitAccount(payer.ISPB), deposit))
	case "fund-payer":
		kit.Must(s.t, fund(ledger.TransitAccount(payer.ISPB), ledger.CustomerAccount(payer), deposit))
	case "fund-reserve":
		kit.Must(s.t, fund(ledger.IssuanceAccount, ledger.ReserveAccount(payer.ISPB), deposit))
	case "open-payee":
		kit.Must(s.t, createAccounts(ledger.NewAccount(ledger.CustomerAccount(s.content.Payee))))
	default:
		return false
	}

	return true
}

// read returns what is so.
func (s *scene) read(what string) string {
	payer := ledger.CustomerAccount(s.content.Payer)

	switch what {
	case "money":
		return s.money(s.t)
	case "held":
		return fmt.Sprint(balancesOf(s.t, payer)[0].pending)
	case "content":
		return map[bool]string{true: "same", false: "other"}[shared.trace(s.t, s.id).SameContent(s.id, s.content)]
	case "verdict":
		verdict, decided := shared.trace(s.t, s.id).Verdict()

		if !decided {
			return "none"
		}

		return verdict.Reason.String()
	}
	s.t.Fatalf("%q is no word", what)

	return ""
}

// someone is a customer by a word; some are not in the ledger.
func (s *scene) someone(who string, psp pix.ISPB) pix.Account {
	switch who {
	case "first":
		return s.payee
	case "payer":
		return s.content.Payer
	case "another": // of the bank
		return newCustomer(s.t, psp, 0)
	case "near":
		return newCustomer(s.t, s.content.Payer.ISPB, 0)
	case "elsewhere":
		return newCustomer(s.t, newPSP(s.t, reserve), 0)
	case "poor":
		return newCustomer(s.t, newPSP(s.t, amount-1), deposit)
	case "missing":
		return noCustomer(psp)
	case "nowhere":
		return noCustomer("ZZZZZZZZ")
	}
	s.t.Fatalf("%q is nobody", who)

	return pix.Account{}
}
