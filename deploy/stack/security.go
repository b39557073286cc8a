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

func (s *Stack) authorityFile() string { return filepath.Join(s.secretsFolder(), "ca.pem") }

func (s *Stack) certificateFile() string { return filepath.Join(s.secretsFolder(), "broker.pem") }

func (s *Stack) passwordFile(user string) string {
	return keys.PasswordFile(s.secretsFolder(), user)
}

// makeSecrets makes the certificate and the password of the admin, which the broker needs at its
// start. Bootstrap logs in as the admin and creates the other users.
func (s *Stack) makeSecrets() error {
	return errors.Join(makeCertificate(s.authorityFile(), s.certificateFile()), keys.MakePassword(s.passwordFile(stream.Admin)))
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
		"KAFKA_TLS=" + strconv.FormatBool(config.TLS), "KAFKA_TLS_CA_FILE=" + config.TLSCAFile, "KAFKA_TLS_CERT_FILE=", "KAFKA_TLS_KEY_FILE=",
		"KAFKA_SASL_USER=" + config.SASLUser, "KAFKA_SASL_PASSWORD_FILE=" + config.SASLPasswordFile,
	}
}

// kafkaSecurity returns the security of Apache Kafka's node, or nil.
func (s *Stack) kafkaSecurity() *kafka.Security {
	if !s.config().KafkaSecured {
		return nil
	}
	return &kafka.Security{AuthorityFile: s.authorityFile(), CertificateFile: s.certificateFile(), Admin: stream.Admin, AdminPasswordFile: s.passwordFile(stream.Admin)}
}

// makeCertificate makes a certificate and key for a broker on this machine, both in one file, and
// the file of the authority that signed it, unless they exist. It does not keep the authority's
// key, so nobody can sign with it again.
func makeCertificate(authorityFile, certificateFile string) error {
	if _, err := os.Stat(certificateFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	brokerKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	began := time.Now().Add(-time.Hour) // in case the clock is set back
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "liquida local stack"},
		NotBefore: began, NotAfter: began.AddDate(10, 0, 0), // the data may stay that long
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	broker := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: kafka.BrokerName},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, // Apache Kafka also talks to itself
	}
	authorityCertificate, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return err
	}
	certificate, err := x509.CreateCertificate(rand.Reader, broker, authority, brokerKey.Public(), authorityKey)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(brokerKey)
	if err != nil {
		return err
	}
	block := func(kind string, bytes []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes})
	}
	if err := os.MkdirAll(filepath.Dir(certificateFile), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(authorityFile, block("CERTIFICATE", authorityCertificate), 0o600); err != nil {
		return err
	}
	// Written last: if this file exists, the authority's does, too.
	unfinished := certificateFile + ".new"
	if err := os.WriteFile(unfinished, append(block("PRIVATE KEY", key), block("CERTIFICATE", certificate)...), 0o600); err != nil {
		return err
	}
	return os.Rename(unfinished, certificateFile)
}
