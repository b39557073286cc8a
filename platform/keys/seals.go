package keys

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/liquida/liquida/platform/pix"
)

// SealHeader is the record header that holds the seal.
const SealHeader = "seal"

// Seals are the secrets with which banks seal their responses. A seal is the HMAC-SHA-256 of
// the record's value. So a writer to the topic can respond only for banks whose secret it
// has. Seals are not safe for concurrent use: they keep the hash states, which halves the cost.
type Seals map[pix.ISPB][]secret

// secret seals. The register knows it by its fingerprint.
type secret struct {
	mac         hash.Hash
	fingerprint Digest
}

// ReadSeals reads a file of lines "ISPB secret of 32 bytes in hex"; # begins a comment. The
// first secret of a bank makes its seals; a seal of any of them is genuine.
func ReadSeals(file string) (Seals, error) {
	seals := Seals{}

	return seals, readLines(file, "an ISPB and a secret, 64 hexadecimal digits",
		func(name string, value [secretBytes]byte) (int, error) {
			bank, err := pix.ParseISPB(name)
			if err != nil {
				return 0, errors.New("it must begin with an ISPB")
			}
			seals[bank] = append(seals[bank], secret{hmac.New(sha256.New, value[:]), digestOf(value[:])})

			return len(seals[bank]), nil
		})
}

// Fingerprints returns the fingerprints of a bank's secrets, that of the first one first.
func (s Seals) Fingerprints(bank pix.ISPB) []Digest {
	var all []Digest
	for _, secret := range s[bank] {
		all = append(all, secret.fingerprint)
	}

	return all
}

// Seal returns the seal of a bank's message, or nil if the bank has no secret here.
func (s Seals) Seal(bank pix.ISPB, message []byte) []byte {
	if len(s[bank]) == 0 {
		return nil
	}

	return sum(s[bank][0].mac, message, nil)
}

func sum(mac hash.Hash, message, into []byte) []byte {
	mac.Reset()
	mac.Write(message)
	return mac.Sum(into)
}

// Genuine reports whether the bank has sealed the message.
func (s Seals) Genuine(bank pix.ISPB, message, seal []byte) bool {
	_, genuine := s.SealedBy(bank, message, seal)
	return genuine
}

// SealedBy returns the fingerprint of the bank's secret that has sealed the message, and whether
// one has.
func (s Seals) SealedBy(bank pix.ISPB, message, seal []byte) (Digest, bool) {
	var room [sha256.Size]byte
	for i := range s[bank] {
		if secret := &s[bank][i]; hmac.Equal(sum(secret.mac, message, room[:0]), seal) {
			return secret.fingerprint, true
		}
	}

	return Digest{}, false
}

const sealsHeading = "# Secrets with which banks seal their answers: ISPB HMAC-SHA-256 key in hex.\n"

// MakeSeals writes a file with a secret for each bank. Secrets in an existing file stay.
func MakeSeals(file string, banks []pix.ISPB) error {
	return changeSeals(file, func(known Seals, lines []string) ([]string, error) {
		for _, bank := range banks {
			if known[bank] == nil {
				lines = append(lines, newSealLine(bank))
			}
		}

		return lines, nil
	})
}

// AddSeal adds a secret of a bank behind those that it has: responses sealed with it are genuine
// once the file is read again, and it makes seals once it is the first (PreferNewSeal).
func AddSeal(file string, bank pix.ISPB) error {
	return changeSeals(file, func(known Seals, lines []string) ([]string, error) {
		if len(known[bank]) >= perHolderMax {
			return nil, fmt.Errorf("%s has %d secrets of %s: remove those that are not used", file, perHolderMax, bank)
		}

		return append(lines, newSealLine(bank)), nil
	})
}

// PreferNewSeal moves the last secret of a bank before its others, so that it makes seals.
func PreferNewSeal(file string, bank pix.ISPB) error {
	return changeSeals(file, func(_ Seals, lines []string) ([]string, error) {
		of := func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), string(bank)) }

		first := slices.IndexFunc(lines, of)
		if first < 0 {
			return lines, nil
		}

		last := len(lines) - 1
		for !of(lines[last]) {
			last--
		}
		line := lines[last]

		return slices.Insert(slices.Delete(lines, last, last+1), first, line), nil
	})
}

func newSealLine(bank pix.ISPB) string { return string(bank) + " " + newSecret() }

// changeSeals writes a file of secrets anew, if something changes. Whoever reads it meanwhile, or
// after the process was killed, reads the old file or the new one. Of several at once each makes its
// change: they wait for each other.
func changeSeals(file string, change func(known Seals, lines []string) ([]string, error)) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}

	lock, err := os.OpenFile(file+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // which frees it, as the end of the process does

	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("%s.lock: %w", file, err)
	}
	text, err := readSmall(file)
	known := Seals{}

	switch {
	case errors.Is(err, fs.ErrNotExist):
		text = []byte(sealsHeading)
	case err != nil:
		return err
	default:
		if known, err = ReadSeals(file); err != nil {
			return err
		}
	}
	before := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")

	lines, err := change(known, slices.Clone(before))
	if err != nil || slices.Equal(lines, before) {
		return err
	}

	return write(file, []byte(strings.Join(lines, "\n")+"\n"), os.Rename)
}
