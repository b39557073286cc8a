package bank

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/web"
)

// AccessConfig says who may change how the banks behave.
type AccessConfig struct {
	KeysFile string `env:"HTTP_KEYS_FILE" help:"digests of the central bank's keys, as for the producer; read at the start; empty: everyone may call, which needs a loopback HTTP_ADDRESS"`
}

// Validate names the variable that is wrong.
func (c AccessConfig) Validate(loopback bool) error {
	if c.KeysFile == "" && !loopback {
		return errors.New("HTTP_KEYS_FILE is empty and HTTP_ADDRESS is not on loopback: anyone could have payments accepted or rejected; give the file, or serve loopback only")
	}

	return nil
}

// restrict admits only the central bank, because how banks respond decides where money goes.
func (c AccessConfig) restrict(handler http.Handler) (http.Handler, error) {
	if c.KeysFile == "" {
		return handler, nil
	}

	known, err := keys.ReadCentralBankKeys(c.KeysFile)
	if err != nil {
		return nil, fmt.Errorf("HTTP_KEYS_FILE: %w", err)
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || !known.Known(strings.TrimSpace(key)) { // no response repeats a key
			(&web.Problem{Type: web.Kind("unknown-caller"), Title: "Unknown caller", Status: http.StatusUnauthorized,
				Field: "Authorization", Rule: "Bearer KEY",
				Detail: "no key, or none of " + keys.CentralBank +
					", who alone sees and changes how banks behave: nothing was done",
				Challenge: `Bearer realm="liquida"`}).Write(w)

			return
		}
		handler.ServeHTTP(w, r)
	}), nil
}
