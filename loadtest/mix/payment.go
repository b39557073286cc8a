package mix

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Payment is all that one entry of the schedule sends.
type Payment struct {
	Case Case
	// Name is the text of the EndToEndId field. It may be malformed.
	Name  string
	Payer pix.Account
	Payee pix.Account
	First Message
	// Second is sent right after the first, or, with AfterReport, after the first report. Its
	// Value is nil if there is none.
	Second      Message
	AfterReport bool
	// Returns are sent after the report that the payment settled. The same return may be in
	// it twice.
	Returns []Return
}

// ReturnsMax is the most messages for returns of one payment.
const ReturnsMax = 2

// Message is one record for pix.payments.
type Message struct {
	Key            string
	Value          []byte
	AmountCentavos uint64
}

// Return gives a payment back, or tries to.
type Return struct {
	ID             pix.ReturnID
	Original       string // an EndToEndId, or a text that is not one
	AmountCentavos uint64
	Reason         pix.Reason
	Ends           End
	// Racing says that the payment's returns exceed it together: one settles, the later ones
	// are rejected with AM09.
	Racing bool
}

// Message returns the message of the return, with its acceptance time.
func (r Return) Message(accepted time.Time) Message {
	value, err := (&pixv1.PaymentOrder{ReturnOrder: &pixv1.ReturnOrder{
		ReturnId: r.ID.String(), OriginalEndToEndId: r.Original, AmountCentavos: r.AmountCentavos,
		ReasonCode: r.Reason.String(), AcceptedAtUnixMs: accepted.UnixMilli(),
	}}).MarshalVT()
	if err != nil {
		panic(fmt.Sprintf("cannot encode %v: %v", r, err)) // ids and numbers
	}

	return Message{Key: r.Original, Value: value, AmountCentavos: r.AmountCentavos}
}

// Generator creates payments. It is not safe for concurrent use.
type Generator struct {
	population sandbox.Population
	random     *rand.Rand
	// unaffordable is more than all money.
	unaffordable uint64
}

// NewGenerator returns a generator whose choices depend on random alone.
func NewGenerator(population sandbox.Population, random *rand.Rand) *Generator {
	p := population
	return &Generator{p, random, uint64(p.Customers)*p.DepositCentavos + 3*uint64(p.Banks)*p.ReserveCentavos + 1}
}

// ordinaryAmountMaxCentavos is small, so that customers do not run out of money: a default
// deposit is a thousand times as much, and customers receive as often as they pay.
const ordinaryAmountMaxCentavos = 100_000

var unknownPSPs = []pix.ISPB{"99999999", "ZZUNKNWN"} // letters are allowed in an ISPB

