package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/web"
)

// DoorConfig says how callers prove who they are.
type DoorConfig struct {
	KeysFile     string `env:"HTTP_KEYS_FILE" help:"digests of the bearer keys with which participants call, lines of HOLDER and SHA-256 in hex; read at the start; empty: no keys"`
	CertFile     string `env:"HTTP_TLS_CERT_FILE" help:"this server's certificate chain, PEM; empty: plain HTTP"`
	KeyFile      string `env:"HTTP_TLS_KEY_FILE" help:"the private key of HTTP_TLS_CERT_FILE, PEM"`
	RateMax      int    `env:"CALLER_RATE_MAX" envDefault:"5000" help:"requests, and lines of batches, a second of each participant, 1 to 1000000; past it the answer is 429"`
	BurstMax     int    `env:"CALLER_BURST_MAX" envDefault:"10000" help:"requests and lines that a participant that was silent may send at once, 1 to 1000000"`
	ClientCAFile string `env:"HTTP_TLS_CLIENT_CA_FILE" help:"authorities, PEM, whose client certificates name participants; empty: no certificates. Without keys and certificates everyone may do everything, which is refused unless HTTP_ADDRESS is on loopback"`
}

// Validate names the variable that is wrong.
func (c DoorConfig) Validate(loopback bool) error {
	switch {
	case (c.CertFile == "") != (c.KeyFile == ""):
		return fmt.Errorf("HTTP_TLS_CERT_FILE is %q and HTTP_TLS_KEY_FILE %q: give both or none", c.CertFile, c.KeyFile)
	case c.ClientCAFile != "" && c.CertFile == "":
		return fmt.Errorf("HTTP_TLS_CLIENT_CA_FILE is %q without HTTP_TLS_CERT_FILE: client certificates need TLS", c.ClientCAFile)
	case c.KeysFile == "" && c.ClientCAFile == "" && !loopback:
		return errors.New("HTTP_KEYS_FILE and HTTP_TLS_CLIENT_CA_FILE are empty and HTTP_ADDRESS is not on loopback: anyone could pay from every account; give one of them")
	}
	return errors.Join(settings.InRange("CALLER_RATE_MAX", c.RateMax, 1, 1_000_000), settings.InRange("CALLER_BURST_MAX", c.BurstMax, 1, 1_000_000))
}

// door lets callers in who prove who they are.
type door struct {
	keys         keys.Digests // nil: no keys
	tls          *tls.Config  // nil: plain HTTP
	certificates bool
	rate         rate.Limit
	burst        int
	limiters     sync.Map // by holder, of whom there are as many as keys and certificates name
}

func newDoor(config DoorConfig) (*door, error) {
	d := &door{certificates: config.ClientCAFile != "", rate: rate.Limit(config.RateMax), burst: config.BurstMax}
	var err error
	if config.KeysFile != "" {
		if d.keys, err = keys.ReadDigests(config.KeysFile); err != nil {
			return nil, fmt.Errorf("HTTP_KEYS_FILE: %w", err)
		}
	}
	if config.CertFile == "" {
		return d, nil
	}
	own, err := tls.LoadX509KeyPair(config.CertFile, config.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("HTTP_TLS_CERT_FILE %s with HTTP_TLS_KEY_FILE %s: %w", config.CertFile, config.KeyFile, err)
	}
	d.tls = &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS13}
	if d.certificates {
		authorities, err := os.ReadFile(config.ClientCAFile)
		if err != nil {
			return nil, fmt.Errorf("HTTP_TLS_CLIENT_CA_FILE: %w", err)
		}
		d.tls.ClientCAs = x509.NewCertPool()
		if !d.tls.ClientCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("HTTP_TLS_CLIENT_CA_FILE %s holds no certificate in PEM", config.ClientCAFile)
		}
		d.tls.ClientAuth = tls.VerifyClientCertIfGiven // who gives none may have a key, or wants the description only
	}
	return d, nil
}

// caller is who asks: a participant or the central bank.
type caller struct {
	holder  string        // empty: everyone, on a door without locks
	limiter *rate.Limiter // nil there
}

// admit finds out who asks, and whether it asks too often.
func (d *door) admit(r *http.Request) (caller, *web.Problem) {
	who, problem := d.identify(r)
	if problem != nil || who.holder == "" {
		return who, problem
	}
	limiter, known := d.limiters.Load(who.holder)
	if !known {
		limiter, _ = d.limiters.LoadOrStore(who.holder, rate.NewLimiter(d.rate, d.burst))
	}
	who.limiter = limiter.(*rate.Limiter)
	return who, who.takesTurn()
}

// takesTurn counts a request, or a line of a batch, against the caller's limit.
func (c caller) takesTurn() *web.Problem {
	if c.limiter == nil || c.limiter.Allow() {
		return nil
	}
	return &web.Problem{Type: web.Kind("too-often"), Title: "Too often", Status: http.StatusTooManyRequests, RetryAfter: time.Second,
		Rule:   fmt.Sprintf("at most %v requests and lines of batches a second (CALLER_RATE_MAX), %d at once (CALLER_BURST_MAX)", c.limiter.Limit(), c.limiter.Burst()),
		Detail: c.holder + " asks more often than it may: nothing was done, send it again after a pause"}
}

