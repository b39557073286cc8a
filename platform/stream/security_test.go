package stream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/settings"
)

const password, guessed = "open-sesame", "let-me-in"

// startSecured serves TLS, and knows the user bank, who may write to the responses. It
// returns what bank needs to get in.
func startSecured(t *testing.T) (*kfake.Cluster, Config) {
	t.Helper()
	pair := httptest.NewTLSServer(nil) // for its certificate, which is good for 127.0.0.1
	pair.Close()

	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.TLS(pair.TLS),
		kfake.SeedTopics(1, Payments, AuthorizationResponses),
		kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("SCRAM-SHA-512", Admin, "all"),
		kfake.User("SCRAM-SHA-512", "bank", password, kfake.ACL{
			Resource: kmsg.ACLResourceTypeTopic, Name: AuthorizationResponses,
			Pattern:   kmsg.ACLResourcePatternTypeLiteral,
			Operation: kmsg.ACLOperationWrite, Allow: true,
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)

	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}

	return cluster, Config{Brokers: cluster.ListenAddrs(), TLS: true, TLSCAFile: authority, SASLUser: "bank",
		SASLPasswordFile: passwordFile(t, password)}
}

func passwordFile(t *testing.T, holds string) string {
	t.Helper()

	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(holds+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	return file
}

func connected(t *testing.T, config Config) *kgo.Client {
	t.Helper()

	client, err := Connect(config, host.System().Dial, "client", eyes(), kgo.UnknownTopicRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)

	return client
}

func TestWhoHasTheKeysGetsInAndMayDoWhatIsAllowed(t *testing.T) {
	_, config := startSecured(t)
	client := connected(t, config)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	if err := Reach(ctx, client); err != nil {
		t.Fatal(err)
	}

	if err := client.ProduceSync(ctx,
		&kgo.Record{Topic: AuthorizationResponses, Value: []byte("x")}).FirstErr(); err != nil {
		t.Errorf("what is allowed: %v", err)
	}

	if err := client.ProduceSync(ctx, &kgo.Record{Topic: Payments, Value: []byte("x")}).FirstErr(); !errors.Is(err,
		kerr.TopicAuthorizationFailed) {
		t.Errorf("what is not: got %v, want TOPIC_AUTHORIZATION_FAILED", err)
	}
}

func TestWhoHasNotIsToldWhy(t *testing.T) {
	cluster, right := startSecured(t)
	open := kit.StartBroker(t)

	const closed = "KAFKA_TLS, KAFKA_SASL_USER or its password is missing or wrong"
	for _, c := range []struct {
		what, says string
		change     func(*Config)
		answer     *kerr.Error // of a broker that says what is wrong; kfake does not
	}{
		{"another password", closed, func(c *Config) { c.SASLPasswordFile = passwordFile(t, guessed) }, nil},
		{"a user that is not there", closed, func(c *Config) { c.SASLUser = "nobody" }, nil},
		{"no user", closed, func(c *Config) { c.SASLUser, c.SASLPasswordFile = "", "" }, nil},
		{"no TLS", "no broker of KAFKA_BROKERS answers", func(c *Config) { c.TLS, c.TLSCAFile = false, "" }, nil},
		{"TLS, and the broker has none", "no broker of KAFKA_BROKERS answers", func(c *Config) {
			c.Brokers = []string{open.Address}
		}, nil},
		{"another authority", "KAFKA_TLS_CA_FILE must hold the authority", func(c *Config) { c.TLSCAFile = "" }, nil},
		{"a certificate for another name", "must name the addresses of KAFKA_BROKERS", func(c *Config) {
			_, port, _ := strings.Cut(c.Brokers[0], ":")
			c.Brokers = []string{"localhost:" + port}
		}, nil},
		{"another password, as Kafka and Redpanda answer", "the password in KAFKA_SASL_PASSWORD_FILE is wrong",
			func(c *Config) {
				c.SASLPasswordFile = passwordFile(t, guessed)
			}, kerr.SaslAuthenticationFailed},
	} {
		t.Run(c.what, func(t *testing.T) {
			if c.answer != nil {
				cluster.ControlKey(int16(kmsg.SASLAuthenticate),
					func(request kmsg.Request) (kmsg.Response, error, bool) {
						cluster.KeepControl()
						response := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
						response.ErrorCode = c.answer.Code

						return response, nil, true
					})
			}
			config := right
			c.change(&config)

			if err := config.Validate(); err != nil {
				t.Fatal(err)
			}
			eyes := eyes()

			client, err := Connect(config, host.System().Dial, "client", eyes)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			eyes.Health.Need(KafkaNeed)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				Watch(ctx, client, eyes, Watched{Topics: []string{AuthorizationResponses}})
				close(ended)
			}()
			defer func() { cancel(); <-ended }()

			said := ""
			for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(
				20 * time.Millisecond) {
				if said = eyes.Health.Problems()[KafkaNeed]; strings.Contains(said, c.says) {
					break
				}
			}

			if !strings.Contains(said, c.says) {
				t.Errorf("it says %q, want %q in it", said, c.says)
			}

			for _, secret := range []string{password, guessed} {
				if strings.Contains(said, secret) {
					t.Errorf("it tells a password: %q", said)
				}
			}
		})
	}
}

