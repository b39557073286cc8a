package act

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/query"
)

// ParticipantAct is the body of PUT /v1/participants/{ispb}/acts/{actId}.
type ParticipantAct struct {
	Act            string  `json:"act" required:"true" enum:"register,suspend,resume,liquidity-in,liquidity-out,payment-cap,day-cap,night-cap,name-key,revoke-key,name-seal,revoke-seal"`
	AmountCentavos uint64  `json:"amount_centavos,omitempty" required:"false" maximum:"1000000000000000" doc:"Of liquidity-in and liquidity-out: at least 1."`
	CapCentavos    *uint64 `json:"cap_centavos,omitempty" required:"false" nullable:"false" maximum:"1000000000000000" doc:"Of the caps. 0 lifts the cap."`
	WindowSeconds  uint64  `json:"window_seconds,omitempty" required:"false" doc:"Of day-cap and night-cap: how long a payment counts, 120 to 86400. Left out when the cap is lifted."`
	Digest         string  `json:"digest,omitempty" required:"false" pattern:"^([0-9a-f]{48})?$" doc:"Of a key or a seal: the first 48 hexadecimal digits of its SHA-256."`
}

// ParticipantActDone is the response: the act, and the participant as it is now.
type ParticipantActDone struct {
	Act         query.Act         `json:"act"`
	Participant query.Participant `json:"participant"`
}

// participantActs are the acts on a participant.
var participantActs = []ledger.ActKind{ledger.Joined, ledger.Suspended, ledger.Resumed, ledger.LiquidityIn,
	ledger.LiquidityOut,
	ledger.PaymentCapped, ledger.DayCapped, ledger.NightCapped, ledger.KeyNamed, ledger.KeyRevoked, ledger.SealNamed,
	ledger.SealRevoked}

const (
	amountRule = "an integer from 1 to 1000000000000000 (10^15)"
	capRule    = "an integer from 0, which lifts the cap, to 1000000000000000 (10^15)"
	windowRule = "an integer from 120 to 86400"
	digestRule = "48 hexadecimal digits in lower case, not all 0: the first 192 bits of the SHA-256 of a key, or of a seal's secret"
)

// OnParticipant answers PUT /v1/participants/{ispb}/acts/{actId}.
func (a *Acts) OnParticipant(r *http.Request) (done ParticipantActDone, problem *web.Problem) {
	var body ParticipantAct

	id, problem := a.receive(r, &body)
	if problem != nil {
		return done, problem
	}
	q := request{id: id}

	ofKey := body.Act == query.ActNames[ledger.KeyNamed] || body.Act == query.ActNames[ledger.KeyRevoked]
	if q.holder, problem = access.Of(r).ActsAs(body.Act, ofKey); problem != nil {
		return done, problem
	}

	q.act.ByCentralBank = q.holder == keys.CentralBank
	if q.act.Bank, problem = query.ISPBOf(r); problem != nil {
		return done, problem
	}

	if problem = body.fill(&q.act); problem != nil {
		return done, problem
	}

	if q.act.Kind == ledger.Joined {
		q.creates = accountsOfParticipant(q)
	}

	ctx, over := access.Of(r).Outlasting(query.Paying(r.Context())) // who revokes the own key is answered, too
	defer over()

	if done.Act, problem = a.do(ctx, q); problem != nil {
		return done, problem
	}

	if problem = a.ledger.Reach(ctx, done.Act.At); problem == nil {
		done.Participant, problem = a.ledger.ParticipantNow(ctx, q.act.Bank)
	}

	return done, unknownFate(q, problem)
}

// accountsOfParticipant returns the accounts of a bank that joins.
func accountsOfParticipant(q request) []tb.Account {
	psp := q.act.Bank
	books := ledger.NewAccount(ledger.BooksAccount(psp))
	books.UserData128 = q.record()

	accounts := []tb.Account{books}
	for _, id := range []tb.Uint128{ledger.ReserveAccount(psp), ledger.TransitAccount(psp),
		ledger.AllowanceAccount(psp, ledger.Day), ledger.AllowanceAccount(psp, ledger.Night)} {
		accounts = append(accounts, ledger.NewAccount(id))
	}

	return accounts
}

