package keys

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liquida/liquida/platform/pix"
)

func TestKeysAreMadeOnceAndRecognizedByTheirDigests(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	file := filepath.Join(t.TempDir(), "digests")
	holders := []string{CentralBank, "10000001", "10000002"}

	if err := Make(dir, file, []pix.ISPB{"10000001", "10000002"}); err != nil {
		t.Fatal(err)
	}

	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	if err := Make(dir, file, []pix.ISPB{"10000001", "10000002"}); err != nil {
		t.Fatal(err)
	}

	if again, err := os.ReadFile(file); err != nil || string(again) != string(first) {
		t.Errorf("keys that were there did not stay: %v", err)
	}

	centralBank, err := ReadCentralBankKeys(file)
	if err != nil || len(centralBank) != 1 {
		t.Fatalf("%d digests in the file: %v", len(centralBank), err)
	}
	var known []Digest // in the register

	for _, holder := range holders[1:] {
		key, err := Read(dir, holder)
		if err != nil {
			t.Fatal(err)
		}
		known = append(known, DigestOf(key))
	}
	takes := func(key string) bool { return centralBank.Known(key) || OneOf(known, DigestOf(key)) }

	if all, err := ReadAll(dir); err != nil || len(all) != len(holders) {
		t.Errorf("%d keys: %v", len(all), err)
	}

	banks := t.TempDir()
	if err := CopyBanks(dir, banks); err != nil {
		t.Fatal(err)
	}

	if copied, err := ReadAll(banks); err != nil || len(copied) != len(holders)-1 || copied[CentralBank] != "" ||
		copied["10000001"] == "" {
		t.Errorf("%d copies, without the central bank's: %v", len(copied), err)
	}

	for _, holder := range holders {
		key, err := Read(dir, holder)
		if err != nil {
			t.Fatal(err)
		}

		if !takes(key) || HolderOf(key) != holder {
			t.Errorf("the key of %s is not recognized", holder)
		}

		if strings.Contains(string(first), key[len(holder)+1:]) {
			t.Error("the digests hold a key in clear")
		}

		other := "10000002" + key[len(holder):]
		for _, wrong := range []string{"", holder, holder + ".", key + "0", key[:len(key)-1],
			"10000003" + key[len(holder):], other} {
			if takes(wrong) && wrong != key {
				t.Errorf("%s.…: a wrong key was taken", holder)
			}
		}

		if about, err := os.Stat(filepath.Join(dir, holder)); err != nil || about.Mode().Perm() != 0o600 {
			t.Errorf("%v %v: others can read it", about, err)
		}
	}
}

func TestADigestFileThatIsWrongIsRefusedWithoutShowingIt(t *testing.T) {
	digest := strings.Repeat("ab", 32)
	for name, text := range map[string]string{
		"empty": "# nothing\n", "a key in clear": "central-bank.secret00", "short": "central-bank secret00",
		"no hex": "central-bank " + strings.Repeat("secret00", 8),
		"long":   "central-bank " + digest + "00", "three fields": "central-bank " + digest + " secret00",
		"no holder": "bank " + digest,
		"a path":    "../../secret00 " + digest,
		"too many":  strings.Repeat("central-bank "+digest+"\n", perHolderMax+1),
		"a bank's":  "10000001 " + digest,
	} {
		file := filepath.Join(t.TempDir(), "digests")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}

		if _, err := ReadCentralBankKeys(file); err == nil || strings.Contains(err.Error(), "secret00") ||
			!strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", name, err)
		}
	}

	if _, err := Read(t.TempDir(), "../secret"); err == nil {
		t.Error("a holder led out of the folder")
	}
}
