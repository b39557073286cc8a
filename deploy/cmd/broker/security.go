package main

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/stream"
)

// security returns the options of a broker that asks for passwords or TLS.
func (c *configuration) security() ([]kfake.Opt, error) {
	var options []kfake.Opt
	if c.AdminPasswordFile != "" {
		password, err := keys.ReadPassword(c.AdminPasswordFile)
		if err != nil {
			return nil, fmt.Errorf("BROKER_ADMIN_PASSWORD_FILE: %w", err)
		}
		options = append(options, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("SCRAM-SHA-512", stream.Admin, password))
	}
	if (c.TLSCertFile == "") != (c.TLSKeyFile == "") {
		return nil, fmt.Errorf("BROKER_TLS_CERT_FILE is %q and BROKER_TLS_KEY_FILE %q: give both or none", c.TLSCertFile, c.TLSKeyFile)
	}
	if c.TLSCertFile != "" {
		certificate, err := tls.LoadX509KeyPair(c.TLSCertFile, c.TLSKeyFile)
		if err != nil {
			return nil, fmt.Errorf("BROKER_TLS_CERT_FILE %s and BROKER_TLS_KEY_FILE %s: %w", c.TLSCertFile, c.TLSKeyFile, err)
		}
		options = append(options, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}))
	}
	return options, nil
}

// checkSecurity returns an error if the data is of a secured broker and this one is not, or the other
// way round. kfake takes its users from existing data, so the first would be open to everybody and
// the second to nobody.
func checkSecurity(c *configuration) error {
	if c.AdminPasswordFile != "" { // what kfake stores of a password is enough to log in
		if err := os.Chmod(c.DataDir, 0o700); err != nil {
			return fmt.Errorf("BROKER_DATA_DIR: %w", err)
		}
	}
	text, err := os.ReadFile(filepath.Join(c.DataDir, "sasl.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no data yet
	}
	var users struct{ Scram512 map[string]json.RawMessage }
	if err == nil {
		err = json.Unmarshal(text, &users)
	}
	if err != nil {
		return fmt.Errorf("BROKER_DATA_DIR: cannot read its users: %w", err)
	}
	_, secured := users.Scram512[stream.Admin]
	switch {
	case secured && c.AdminPasswordFile == "":
		return fmt.Errorf("BROKER_DATA_DIR %s is of a secured broker and BROKER_ADMIN_PASSWORD_FILE is empty: name the file, or choose another folder", c.DataDir)
	case !secured && c.AdminPasswordFile != "":
		return fmt.Errorf("BROKER_DATA_DIR %s is of a broker that is not secured and BROKER_ADMIN_PASSWORD_FILE is %s: leave it empty, or choose another folder", c.DataDir, c.AdminPasswordFile)
	}
	return nil
}