// fill sets what the body says of an act, or says what is wrong with it.
func (b *ParticipantAct) fill(act *ledger.Act) (problem *web.Problem) {
	if act.Kind, problem = kindOf(b.Act, participantActs); problem != nil {
		return problem
	}

	outflow := act.Kind == ledger.DayCapped || act.Kind == ledger.NightCapped
	switch {
	case !act.Kind.MovesMoney() && b.AmountCentavos != 0:
		return invalid("amount_centavos", b.AmountCentavos, "left out: "+b.Act+" moves no money")
	case !act.Kind.Caps() && b.CapCentavos != nil:
		return invalid("cap_centavos", *b.CapCentavos, "left out: "+b.Act+" sets no cap")
	case !outflow && b.WindowSeconds != 0:
		return invalid("window_seconds", b.WindowSeconds, "left out: "+b.Act+" has no window")
	case !act.Kind.HasDigest() && b.Digest != "":
		return invalid("digest", b.Digest, "left out: "+b.Act+" is not about a key or a seal")
	case act.Kind.HasDigest():
		return setDigest(act, b.Digest)
	case act.Kind.MovesMoney():
		return setAmount(act, b.AmountCentavos)
	case !act.Kind.Caps():
		return nil
	case b.CapCentavos == nil:
		return invalid("cap_centavos", nil, capRule)
	case *b.CapCentavos > ledger.ActCentavosMax:
		return invalid("cap_centavos", *b.CapCentavos, capRule)
	}
	act.Centavos = int64(*b.CapCentavos)

	if !outflow {
		return nil
	}

	if act.Centavos == 0 && b.WindowSeconds == 0 {
		b.WindowSeconds = ledger.WindowSecondsMin
	}

	if b.WindowSeconds < ledger.WindowSecondsMin || b.WindowSeconds > ledger.WindowSecondsMax {
		return invalid("window_seconds", b.WindowSeconds, windowRule)
	}
	act.WindowSeconds = uint32(b.WindowSeconds)

	return nil
}

// setAmount sets what an act moves.
func setAmount(act *ledger.Act, centavos uint64) *web.Problem {
	if centavos < 1 || centavos > ledger.ActCentavosMax {
		return invalid("amount_centavos", centavos, amountRule)
	}
	act.Centavos = int64(centavos)

	return nil
}

// setDigest sets which key or seal an act is about.
func setDigest(act *ledger.Act, text string) *web.Problem {
	digest, err := hex.DecodeString(text)
	if err != nil || len(digest) != len(act.Digest) || strings.ToLower(text) != text ||
		bytes.Count(digest, []byte{0}) == len(digest) {
		return invalid("digest", text, digestRule)
	}
	act.Digest = ledger.ActDigest(digest)

	return nil
}

// digestRefused returns a problem if the register does not permit an act about a key or a seal: its bank
// has as many as it may have; nobody uses the key that it revokes, so the digest is wrong; or a
// suspended bank names a key, which would let a thief outrun the central bank.
func digestRefused(state *register.State, act ledger.Act) *web.Problem {
	refused := &web.Problem{Type: web.Kind("act-refused"), Status: http.StatusConflict, Field: "digest",
		Value: hex.EncodeToString(act.Digest[:])}

	bank, inUse := state.Participant(act.Bank), 0
	switch {
	case bank == nil: // a reading from before it joined
		return nil
	case act.Kind == ledger.KeyRevoked && !slices.Contains(bank.Keys, act.Digest):
		refused.Title, refused.Rule = "Not in use", "the digest of a key in use"
		refused.Detail = "nothing was done: " + string(act.Bank) + " has no key of this digest in use"
		return refused
	case act.Kind == ledger.KeyNamed && bank.Suspended && !act.ByCentralBank:
		refused.Title, refused.Rule = "Suspended", "the central bank names the keys of a suspended participant"
		refused.Detail = "nothing was done: " + string(act.Bank) + " is suspended"
		return refused
	case act.Kind == ledger.KeyNamed && !slices.Contains(bank.Keys, act.Digest):
		inUse = len(bank.Keys)
	case act.Kind == ledger.SealNamed:
		for _, seal := range bank.Seals {
			if !seal.Revoked && seal.Fingerprint != act.Digest {
				inUse++
			}
		}
	}

	if inUse < register.KeysMax {
		return nil
	}
	refused.Title, refused.Rule = "Too many in use",
		fmt.Sprintf("at most %d keys, and %[1]d seals, of a participant in use", register.KeysMax)
	refused.Detail = "nothing was done: revoke one that is not needed, then repeat this act"

	return refused
}
