package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
)

// Certificates are files in PEM. With its own certificate a client proves its participant
// (mutual TLS), with or without an API key.
type Certificates struct {
	Cert, Key string // this client's certificate chain and its private key; both or none
	CA        string // the authorities of the server's certificate; empty: those of the system
}

// UseCertificates sets the certificates. Call it before the first request.
func (c *Client) UseCertificates(files Certificates) error {
	if files == (Certificates{}) {
		return nil
	}

	if c.base.Scheme != "https" {
		return fmt.Errorf("the address of the API is %q: certificates need one that begins with https", c.base)
	}

	if (files.Cert == "") != (files.Key == "") {
		return fmt.Errorf("the certificate is %q and its private key %q: give both or none", files.Cert, files.Key)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13}

	if files.Cert != "" {
		own, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			return fmt.Errorf("the certificate %s with the private key %s: %w", files.Cert, files.Key, err)
		}
		config.Certificates = []tls.Certificate{own}
	}

	if files.CA != "" {
		authorities, err := os.ReadFile(files.CA)
		if err != nil {
			return fmt.Errorf("cannot read the authorities: %w", err)
		}

		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authorities) {
			return fmt.Errorf("%s holds no certificate in PEM", files.CA)
		}
	}
	c.http.Transport.(*http.Transport).TLSClientConfig = config

	return nil
}

// notTrusted reports whether client or server rejected the other's certificate. A retry would
// not help, and the server has read no request.
func notTrusted(err error) bool {
	alert, isAlert := errors.AsType[*net.OpError](err) // the type of its inner error is not exported
	return errors.As(err, new(*tls.CertificateVerificationError)) ||
		isAlert && alert.Op == "remote error" && strings.Contains(alert.Err.Error(), "certificate")
}
