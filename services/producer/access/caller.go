package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
)

// Caller is who sends a request.
type Caller struct {
	Holder  string        // an ISPB or the central bank; empty where nobody needs a key or certificate
	address string        // where it calls from
	limiter *rate.Limiter // nil: no limit
	key     *begun        // nil: not by a key
}

// Name is whose share of what there is the caller uses: its own, or where nobody needs a key
// or certificate that of its address.
func (c Caller) Name() string { return cmp.Or(c.Holder, c.address) }

// TakeTurn counts a request, or a line of a batch, against the caller's rate.
func (c Caller) TakeTurn() *web.Problem {
	if c.limiter == nil || c.limiter.Allow() {
		return nil
	}

	return &web.Problem{Type: web.Kind("too-often"), Title: "Too often", Status: http.StatusTooManyRequests,
		RetryAfter: time.Second,
		Rule: fmt.Sprintf("at most %v requests and lines of batches a second (CALLER_RATE_MAX), %d at once (CALLER_BURST_MAX)",
			c.limiter.Limit(), c.limiter.Burst()),
		Detail: c.Holder + " calls too often: nothing was done, send it again after a pause"}
}

// Ended returns a problem once the key of the caller is in use no more, or nobody knows if it is.
func (c Caller) Ended() *web.Problem {
	if c.key == nil || c.key.ctx.Err() == nil {
		return nil
	}

	return unknown("invalid_token", "the key was revoked, or the register cannot be read: send one that is in use")
}

// Done closes when the caller's key is in use no more, or nobody knows if it is. A request that waits gives up then
// with ErrEnded: its response must come before lastWrite is over.
func (c Caller) Done() <-chan struct{} {
	if c.key == nil {
		return nil
	}

	return c.key.ctx.Done()
}

// ErrEnded is why a request waits no longer.
var ErrEnded = errors.New("the request was ended: its key is in use no more, or the register cannot be read")

// Outlasting returns a context for an act that may end the caller's own key. It goes on for half of lastWrite after
// that, so that the act is still answered.
func (c Caller) Outlasting(ctx context.Context) (outlasting context.Context, done func()) {
	outlasting, end := context.WithCancel(context.WithoutCancel(ctx))
	if c.key == nil {
		return outlasting, end
	}
	stop := context.AfterFunc(c.key.ctx, func() { time.AfterFunc(lastWrite/2, end) })

	return outlasting, func() { stop(); end() }
}

func (c Caller) seesAll() bool { return c.Holder == "" || c.Holder == keys.CentralBank }

// ReadsOf returns nil if the caller may read what belongs to a participant. field is where
// the request names it.
func (c Caller) ReadsOf(field, psp string) *web.Problem {
	if c.seesAll() || c.Holder == psp {
		return nil
	}

	return c.Deny(field, psp, "a participant reads only what is its own")
}

// ReadsPayment returns nil if the caller may read a payment: participants read those that
// they pay or receive. payee is empty where the ledger does not know it. The response is the
// same whether or not there is such a payment.
func (c Caller) ReadsPayment(id pix.EndToEndID, payee string) *web.Problem {
	if c.PaysOf(id) || payee != "" && c.Holder == payee {
		return nil
	}
	problem := c.Deny("end_to_end_id", id.String(),
		"a participant reads only payments that it pays, and those that it receives once the ledger holds money for them")
	problem.EndToEndID = id.String()

	return problem
}

// PaysOf reports whether the id alone lets the caller read a payment, whatever its payee.
func (c Caller) PaysOf(id pix.EndToEndID) bool { return c.seesAll() || c.Holder == string(id.Payer()) }

// ReadsReturn returns nil if the caller may read a return: participants read those that they
// make and, where the ledger knows it, those of payments that they have paid. payee and
// original are empty where the ledger does not know them.
func (c Caller) ReadsReturn(id pix.ReturnID, payee, original string) *web.Problem {
	if c.seesAll() || c.Holder == string(id.PSP()) || payee != "" && c.Holder == payee ||
		strings.HasPrefix(original, "E"+c.Holder) {
		return nil
	}

	return c.Deny("return_id", id.String(),
		"a participant reads only returns that it makes, and those of payments that it has paid once the ledger holds money for them or has decided them")
}

// Pays returns nil if the caller may send a payment from a customer of payer. The central
// bank reads everything and owns no customer's account.
func (c Caller) Pays(payer, endToEndID string) *web.Problem {
	if c.Holder == "" || c.Holder == payer {
		return nil
	}
	problem := c.Deny("payer.ispb", payer, "a participant pays only from accounts of its own customers")
	problem.EndToEndID = endToEndID

	return problem
}

// GivesBack returns nil if the caller may send a return with this id.
func (c Caller) GivesBack(id pix.ReturnID) *web.Problem {
	if c.Holder == "" || c.Holder == string(id.PSP()) {
		return nil
	}

	return c.Deny("return_id", id.String(), "a participant gives back only what its own customers received")
}

