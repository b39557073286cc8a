package stack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/liquida/liquida/deploy/kafka"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/stream"
)

// With Config.KafkaSecured clients talk TLS to the broker. Each logs in as its user of
// stream.Accesses, with least-privilege ACLs.

// secretsFolder holds the broker's certificate and the passwords of all users.
func (s *Stack) secretsFolder() string { return filepath.Join(s.config().Dir, "kafka-keys") }

func (s *Stack) authorityFile() string { return filepath.Join(s.secretsFolder(), kafka.AuthorityFile) }

func (s *Stack) certificateFile() string {
	return filepath.Join(s.secretsFolder(), kafka.CertificateFile)
}

func (s *Stack) passwordFile(user string) string {
	return keys.PasswordFile(s.secretsFolder(), user)
}

// makeSecrets makes the certificate and the password of the admin, which the broker needs at its
// start. Bootstrap logs in as the admin and creates the other users.
func (s *Stack) makeSecrets() error {
	return errors.Join(makeCertificate(s.authorityFile(), s.certificateFile()),
		keys.MakePassword(s.passwordFile(stream.Admin)))
}

// Kafka returns how to reach the broker as its admin.
func (s *Stack) Kafka() stream.Config { return s.kafkaAs(stream.Admin, s.KafkaAddress()) }

func (s *Stack) kafkaAs(user, brokers string) stream.Config {
	config := stream.Config{Brokers: strings.Split(brokers, ",")}
	if s.config().KafkaSecured {
		config.TLS, config.TLSCAFile = true, s.authorityFile()
		config.SASLUser, config.SASLPasswordFile = user, s.passwordFile(user)
	}

	return config
}

// kafkaEnvironment returns the Kafka settings of a program that logs in as user. It sets all of
// them, because the caller's own environment may name another Kafka.
func (s *Stack) kafkaEnvironment(user, brokers string) []string {
	config := s.kafkaAs(user, brokers)

	return []string{
		"KAFKA_BROKERS=" + brokers,
		"KAFKA_TLS=" + strconv.FormatBool(config.TLS), "KAFKA_TLS_CA_FILE=" + config.TLSCAFile, "KAFKA_TLS_CERT_FILE=",
		"KAFKA_TLS_KEY_FILE=",
		"KAFKA_SASL_USER=" + config.SASLUser, "KAFKA_SASL_PASSWORD_FILE=" + config.SASLPasswordFile,
	}
}

// makeCertificate makes a certificate and key for a broker on this machine, both in one file, and a file of the
// certificate alone, unless they exist. It is its own authority.
func makeCertificate(authorityFile, certificateFile string) error {
	if _, err := os.Stat(certificateFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	began := time.Now().Add(-time.Hour) // in case the clock is set back
	broker := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: kafka.BrokerName},
		NotBefore: began, NotAfter: began.AddDate(10, 0, 0), // the data may stay that long
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		// Apache Kafka also talks to itself
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}

	signed, err := x509.CreateCertificate(rand.Reader, broker, broker, key.Public(), key)
	if err != nil {
		return err
	}

	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
	both := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), certificate...)
	unfinished := certificateFile + ".new"

	return errors.Join(
		os.MkdirAll(filepath.Dir(certificateFile), 0o700),
		os.WriteFile(authorityFile, certificate, 0o600),
		os.WriteFile(unfinished, both, 0o600),
		os.Rename(unfinished, certificateFile)) // last: if this file exists, the other does, too
}
