// Package keys makes and checks the bearer keys of the front door's callers, the secrets
// with which banks seal responses, and the passwords of Kafka's users. A checker of keys has
// only digests: those of the central bank's keys from a file, those of banks from the register.
// A plain hash is enough: a key has 256 random bits, so unlike a password it cannot be guessed.
package keys

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/liquida/liquida/platform/pix"
)

// CentralBank is the holder that is no participant. The others are named by their ISPB.
const CentralBank = "central-bank"

const (
	secretBytes = 32
	// perHolderMax leaves room for the old and the new key while one is replaced.
	perHolderMax = 8
	fileBytesMax = 1 << 20
)

// Digest is what the register holds of a key or a seal's secret: the first 192 bits of its SHA-256.
type Digest = [24]byte

// DigestOf returns the digest of a key.
func DigestOf(key string) Digest { return digestOf([]byte(key)) }

func digestOf(secret []byte) Digest {
	sum := sha256.Sum256(secret)
	return Digest(sum[:])
}

// OneOf reports whether a digest is one of those in use. The time shows how many there are, and
// nothing about them.
func OneOf[D ~[24]byte](in []D, of Digest) bool {
	found := 0
	for _, known := range in {
		found |= subtle.ConstantTimeCompare(known[:], of[:])
	}

	return found == 1
}

// HolderOf returns who a key says that it belongs to. It begins with that, so that a check compares
// few digests, and so that a digest that two banks have named is the key of one of them.
func HolderOf(key string) string {
	holder, _, _ := strings.Cut(key, ".")
	return holder
}

// New returns a new key of a holder.
func New(holder string) string { return holder + "." + newSecret() }

// newSecret returns 256 random bits in hex.
func newSecret() string {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails: it would end the process
	return hex.EncodeToString(secret)
}

// CentralBankKeys are the digests of the central bank's keys.
type CentralBankKeys []Digest

// ReadCentralBankKeys reads a file of lines "central-bank SHA-256 of the key in hex"; # begins a comment.
// The keys of banks are in the register.
func ReadCentralBankKeys(file string) (CentralBankKeys, error) {
	var digests CentralBankKeys
	err := readLines(file, CentralBank+" and the SHA-256 of its key, 64 hexadecimal digits",
		func(holder string, value [secretBytes]byte) (int, error) {
			if holder != CentralBank {
				return 0, errors.New("the holder must be " + CentralBank +
					": keys of participants are named in the register (liquida key name)")
			}
			digests = append(digests, Digest(value[:]))

			return len(digests), nil
		})

	return digests, err
}

// Known reports whether it is a key of the central bank.
func (k CentralBankKeys) Known(key string) bool {
	return HolderOf(key) == CentralBank && OneOf(k, DigestOf(key))
}

// readLines reads a file of lines "NAME 32 bytes in hex". take returns how many lines a name has.
// An error does not show the line, which may be a secret.
func readLines(file, what string, take func(name string, value [secretBytes]byte) (int, error)) error {
	text, err := readSmall(file)
	if err != nil {
		return err
	}
	some := false

	for number, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")

		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		some = true

		var value []byte
		if len(fields) == 2 {
			value, _ = hex.DecodeString(fields[1])
		}
		err := fmt.Errorf("it must be %s", what)

		if len(value) == secretBytes {
			var count int
			if count, err = take(fields[0], [secretBytes]byte(value)); err == nil && count > perHolderMax {
				err = fmt.Errorf("%s has more than %d lines: remove those that are not used", fields[0], perHolderMax)
			}
		}

		if err != nil {
			return fmt.Errorf("%s, line %d: %w", file, number+1, err)
		}
	}

	if !some {
		return fmt.Errorf("%s is empty: it must have a line for each holder: %s", file, what)
	}

	return nil
}

func checkHolder(holder string) error {
	if holder == CentralBank {
		return nil
	}
	_, err := pix.ParseISPB(holder)

	return err
}

// Make makes the missing keys of the central bank and of banks, each in a file in dir that is named by
// its holder, and writes the digest of the central bank's. Existing keys stay.
func Make(dir, digestsFile string, banks []pix.ISPB) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}

	holders := []string{CentralBank}
	for _, bank := range banks {
		holders = append(holders, string(bank))
	}

	for _, holder := range holders {
		_, err := Read(dir, holder)
		if errors.Is(err, fs.ErrNotExist) {
			err = writeNew(filepath.Join(dir, holder), []byte(New(holder)+"\n"))
		}

		if err != nil {
			return err
		}
	}

	key, err := Read(dir, CentralBank)
	if err != nil {
		return err
	}

	return write(digestsFile,
		fmt.Appendf(nil, "# Digests of the keys of the central bank: HOLDER SHA-256 in hex. Those of banks are in the register.\n%s %x\n",
			CentralBank, sha256.Sum256([]byte(key))), os.Rename)
}

// CopyBanks copies the keys of banks from a directory to another one, which never gets the central bank's.
func CopyBanks(from, to string) error {
	all, err := ReadAll(from)
	if err != nil {
		return err
	}

	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	delete(all, CentralBank)

	for holder, key := range all {
		if err := write(filepath.Join(to, holder), []byte(key+"\n"), os.Rename); err != nil {
			return err
		}
	}

	return nil
}

// Read returns the key of a holder from the directory that Make wrote.
func Read(dir, holder string) (string, error) {
	if err := checkHolder(holder); err != nil { // so it cannot be a path
		return "", fmt.Errorf("a key's holder is %q: it must be an ISPB or %s", holder, CentralBank)
	}
	file := filepath.Join(dir, holder)

	text, err := readSmall(file)
	if err != nil {
		return "", err
	}

	key := strings.TrimSpace(string(text))
	if HolderOf(key) != holder {
		return "", fmt.Errorf("%s does not hold a key of %s: remove the file, and bootstrap makes a new key",
			file, holder)
	}

	return key, nil
}

// MakeFile makes a key of a holder in a new file, readable for its owner only.
func MakeFile(file, holder string) (Digest, error) {
	key := New(holder)
	return DigestOf(key), write(file, []byte(key+"\n"), os.Link)
}

// ReadFile returns the key in a file.
func ReadFile(file string) (string, error) {
	text, err := readSmall(file)
	return strings.TrimSpace(string(text)), err
}

// ReadAll returns all keys of a directory, by holder.
func ReadAll(dir string) (map[string]string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}

	for _, file := range files {
		if checkHolder(file.Name()) != nil {
			continue
		}

		if all[file.Name()], err = Read(dir, file.Name()); err != nil {
			return nil, err
		}
	}

	return all, nil
}

func readSmall(file string) ([]byte, error) {
	about, err := os.Stat(file)
	if err != nil {
		return nil, err
	}

	if about.Size() > fileBytesMax {
		return nil, fmt.Errorf("%s has %d bytes: a file of keys has at most %d", file, about.Size(), fileBytesMax)
	}

	return os.ReadFile(file)
}

// writeNew writes a file unless it exists. Of two processes at once, the first one wins.
func writeNew(file string, text []byte) error {
	if err := write(file, text, os.Link); !errors.Is(err, fs.ErrExist) {
		return err
	}

	return nil
}

// write writes a whole file that only its owner may read. place moves it to its name.
func write(file string, text []byte, place func(from, to string) error) error {
	temporary, err := os.CreateTemp(filepath.Dir(file), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())

	_, err = temporary.Write(text)
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return err
	}

	return place(temporary.Name(), file)
}