func TestABrokerMayAskForACertificateToo(t *testing.T) {
	pair := httptest.NewTLSServer(nil)
	pair.Close()
	asking := pair.TLS.Clone()
	asking.ClientAuth = tls.RequireAnyClientCert

	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.TLS(asking))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()

	key, err := x509.MarshalPKCS8PrivateKey(pair.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}

	certificateFile, keyFile := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	if err := errors.Join(
		os.WriteFile(certificateFile,
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate().Raw}), 0o600),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	config := Config{Brokers: cluster.ListenAddrs(), TLS: true, TLSCAFile: certificateFile}
	if err := Reach(ctx, connected(t, config)); err == nil {
		t.Error("the broker accepts a client without a certificate: the test proves nothing")
	}

	config.TLSCertFile, config.TLSKeyFile = certificateFile, keyFile
	if err := Reach(ctx, connected(t, config)); err != nil {
		t.Error(err)
	}
}

// A new password needs no restart.
func TestANewPasswordIsReadForTheNextConnection(t *testing.T) {
	_, config := startSecured(t)
	right := config.SASLPasswordFile
	config.SASLPasswordFile = passwordFile(t, "not yet")
	client := connected(t, config)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	if err := Reach(ctx, client); err == nil {
		t.Fatal("it got in with a wrong password")
	}

	if err := os.Rename(right, config.SASLPasswordFile); err != nil {
		t.Fatal(err)
	}

	if err := Reach(ctx, client); err != nil {
		t.Error(err)
	}
}

func TestSecurityErrorsNameTheVariable(t *testing.T) {
	_, right := startSecured(t)
	folder := t.TempDir()

	nothing := filepath.Join(folder, "nothing")
	for _, c := range []struct {
		change func(*Config)
		says   string
	}{
		{func(c *Config) { c.TLS = false }, "but KAFKA_TLS is false: set KAFKA_TLS=true"},
		{func(c *Config) { c.TLSCAFile = nothing }, "KAFKA_TLS_CA_FILE: open " + nothing},
		{func(c *Config) { c.TLSCAFile = c.SASLPasswordFile }, "holds no certificate in PEM"},
		{func(c *Config) { c.TLSCertFile = nothing }, `KAFKA_TLS_KEY_FILE "": give both or none`},
		{func(c *Config) { c.TLSCertFile, c.TLSKeyFile = nothing, nothing }, "KAFKA_TLS_CERT_FILE " + nothing},
		{func(c *Config) { c.SASLUser = "" }, `KAFKA_SASL_USER is "" and KAFKA_SASL_PASSWORD_FILE`},
		{func(c *Config) { c.SASLPasswordFile = "" }, `KAFKA_SASL_PASSWORD_FILE "": give both or none`},
		{func(c *Config) { c.SASLPasswordFile = nothing }, "KAFKA_SASL_PASSWORD_FILE: stat " + nothing},
		{func(c *Config) { c.SASLPasswordFile = passwordFile(t, "") }, "must hold one line, the password"},
	} {
		config := right
		c.change(&config)

		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("got %v, want %s", err, c.says)
		}
	}
	t.Setenv("KAFKA_TLS", "true")
	t.Setenv("KAFKA_TLS_CA_FILE", right.TLSCAFile)
	t.Setenv("KAFKA_SASL_USER", right.SASLUser)
	t.Setenv("KAFKA_SASL_PASSWORD_FILE", right.SASLPasswordFile)
	t.Setenv("KAFKA_BROKERS", right.Brokers[0])

	var config Config
	if err := settings.Parse(&config); err != nil {
		t.Fatal(err)
	}

	if err := Reach(t.Context(), connected(t, config)); err != nil {
		t.Errorf("by the environment: %v", err)
	}
}
