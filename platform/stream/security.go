package stream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/keys"
)

// fetchWaitMax is how long the broker holds a fetch that finds nothing.
const fetchWaitMax = time.Second

// Patiently is for a client to which seldom partitions are added: the broker holds a fetch that finds nothing for five
// times as long, so that it costs less while nobody pays. A partition that is added then waits as long at most.
func Patiently() kgo.Opt { return kgo.FetchMaxWait(5 * fetchWaitMax) }

// Together makes a client begin with all partitions that it is about to get. Name all of its topics. Otherwise it may
// begin with one partition, and if that has no records, the others wait for the end of its fetch.
func Together(client *kgo.Client, topics ...string) {
	client.PauseFetchTopics(topics...)
	time.AfterFunc(together, func() { client.ResumeFetchTopics(topics...) })
}

// together is longer than a client takes to learn where the partitions begin. If it takes longer, some may wait.
const together = 20 * time.Millisecond

// metadataAge is how long a client may not know a partition that was added.
const metadataAge = 5 * time.Second

// Options are what every Kafka client needs: the brokers' addresses, TLS and credentials.
func (c Config) Options() ([]kgo.Opt, error) { return c.options(host.System().Dial) }

// Client makes a client for tools, which does not wait for a broker. Services use Connect.
func (c Config) Client(more ...kgo.Opt) (*kgo.Client, error) {
	return c.clientOn(host.System().Dial, more...)
}

func (c Config) clientOn(dial host.Dial, more ...kgo.Opt) (*kgo.Client, error) {
	options, err := c.options(dial)
	if err != nil {
		return nil, err
	}

	return kgo.NewClient(append(options, more...)...)
}

func (c Config) options(dial host.Dial) ([]kgo.Opt, error) {
	secured, err := c.tls()
	if err != nil {
		return nil, err
	}

	if _, err := c.password(); err != nil {
		return nil, err
	}

	options := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.WithDecompressor(newUnpacker(c.BatchMax(), true)),
		kgo.Dialer(dialer(dial, secured)),
		// A proxy whose broker is away closes connections at once. The client would take that
		// for a wrong configuration and fail its records.
		kgo.AlwaysRetryEOF(),
		// A client has one fetch at a time at a broker. A partition that is added meanwhile
		// waits for its end; at the start, that may be every partition that matters.
		kgo.FetchMaxWait(fetchWaitMax),
		// Partitions that are added are found soon: by default a client looks every 5 minutes.
		kgo.MetadataMaxAge(metadataAge), kgo.MetadataMinAge(time.Second),
		kgo.DisableClientMetrics(), // nobody reads what clients would tell the broker of themselves
	}
	if c.SASLUser != "" {
		options = append(options, kgo.SASL(scram.Sha512(func(context.Context) (scram.Auth, error) {
			password, err := c.password()
			return scram.Auth{User: c.SASLUser, Pass: password}, err
		})))
	}

	return slices.Clip(options), nil // two callers that append must not share the space behind it
}

const dialTimeout = 5 * time.Second

// dialer connects with dial, and over TLS unless secured is nil.
func dialer(dial host.Dial, secured *tls.Config) host.Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()

		plain, err := dial(ctx, network, address)
		if err != nil || secured == nil {
			return plain, err
		}

		config := secured.Clone()
		if config.ServerName, _, err = net.SplitHostPort(address); err != nil {
			return nil, errors.Join(err, plain.Close())
		}

		connection := tls.Client(plain, config)
		if err := connection.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, plain.Close())
		}

		return connection, nil
	}
}

// tls returns nil without TLS.
func (c Config) tls() (*tls.Config, error) {
	if !c.TLS {
		for _, file := range []struct{ variable, value string }{
			{"KAFKA_TLS_CA_FILE", c.TLSCAFile}, {"KAFKA_TLS_CERT_FILE", c.TLSCertFile},
			{"KAFKA_TLS_KEY_FILE", c.TLSKeyFile},
		} {
			if file.value != "" {
				return nil, fmt.Errorf("%s is %q, but KAFKA_TLS is false: set KAFKA_TLS=true, or leave it empty",
					file.variable, file.value)
			}
		}

		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}

	if c.TLSCAFile != "" {
		authorities, err := os.ReadFile(c.TLSCAFile)
		if err != nil {
			return nil, fmt.Errorf("KAFKA_TLS_CA_FILE: %w", err)
		}

		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("KAFKA_TLS_CA_FILE: %s holds no certificate in PEM", c.TLSCAFile)
		}
	}

	if (c.TLSCertFile == "") != (c.TLSKeyFile == "") {
		return nil, fmt.Errorf("KAFKA_TLS_CERT_FILE is %q and KAFKA_TLS_KEY_FILE %q: give both or none", c.TLSCertFile,
			c.TLSKeyFile)
	}

	if c.TLSCertFile != "" {
		certificate, err := tls.LoadX509KeyPair(c.TLSCertFile, c.TLSKeyFile)
		if err != nil {
			return nil, fmt.Errorf("KAFKA_TLS_CERT_FILE %s and KAFKA_TLS_KEY_FILE %s: %w", c.TLSCertFile,
				c.TLSKeyFile, err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}

	return config, nil
}

func (c Config) password() (string, error) {
	if (c.SASLUser == "") != (c.SASLPasswordFile == "") {
		return "", fmt.Errorf("KAFKA_SASL_USER is %q and KAFKA_SASL_PASSWORD_FILE %q: give both or none", c.SASLUser,
			c.SASLPasswordFile)
	}

	if c.SASLUser == "" {
		return "", nil
	}

	password, err := keys.ReadPassword(c.SASLPasswordFile)
	if err != nil {
		return "", fmt.Errorf("KAFKA_SASL_PASSWORD_FILE: %w", err)
	}

	return password, nil
}

// Reach returns nil if a broker answers, or why not. It tries once: the client itself retries
// forever and does not say why.
func Reach(ctx context.Context, client *kgo.Client) error { return unreached(client.Ping(ctx), false) }

// unreached says why no broker has answered. If one has before, the settings are right, and are not suspected.
func unreached(err error, before bool) error {
	var untrusted *tls.CertificateVerificationError
	var unencrypted tls.RecordHeaderError
	because := ""

	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		because = "KAFKA_SASL_USER or the password in KAFKA_SASL_PASSWORD_FILE is wrong, or bootstrap has not made the user yet"
	case errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		because = "KAFKA_SASL_USER is set, and the broker does not support SCRAM-SHA-512"
	case errors.As(err, &untrusted):
		because = "KAFKA_TLS_CA_FILE must hold the authority of the brokers' certificates, and these must name the addresses of KAFKA_BROKERS"
	case errors.As(err, &unencrypted):
		because = "KAFKA_TLS is true, and the broker does not use TLS"
	case before:
		return fmt.Errorf("no broker of KAFKA_BROKERS answers: %w", err)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		because = "a broker may end a connection like this where KAFKA_TLS, KAFKA_SASL_USER or its password is missing or wrong"
	default:
		return fmt.Errorf("no broker of KAFKA_BROKERS answers: %w", err)
	}

	return fmt.Errorf("no broker of KAFKA_BROKERS answers: %w; %s", err, because)
}