// Received returns nil if the caller received the original of a return. payee is empty where
// the ledger does not know it. The response is the same whether or not there is such a payment.
func (c Caller) Received(original, payee string) *web.Problem {
	if c.Holder == "" || payee != "" && c.Holder == payee {
		return nil
	}

	return c.Deny("original_end_to_end_id", original,
		"a participant gives back only payments that its own customers received, once the ledger holds money for them")
}

// Deny is the response to a caller that may not do what it asks for.
func (c Caller) Deny(field, value, rule string) *web.Problem {
	return &web.Problem{Type: web.Kind("not-yours"), Title: "Not yours", Status: http.StatusForbidden, Field: field,
		Value: value, Rule: rule,
		Detail: fmt.Sprintf("%s is %s and the caller is %s: nothing was done; %s", field, value, c.Holder, rule)}
}

// Permission decides whether a caller may use a route. It returns nil for yes.
type Permission func(Caller, *http.Request) *web.Problem

// DecidedInside permits the route. Its handler decides, because only the body or the ledger
// says whose data it is.
func DecidedInside(Caller, *http.Request) *web.Problem { return nil }

// OwnPath permits what belongs to the participant in the path.
func OwnPath(c Caller, r *http.Request) *web.Problem { return c.ReadsOf("ispb", r.PathValue("ispb")) }

// OwnParticipant permits what belongs to the participant in the query. A request that names
// none is not forbidden: its handler says that the field is missing.
func OwnParticipant(c Caller, r *http.Request) *web.Problem {
	participant := r.URL.Query().Get("participant")
	if participant == "" {
		return nil
	}

	return c.ReadsOf("participant", participant)
}

// ActsOnParticipant permits the central bank, and the participant itself, which may do some acts: ActsAs.
func ActsOnParticipant(c Caller, r *http.Request) *web.Problem {
	if psp := r.PathValue("ispb"); !c.seesAll() && c.Holder != psp {
		return c.Deny("ispb", psp, "only the central bank acts on other participants")
	}

	return nil
}

// ActsAs returns who does an act on a participant: the central bank, or the participant, which does
// only what is about its own keys.
func (c Caller) ActsAs(act string, ofKey bool) (holder string, problem *web.Problem) {
	if c.seesAll() {
		return keys.CentralBank, nil
	}

	if !ofKey {
		return "", c.Deny("act", act,
			"a participant names and revokes its own keys; the central bank does all other acts on participants")
	}

	return c.Holder, nil
}

// OwnQuestions permits what is between the clearing house and a bank alone. The central bank answers for nobody.
func OwnQuestions(c Caller, r *http.Request) *web.Problem {
	if psp := r.PathValue("ispb"); c.Holder != "" && c.Holder != psp {
		return c.Deny("ispb", psp, "a participant is asked about its own customers only, and answers for itself")
	}

	return nil
}

// OwnAccounts permits acts on the accounts of the caller's own customers. The central bank owns
// no customer's account.
func OwnAccounts(c Caller, r *http.Request) *web.Problem {
	if psp := r.PathValue("ispb"); c.Holder != "" && c.Holder != psp {
		return c.Deny("ispb", psp, "a participant acts only on accounts of its own customers")
	}

	return nil
}

// CentralBankOnly permits what is about all participants.
func CentralBankOnly(c Caller, r *http.Request) *web.Problem {
	if c.seesAll() {
		return nil
	}

	return c.Deny("path", r.URL.Path, "only the central bank reads what is about all participants")
}

type callerKey struct{}

// With returns the request with its caller.
func With(r *http.Request, c Caller) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, c))
}

// Serve serves the request of a caller. If its key ends, the request's context does, and its
// response soon after, whether or not somebody reads it.
func (c Caller) Serve(handler http.HandlerFunc, w http.ResponseWriter, r *http.Request) {
	if c.key == nil {
		handler(w, With(r, c))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	served, stopped := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(c.key.ctx, func() {
		defer close(stopped)
		cancel()

		control, deadline := http.NewResponseController(w), time.Now().Add(lastWrite)
		for {
			_ = control.SetWriteDeadline(deadline) // again and again: a handler that has not noticed sets its own

			select {
			case <-served:
				return
			case <-time.After(lastWrite / 4):
			}
		}
	})
	defer func() {
		if !stop() { // nothing touches the connection once it may serve another request
			close(served)
			<-stopped
		}
	}()
	handler(w, With(r.WithContext(ctx), c))
}

// Of returns the caller of a request.
func Of(r *http.Request) Caller { return From(r.Context()) }

// From returns the caller of a request by its context.
func From(ctx context.Context) Caller {
	return ctx.Value(callerKey{}).(Caller) // every request reaches its handler through With
}
