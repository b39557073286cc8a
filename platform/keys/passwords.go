package keys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// PasswordFile returns where a directory of passwords holds that of a user: in a directory of
// its own, so that a container can be given this one alone.
func PasswordFile(folder, user string) string { return filepath.Join(folder, user, "password") }

// MakePassword writes a password of 256 random bits to a file that only its owner may read.
// An existing file stays.
func MakePassword(file string) error {
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}

	return writeNew(file, []byte(newSecret()+"\n"))
}

// ReadPassword returns the password in a file of one line.
func ReadPassword(file string) (string, error) {
	text, err := readSmall(file)
	if err != nil {
		return "", err
	}

	password := strings.TrimSpace(string(text))
	if password == "" || strings.ContainsAny(password, "\r\n") { // the error does not show the content
		return "", fmt.Errorf("%s must hold one line, the password", file)
	}

	return password, nil
}
