package keys

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/liquida/liquida/platform/pix"
)

// SealHeader is the record header that holds the seal.
const SealHeader = "seal"

// Seals are the secrets with which banks seal their responses. A seal is the HMAC-SHA-256 of
// the record's value. So a writer to the topic can respond only for banks whose secret it
// has. Seals are not safe for concurrent use: they keep the hash states, which halves the cost.
type Seals map[pix.ISPB][]hash.Hash

// ReadSeals reads a file of lines "ISPB secret of 32 bytes in hex"; # begins a comment. The
// first secret of a bank makes its seals; a seal of any of them is genuine.
func ReadSeals(file string) (Seals, error) {
	seals := Seals{}
	return seals, readLines(file, "an ISPB and a secret, 64 hexadecimal digits", func(name string, secret [secretBytes]byte) (int, error) {
		bank, err := pix.ParseISPB(name)
		if err != nil {
			return 0, errors.New("it must begin with an ISPB")
		}
		seals[bank] = append(seals[bank], hmac.New(sha256.New, secret[:]))
		return len(seals[bank]), nil
	})
}

// Seal returns the seal of a bank's message, or nil if the bank has no secret here.
func (s Seals) Seal(bank pix.ISPB, message []byte) []byte {
	if len(s[bank]) == 0 {
		return nil
	}
	return sum(s[bank][0], message, nil)
}

func sum(mac hash.Hash, message, into []byte) []byte {
	mac.Reset()
	mac.Write(message)
	return mac.Sum(into)
}

// Genuine reports whether the bank has sealed the message.
func (s Seals) Genuine(bank pix.ISPB, message, seal []byte) bool {
	var room [sha256.Size]byte
	for _, mac := range s[bank] {
		if hmac.Equal(sum(mac, message, room[:0]), seal) {
			return true
		}
	}
	return false
}

// MakeSeals writes a file with a secret for each bank. Secrets in an existing file stay.
func MakeSeals(file string, banks []pix.ISPB) error {
	text, err := readSmall(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	missing := errors.Is(err, fs.ErrNotExist)
	known := Seals{}
	if !missing {
		if known, err = ReadSeals(file); err != nil {
			return err
		}
	}
	all := bytes.NewBuffer(text)
	if missing {
		all.WriteString("# Secrets with which banks seal their answers: ISPB HMAC-SHA-256 key in hex.\n")
	}
	if n := len(text); n > 0 && text[n-1] != '\n' {
		all.WriteByte('\n') // otherwise the first new secret would spoil the last line
	}
	before := all.Len()
	for _, bank := range banks {
		if known[bank] == nil {
			fmt.Fprintf(all, "%s %s\n", bank, newSecret())
		}
	}
	if all.Len() == before {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if missing {
		return writeNew(file, all.Bytes())
	}
	return write(file, all.Bytes(), os.Rename)
}
