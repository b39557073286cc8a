package keys

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// PasswordFile is where the password of a user lies in a folder of passwords: in a folder of
// its own, so that a container can be given no other.
func PasswordFile(folder, user string) string { return filepath.Join(folder, user, "password") }

// MakePassword writes a password of 256 random bits to a file that only its owner may read,
// unless the file is there.
func MakePassword(file string) error {
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails: it ends the process instead
	// Of two that run at once the first one's stands.
	if err := write(file, []byte(hex.EncodeToString(secret)+"\n"), os.Link); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// ReadPassword returns what a file of one line holds.
func ReadPassword(file string) (string, error) {
	text, err := readSmall(file)
	if err != nil {
		return "", err
	}
	password := strings.TrimSpace(string(text))
	if password == "" || strings.ContainsAny(password, "\r\n") { // what is there is not shown
		return "", fmt.Errorf("%s must hold one line, the password", file)
	}
	return password, nil
}
