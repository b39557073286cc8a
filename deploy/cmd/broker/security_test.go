package main

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/stream"
)

// securityOf returns the environment of a secured broker, and how its admin connects.
func securityOf(t *testing.T, b *broker) (env []string, admin stream.Config) {
	t.Helper()
	folder := t.TempDir()
	pair := httptest.NewTLSServer(nil) // its certificate is valid for 127.0.0.1
	pair.Close()
	key, err := x509.MarshalPKCS8PrivateKey(pair.TLS.Certificates[0].PrivateKey)
	kit.Must(t, err)
	certificate, password := filepath.Join(folder, "broker.pem"), filepath.Join(folder, "password")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate().Raw})
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	kit.Must(t, errors.Join(os.WriteFile(certificate, text, 0o600), keys.MakePassword(password)))

	return []string{"BROKER_ADMIN_PASSWORD_FILE=" + password, "BROKER_TLS_CERT_FILE=" + certificate},
		stream.Config{Brokers: []string{b.address}, TLS: true, TLSCAFile: certificate, SASLUser: stream.Admin,
			SASLPasswordFile: password}
}

// Users and ACLs survive SIGKILL, as all data does.
func TestSecuritySurvives(t *testing.T) {
	b := newBroker(t)
	env, admin := securityOf(t, b)
	b.env = env
	b.start(b.as(admin))
	password := filepath.Join(t.TempDir(), "password")
	kit.Must(t, keys.MakePassword(password))
	secret, err := keys.ReadPassword(password)
	kit.Must(t, err)
	client := kadm.NewClient(b.as(admin))
	created, err := client.CreateTopics(t.Context(), 1, 1, nil, "payments", "settlements")
	kit.Must(t, errors.Join(err, created.Error()))
	made, err := client.AlterUserSCRAMs(t.Context(), nil,
		[]kadm.UpsertSCRAM{{User: "producer", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: secret}})
	kit.Must(t, errors.Join(err, made.Error()))
	kit.Must(t, kit.ErrorOf(
		client.CreateACLs(t.Context(),
			kadm.NewACLs().Allow("User:producer").Topics("payments").Operations(kadm.OpWrite))))

	b.End(syscall.SIGKILL)
	b.start(b.as(admin))
	user := admin
	user.SASLUser, user.SASLPasswordFile = "producer", password

	producer := b.as(user)
	for topic, want := range map[string]error{"payments": nil, "settlements": kerr.TopicAuthorizationFailed} {
		if err := producer.ProduceSync(t.Context(),
			&kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr(); !errors.Is(err, want) {
			t.Errorf("writing to %s: got %v, want %v", topic, err, want)
		}
	}
	// The folder holds what is enough to log in.
	if about, err := os.Stat(b.dir); err != nil || about.Mode().Perm() != 0o700 {
		t.Errorf("the data: %v, %v", about.Mode(), err)
	}
}

// as returns a client of a secured broker.
func (b *broker) as(config stream.Config) *kgo.Client {
	b.t.Helper()
	options, err := config.Options()
	kit.Must(b.t, err)

	return b.client(options...)
}