func (d *door) identify(r *http.Request) (caller, *web.Problem) {
	if d.keys == nil && !d.certificates {
		return caller{}, nil
	}
	var who caller
	if d.certificates && len(r.TLS.PeerCertificates) > 0 {
		holder, problem := holderOf(r.TLS.PeerCertificates[0], time.Now())
		if problem != nil {
			return caller{}, problem
		}
		who.holder = holder
	}
	header := r.Header.Get("Authorization")
	if header == "" || d.keys == nil {
		if who.holder == "" {
			return caller{}, unknown("", "no key and no certificate: send Authorization: Bearer KEY, or call with a participant's certificate")
		}
		return who, nil
	}
	scheme, key, _ := strings.Cut(header, " ")
	holder, ok := d.keys.Holder(strings.TrimSpace(key))
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return caller{}, unknown("invalid_request", "Authorization must be Bearer KEY")
	case !ok:
		return caller{}, unknown("invalid_token", "the key is not known: send one that is in use")
	case who.holder != "" && who.holder != holder:
		return caller{}, unknown("invalid_token", "the key is not that of "+who.holder+", whom the certificate names: send one of them, or both of the same holder")
	}
	return caller{holder: holder}, nil
}

// certificateName begins the URI among a certificate's names that says whose it is.
const certificateName = "urn:liquida:"

// holderOf reads whom a verified certificate names. A connection may outlive it.
func holderOf(certificate *x509.Certificate, now time.Time) (string, *web.Problem) {
	if now.After(certificate.NotAfter) {
		return "", unknown("", "the certificate has expired at "+certificate.NotAfter.UTC().Format(time.RFC3339)+": connect with a new one")
	}
	for _, uri := range certificate.URIs {
		name, ours := strings.CutPrefix(uri.String(), certificateName)
		if !ours {
			continue
		}
		if name == keys.CentralBank {
			return name, nil
		}
		if text, participant := strings.CutPrefix(name, "participant:"); participant {
			if psp, err := pix.ParseISPB(text); err == nil {
				return string(psp), nil
			}
		}
	}
	return "", unknown("", "the certificate names no participant: it needs the URI "+certificateName+"participant:ISPB, or "+certificateName+keys.CentralBank+", among its subject alternative names")
}

// unknown is the answer to someone who does not prove who he is. It never repeats a key.
func unknown(code, detail string) *web.Problem {
	challenge := `Bearer realm="liquida"`
	if code != "" {
		challenge += fmt.Sprintf(`, error=%q`, code)
	}
	return &web.Problem{Type: web.Kind("unknown-caller"), Title: "Unknown caller", Status: http.StatusUnauthorized, Field: "Authorization",
		Rule: "Bearer KEY, or a client certificate", Detail: detail, Challenge: challenge}
}

// Who may do what. A route without one of these is the central bank's.
type permission func(caller, *http.Request) *web.Problem

// decidedInside is for what only the body or the ledger tells: the handler asks.
func decidedInside(caller, *http.Request) *web.Problem { return nil }

// ownPath lets read what belongs to the participant in the path.
func ownPath(who caller, r *http.Request) *web.Problem {
	return who.readsOfField("ispb", r.PathValue("ispb"))
}

// ownParticipant lets read what belongs to the participant in the query.
func ownParticipant(who caller, r *http.Request) *web.Problem {
	return who.readsOfField("participant", r.URL.Query().Get("participant"))
}

func centralBankOnly(who caller, r *http.Request) *web.Problem {
	if who.seesAll() {
		return nil
	}
	return forbidden("path", r.URL.Path, "only the central bank reads what is about all participants", who, "")
}

func (c caller) seesAll() bool { return c.holder == "" || c.holder == keys.CentralBank }

// readsOf tells why the caller may not read what belongs to a participant.
func (c caller) readsOf(psp pix.ISPB) *web.Problem { return c.readsOfField("ispb", string(psp)) }

func (c caller) readsOfField(field, psp string) *web.Problem {
	if c.seesAll() || c.holder == psp {
		return nil
	}
	return forbidden(field, psp, "a participant reads only what is its own", c, "")
}

// reads tells why the caller may not read a payment: participants read those that they pay
// or receive. The answer does not tell whether there is such a payment.
func (c caller) reads(state paymentState, id pix.EndToEndID) *web.Problem {
	if c.readsOf(id.Payer()) == nil || state.Payee != nil && c.holder == state.Payee.ISPB {
		return nil
	}
	return forbidden("end_to_end_id", id.String(), "a participant reads only payments that it pays, and those that it receives once the ledger holds money for them", c, id.String())
}

// pays tells why the caller may not send a payment. The central bank sees all and owns no
// customer's account.
func (c caller) pays(p *payment) *web.Problem {
	if c.holder == "" || c.holder == p.Payer.ISPB {
		return nil
	}
	return forbidden("payer.ispb", p.Payer.ISPB, "a participant pays only from accounts of its own customers", c, p.EndToEndID)
}

func forbidden(field, value, rule string, who caller, endToEndID string) *web.Problem {
	return &web.Problem{Type: web.Kind("not-yours"), Title: "Not yours", Status: http.StatusForbidden, Field: field, Value: value, Rule: rule,
		Detail: fmt.Sprintf("%s is %s and the caller is %s: nothing was done; %s", field, value, who.holder, rule), EndToEndID: endToEndID}
}

type callerKey struct{}

func withCaller(r *http.Request, who caller) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, who))
}

// callerOf is who asks, as the door has found out.
func callerOf(r *http.Request) caller {
	return r.Context().Value(callerKey{}).(caller) // no request reaches a handler without one
}
