package keys

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKeysAreMadeOnceAndRecognizedByTheirDigests(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	file := filepath.Join(t.TempDir(), "digests")
	holders := []string{CentralBank, "10000001", "10000002"}
	if err := Make(dir, file, holders); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := Make(dir, file, holders); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(file); err != nil || string(again) != string(first) {
		t.Errorf("keys that were there did not stay: %v", err)
	}
	digests, err := ReadDigests(file)
	if err != nil || len(digests) != len(holders) {
		t.Fatalf("%d holders: %v", len(digests), err)
	}
	if all, err := ReadAll(dir); err != nil || len(all) != len(holders) {
		t.Errorf("%d keys: %v", len(all), err)
	}
	for _, holder := range holders {
		key, err := Read(dir, holder)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := digests.Holder(key); !ok || got != holder {
			t.Errorf("the key of %s is not recognized", holder)
		}
		if strings.Contains(string(first), key[len(holder)+1:]) {
			t.Error("the digests hold a key in clear")
		}
		other := "10000002" + key[len(holder):]
		for _, wrong := range []string{"", holder, holder + ".", key + "0", key[:len(key)-1], "10000003" + key[len(holder):], other} {
			if _, ok := digests.Holder(wrong); ok && wrong != key {
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
		"empty": "# nothing\n", "a key in clear": "10000001.secret00", "short": "10000001 secret00", "no hex": "10000001 " + strings.Repeat("secret00", 8),
		"long": "10000001 " + digest + "00", "three fields": "10000001 " + digest + " secret00", "no holder": "bank " + digest,
		"a path": "../../secret00 " + digest, "too many": strings.Repeat("10000001 "+digest+"\n", perHolderMax+1),
	} {
		file := filepath.Join(t.TempDir(), "digests")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadDigests(file); err == nil || strings.Contains(err.Error(), "secret00") || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Read(t.TempDir(), "../secret"); err == nil {
		t.Error("a holder led out of the folder")
	}
}
