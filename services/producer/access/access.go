// Package access knows who may do what: it identifies callers by key or certificate, limits
// how often each may call, and decides what each may read and send.
package access

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

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/platform/web"
)

// Config says how callers prove who they are.
type Config struct {
	KeysFile     string `env:"HTTP_KEYS_FILE" help:"digests of the central bank's keys, lines of central-bank and SHA-256 in hex, read again when it changes; participants' keys are in the register; empty: no keys"`
	CertFile     string `env:"HTTP_TLS_CERT_FILE" help:"certificate chain of this server, PEM; empty: plain HTTP"`
	KeyFile      string `env:"HTTP_TLS_KEY_FILE" help:"private key of HTTP_TLS_CERT_FILE, PEM"`
	RateMax      int    `env:"CALLER_RATE_MAX" envDefault:"5000" range:"1 to 1000000" help:"requests and lines of batches per second of each participant; above it 429"`
	BurstMax     int    `env:"CALLER_BURST_MAX" envDefault:"10000" range:"1 to 1000000" help:"requests and lines that a participant may send at once after a silence"`
	ClientCAFile string `env:"HTTP_TLS_CLIENT_CA_FILE" help:"authorities, PEM, of client certificates that name participants; empty: no certificates. Without keys and certificates everyone may do everything, which needs a loopback HTTP_ADDRESS"`
}

// Validate names the variable that is wrong. loopback reports whether only this machine can
// reach the server.
func (c Config) Validate(loopback bool) error {
	switch {
	case (c.CertFile == "") != (c.KeyFile == ""):
		return fmt.Errorf("HTTP_TLS_CERT_FILE is %q and HTTP_TLS_KEY_FILE %q: give both or none", c.CertFile, c.KeyFile)
	case c.ClientCAFile != "" && c.CertFile == "":
		return fmt.Errorf("HTTP_TLS_CLIENT_CA_FILE is %q without HTTP_TLS_CERT_FILE: client certificates need TLS",
			c.ClientCAFile)
	case c.KeysFile == "" && c.ClientCAFile == "" && !loopback:
		return errors.New("HTTP_KEYS_FILE and HTTP_TLS_CLIENT_CA_FILE are empty and HTTP_ADDRESS is not on loopback: anyone could pay from every account; give one of them")
	}

	return nil
}

// Control admits callers that prove who they are.
type Control struct {
	TLS          *tls.Config  // nil: plain HTTP
	keys         *credentials // nil: no keys
	certificates bool
	now          func() time.Time
	rate         rate.Limit
	burst        int
	limiters     sync.Map // by holder; there are as many as keys and certificates name
}

// New reads the files of the configuration. now is the wall clock, for certificates. The keys of banks
// are in the register.
func New(config Config, now func() time.Time, banks *register.Register) (*Control, error) {
	c := &Control{certificates: config.ClientCAFile != "", now: now, rate: rate.Limit(config.RateMax),
		burst: config.BurstMax}

	var err error
	if config.KeysFile != "" {
		if c.keys, err = newCredentials(config.KeysFile, banks); err != nil {
			return nil, fmt.Errorf("HTTP_KEYS_FILE: %w", err)
		}
	}

	if config.CertFile == "" {
		return c, nil
	}

	own, err := tls.LoadX509KeyPair(config.CertFile, config.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("HTTP_TLS_CERT_FILE %s with HTTP_TLS_KEY_FILE %s: %w", config.CertFile,
			config.KeyFile, err)
	}

	c.TLS = &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS13, Time: now}
	if c.certificates {
		authorities, err := os.ReadFile(config.ClientCAFile)
		if err != nil {
			return nil, fmt.Errorf("HTTP_TLS_CLIENT_CA_FILE: %w", err)
		}

		c.TLS.ClientCAs = x509.NewCertPool()
		if !c.TLS.ClientCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("HTTP_TLS_CLIENT_CA_FILE %s holds no certificate in PEM", config.ClientCAFile)
		}
		// a caller without one may have a key, or only read the description
		c.TLS.ClientAuth = tls.VerifyClientCertIfGiven
	}

	return c, nil
}

// Run ends what keys that are in use no more have begun, until ctx ends.
func (c *Control) Run(ctx context.Context, log *zap.Logger) {
	if c.keys != nil {
		c.keys.run(ctx, log)
	}
}

// Admit identifies the caller of a request and counts the request against the caller's rate.
func (c *Control) Admit(r *http.Request) (Caller, *web.Problem) {
	who, problem := c.identify(r)

	who.address = web.AddressOf(r.RemoteAddr)
	if problem != nil || who.Holder == "" {
		return who, problem
	}

	limiter, known := c.limiters.Load(who.Holder)
	if !known {
		limiter, _ = c.limiters.LoadOrStore(who.Holder, rate.NewLimiter(c.rate, c.burst))
	}
	who.limiter = limiter.(*rate.Limiter)

	return who, who.TakeTurn()
}

func (c *Control) identify(r *http.Request) (Caller, *web.Problem) {
	if c.keys == nil && !c.certificates {
		return Caller{}, nil
	}
	var who Caller

	if c.certificates && len(r.TLS.PeerCertificates) > 0 {
		holder, problem := holderOf(r.TLS.PeerCertificates[0], c.now())
		if problem != nil {
			return Caller{}, problem
		}
		who.Holder = holder
	}

	header := r.Header.Get("Authorization")
	if header == "" || c.keys == nil {
		if who.Holder == "" {
			return Caller{}, unknown("",
				"no key and no certificate: send Authorization: Bearer KEY, or call with a participant's certificate")
		}

		return who, nil
	}

	scheme, key, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return Caller{}, unknown("invalid_request", "Authorization must be Bearer KEY")
	}
	key = strings.TrimSpace(key)

	used, problem := c.keys.admit(key)
	if problem != nil {
		return Caller{}, problem
	}

	if holder := keys.HolderOf(key); who.Holder != "" && who.Holder != holder {
		return Caller{}, unknown("invalid_token",
			"the key is not that of "+who.Holder+", whom the certificate names: send one of them, or both of the same holder")
	}

	return Caller{Holder: keys.HolderOf(key), key: used}, nil
}

// CertificateName begins the URI in a certificate that names its holder.
const CertificateName = "urn:liquida:"

// holderOf returns the holder that a verified certificate names. It checks the expiry again,
// because a connection may outlive its certificate.
func holderOf(certificate *x509.Certificate, now time.Time) (string, *web.Problem) {
	if now.After(certificate.NotAfter) {
		return "", unknown("", "the certificate has expired at "+certificate.NotAfter.UTC().Format(
			time.RFC3339)+": connect with a new one")
	}

	for _, uri := range certificate.URIs {
		name, ours := strings.CutPrefix(uri.String(), CertificateName)
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

	return "", unknown("", "the certificate names no participant: it needs the URI "+CertificateName+"participant:ISPB, or "+CertificateName+keys.CentralBank+", among its subject alternative names")
}

// unknown is the response to a caller without proof of identity. It never repeats a key.
func unknown(code, detail string) *web.Problem {
	challenge := `Bearer realm="liquida"`
	if code != "" {
		challenge += fmt.Sprintf(`, error=%q`, code)
	}

	return &web.Problem{Type: web.Kind("unknown-caller"), Title: "Unknown caller", Status: http.StatusUnauthorized,
		Field: "Authorization",
		Rule:  "Bearer KEY, or a client certificate", Detail: detail, Challenge: challenge}
}