// Payment returns a payment of a case with its acceptance time. Times must ascend: the
// ledger is faster with ordered EndToEndIds. A time of this process counts by the clock as it is
// now: a machine that rested, or whose clock was set, would send what is too old to settle.
func (g *Generator) Payment(c Case, at time.Time) Payment {
	now := time.Now()
	at = now.Add(at.Sub(now))

	if c == ReturnOfNothing || c == ReturnOfReturn {
		return g.lonelyReturn(c, at)
	}
	payer, payee := g.customers(c == SameBank)
	amount := g.amount()
	accepted, idTime, remittance := at, at, ""

	switch c {
	case Blocked, Closed, Silent, Late:
		branch := map[Case]string{Blocked: sandbox.BlockedBranch, Closed: sandbox.ClosedBranch,
			Silent: sandbox.SilentBranch, Late: sandbox.LateBranch}[c]
		payee = g.until(func() pix.Account {
			return g.special(branch)
		}, func(a pix.Account) bool { return a.ISPB != payer.ISPB })
	case Hottest:
		payee = g.population.Customer(0)
		payer = g.until(g.customer, func(a pix.Account) bool { return a.ISPB != payee.ISPB })
	case PayerShort:
		amount = g.unaffordable
	case ReserveShort:
		payer = g.special(sandbox.RichBranch)
		payee = g.until(g.customer, func(a pix.Account) bool { return a.ISPB != payer.ISPB })
		amount = g.population.ReserveCentavos + g.population.ReserveCentavos/2
	case PayeeMissing:
		payee = g.missing(payee)
	case PayerMissing:
		payer = g.missing(payer)
	case UnknownPayeePSP:
		payee.ISPB = g.unknownPSP()
	case UnknownPayerPSP:
		payer.ISPB = g.unknownPSP()
	case ZeroAmount:
		amount = 0
	case TooOld:
		accepted = at.Add(-11 * time.Hour)
		idTime = accepted
	case Future:
		accepted = at.Add(time.Hour)
	case Oversized:
		switch g.random.IntN(3) {
		case 0:
			remittance = strings.Repeat("x", pix.RemittanceInformationBytesMax+1+g.random.IntN(100_000))
		case 1:
			payee.Number = strings.Repeat("9", 21+g.random.IntN(1000))
		case 2:
			payer.Branch = "00011"
		}
	}
	id := pix.NewEndToEndID(payer.ISPB, idTime, g.random)

	order := pixv1.PaymentOrder{
		EndToEndId:            id.String(),
		Payer:                 AccountMessage(payer),
		Payee:                 AccountMessage(payee),
		AmountCentavos:        amount,
		AcceptedAtUnixMs:      accepted.UnixMilli(),
		RemittanceInformation: remittance,
	}
	if c == BadEndToEndID {
		g.spoil(&order)
	}

	payment := Payment{Case: c, Name: order.EndToEndId, Payer: payer, Payee: payee, First: encode(&order)}
	switch c {
	case Twice, Again:
		// Acceptance time and text are not part of the content.
		order.AcceptedAtUnixMs++
		order.RemittanceInformation = "sent again"
		payment.Second = encode(&order)
	case Conflict, ConflictAgain:
		order.AmountCentavos += 1 + g.random.Uint64N(1000)
		payment.Second = encode(&order)
	case Undecodable:
		payment.First.Value = g.garble(payment.First.Value)
	}
	payment.AfterReport = c == Again || c == ConflictAgain
	payment.Returns = g.returns(payment, at)

	return payment
}

// returns returns the returns of the payment's case.
func (g *Generator) returns(p Payment, at time.Time) []Return {
	paid, by := p.First.AmountCentavos, p.Payee.ISPB
	giveBack := func(centavos uint64, ends End, racing bool) Return {
		return Return{pix.NewReturnID(by, at, g.random), p.Name, centavos, g.returnReason(), ends, racing}
	}
	settles := End{Fate: Settled}

	switch p.Case {
	case Returned:
		whole := giveBack(paid, settles, false)
		return []Return{whole, whole}
	case ReturnedInParts:
		part := 1 + g.random.Uint64N(paid)
		if part == paid {
			return []Return{giveBack(paid, settles, false)}
		}

		return []Return{giveBack(part, settles, false), giveBack(paid-part, settles, false)}
	case ReturnsRace:
		more := func() uint64 { return paid/2 + 1 + g.random.Uint64N(paid-paid/2) } // than a half
		return []Return{giveBack(more(), settles, true), giveBack(more(), settles, true)}
	case ReturnTooMuch:
		return []Return{giveBack(paid+1+g.random.Uint64N(paid), End{Rejected, pix.ReasonReturnExceeds}, false)}
	case ReturnByStranger:
		if by = p.Payer.ISPB; g.random.IntN(2) == 0 {
			by = unknownPSPs[0]
		}

		return []Return{giveBack(1+g.random.Uint64N(paid), End{Rejected, pix.ReasonNotThePayee}, false)}
	}

	return nil
}

