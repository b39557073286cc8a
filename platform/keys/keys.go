// Package keys makes and checks the bearer keys of the front door's callers, the secrets
// with which banks seal responses, and the passwords of Kafka's users. A checker of keys has
// only digests. A plain hash is enough for them: a key has 256 random bits, so unlike a
// password it cannot be guessed.
package keys

import (
	"bytes"
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

// digest is enough to recognize a key.
type digest [sha256.Size]byte

// Digests are the digests of the keys of each holder.
type Digests map[string][]digest

// newSecret returns 256 random bits in hex.
func newSecret() string {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails: it would end the process
	return hex.EncodeToString(secret)
}

// ReadDigests reads a file of lines "HOLDER SHA-256 of the key in hex"; # begins a comment.
func ReadDigests(file string) (Digests, error) {
	digests := Digests{}
	return digests, readLines(file, "a holder and the SHA-256 of its key, 64 hexadecimal digits", func(holder string, value [secretBytes]byte) (int, error) {
		if err := checkHolder(holder); err != nil {
			return 0, errors.New("the holder must be an ISPB or " + CentralBank)
		}
		digests[holder] = append(digests[holder], value)
		return len(digests[holder]), nil
	})
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

// Holder returns whose key it is.
func (d Digests) Holder(key string) (string, bool) {
	holder, _, _ := strings.Cut(key, ".")
	of := digest(sha256.Sum256([]byte(key)))
	found := 0
	for _, known := range d[holder] { // the time shows how many keys a holder has, and nothing about them
		found |= subtle.ConstantTimeCompare(known[:], of[:])
	}
	return holder, found == 1
}

// Make makes the missing keys, each in a file in dir that is named by its holder, and writes
// the digests of all. Existing keys stay.
func Make(dir, digestsFile string, holders []string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var digests bytes.Buffer
	digests.WriteString("# Digests of the keys with which participants call: HOLDER SHA-256 in hex.\n")
	for _, holder := range holders {
		key, err := Read(dir, holder)
		if errors.Is(err, fs.ErrNotExist) {
			// A key begins with its holder, so that a check compares few digests.
			if err = writeNew(filepath.Join(dir, holder), []byte(holder+"."+newSecret()+"\n")); err == nil {
				key, err = Read(dir, holder)
			}
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(&digests, "%s %x\n", holder, sha256.Sum256([]byte(key)))
	}
	return write(digestsFile, digests.Bytes(), os.Rename)
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
	if named, _, _ := strings.Cut(key, "."); named != holder {
		return "", fmt.Errorf("%s does not hold a key of %s: remove the file, and bootstrap makes a new key", file, holder)
	}
	return key, nil
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
