package keys

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPasswordIsMadeOnceAndForItsOwnerOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "producer", "password")
	made := map[string]bool{}

	for range 2 {
		if err := MakePassword(file); err != nil {
			t.Fatal(err)
		}

		password, err := ReadPassword(file)
		if err != nil || len(password) != 2*secretBytes {
			t.Fatalf("a password of %d characters: %v", len(password), err)
		}
		made[password] = true
	}

	if len(made) != 1 {
		t.Error("a second run made another password")
	}

	if about, err := os.Stat(file); err != nil || about.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: others may read it", about.Mode(), err)
	}
}

func TestPasswordThatIsNoneIsRefusedAndNotShown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	for _, text := range []string{"", " \n", "first-secret\nsecond-secret\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}

		if password, err := ReadPassword(file); err == nil || strings.Contains(err.Error(), "secret") ||
			!strings.Contains(err.Error(), file) {
			t.Errorf("%q: got %q, %v", text, password, err)
		}
	}

	if err := os.WriteFile(file, []byte("the password\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	if password, err := ReadPassword(file); err != nil || password != "the password" {
		t.Errorf("got %q, %v", password, err)
	}
}