// lonelyReturn returns a return without a payment.
func (g *Generator) lonelyReturn(c Case, at time.Time) Payment {
	payer, payee := g.customers(false)

	original := pix.NewEndToEndID(payer.ISPB, at, g.random).String()
	switch {
	case c == ReturnOfReturn:
		original = pix.NewReturnID(payer.ISPB, at, g.random).String()
	case g.random.IntN(2) == 0:
		original = pix.NewEndToEndID(g.unknownPSP(), at, g.random).String()
	}
	r := Return{pix.NewReturnID(payee.ISPB, at, g.random), original, g.amount(), g.returnReason(),
		c.Expectation().End, false}

	return Payment{Case: c, Name: r.ID.String(), First: r.Message(at)}
}

func (g *Generator) returnReason() pix.Reason {
	return pix.ReturnReasons[g.random.IntN(len(pix.ReturnReasons))]
}

// customers picks an ordinary payer and another ordinary payee, inside one bank or not.
func (g *Generator) customers(sameBank bool) (payer, payee pix.Account) {
	payer = g.customer()

	return payer, g.until(g.customer, func(a pix.Account) bool {
		return (a.ISPB == payer.ISPB) == sameBank && a != payer
	})
}

// until picks accounts until one is right.
func (g *Generator) until(pick func() pix.Account, isRight func(pix.Account) bool) pix.Account {
	for {
		if account := pick(); isRight(account) {
			return account
		}
	}
}

func (g *Generator) customer() pix.Account {
	return g.population.Customer(g.random.IntN(g.population.Customers))
}

func (g *Generator) special(branch string) pix.Account {
	return g.population.Special(g.random.IntN(g.population.Banks), branch)
}

func (g *Generator) missing(account pix.Account) pix.Account {
	account.Number = fmt.Sprint(1_000_000_000 + g.random.Int64N(1_000_000_000))
	return account
}

func (g *Generator) unknownPSP() pix.ISPB {
	return unknownPSPs[g.random.IntN(len(unknownPSPs))]
}

func (g *Generator) amount() uint64 { return 1 + g.random.Uint64N(ordinaryAmountMaxCentavos) }

// spoil makes the EndToEndId of the order wrong, in a random way.
func (g *Generator) spoil(order *pixv1.PaymentOrder) {
	id, way := order.EndToEndId, g.random.IntN(8)

	order.EndToEndId = []string{
		"", id[:31], id + "0", "D" + id[1:], id[:31] + "_",
		id[:13] + "13" + id[15:],                 // there is no month 13
		id[:1] + string(unknownPSPs[0]) + id[9:], // not the payer's PSP
		id,                                       // accepted at another time
	}[way]
	if way == 7 {
		order.AcceptedAtUnixMs -= (13 * time.Hour).Milliseconds() // too far apart
	}
}

// garble returns bytes that cannot be a message.
func (g *Generator) garble(message []byte) []byte {
	switch g.random.IntN(4) {
	case 0:
		return message[:len(message)-1] // cut inside the last field
	case 1:
		return append(message, 0x07) // field 0, with a wire type that does not exist
	case 2:
		return []byte(`{"endToEndId":"this is JSON"}`)
	}

	noise := bytes.Repeat([]byte{0xff}, 16+g.random.IntN(100_000))
	for i := 10; i < len(noise); i++ {
		noise[i] = byte(g.random.Uint32())
	}

	return noise // it begins with a number of more than 64 bits
}

func encode(order *pixv1.PaymentOrder) Message {
	value, err := order.MarshalVT()
	if err != nil {
		panic(fmt.Sprintf("cannot encode %v: %v", order, err)) // only invalid UTF-8 could fail, and there is none
	}

	return Message{Key: order.EndToEndId, Value: value, AmountCentavos: order.AmountCentavos}
}

// AccountMessage is an account in a message.
func AccountMessage(account pix.Account) *pixv1.Account {
	return &pixv1.Account{Ispb: string(account.ISPB), Branch: account.Branch, Number: account.Number}
}
