package keys

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/pix"
)

func TestOnlyTheBankItselfSealsItsAnswers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys", "answers")

	banks := []pix.ISPB{"10000001", "10000002"}
	if err := MakeSeals(file, banks[:1]); err != nil {
		t.Fatal(err)
	}

	first, err := ReadSeals(file)
	if err != nil {
		t.Fatal(err)
	}
	message := []byte("E1000000120260101000012345678901 ACSP")

	seal := first.Seal(banks[0], message)
	for range 2 { // the first adds the other bank, the second nothing
		if err := MakeSeals(file, banks); err != nil {
			t.Fatal(err)
		}
	}

	seals, err := ReadSeals(file)
	if err != nil || len(seals) != 2 {
		t.Fatalf("%d banks: %v", len(seals), err)
	}

	if about, err := os.Stat(file); err != nil || about.Mode().Perm() != 0o600 {
		t.Errorf("%v %v: others can read it", about, err)
	}
	changed := slices.Clone(message)

	changed[0]++
	for name, c := range map[string]struct {
		bank          pix.ISPB
		message, seal []byte
		genuine       bool
	}{
		"its own":                {banks[0], message, seal, true},
		"of another":             {banks[1], message, seal, false},
		"by another":             {banks[0], message, seals.Seal(banks[1], message), false},
		"of another message":     {banks[0], changed, seal, false},
		"none":                   {banks[0], message, nil, false},
		"cut":                    {banks[0], message, seal[:31], false},
		"of a bank not known":    {"10000003", message, seal, false},
		"by a bank without keys": {"10000003", message, seals.Seal("10000003", message), false},
	} {
		if got := seals.Genuine(c.bank, c.message, c.seal); got != c.genuine {
			t.Errorf("%s: genuine %v", name, got)
		}
	}
}

// Editors and shells may leave the last line without a newline.
func TestASecretIsAddedBehindAnUnfinishedLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "answers")
	if err := os.WriteFile(file, []byte("10000001 "+strings.Repeat("ab", 32)), 0o600); err != nil {
		t.Fatal(err)
	}

	if err := MakeSeals(file, []pix.ISPB{"10000001", "10000002"}); err != nil {
		t.Fatal(err)
	}

	if seals, err := ReadSeals(file); err != nil || len(seals) != 2 {
		t.Fatalf("%d banks: %v", len(seals), err)
	}
}

func TestASecretIsReplacedWhileBothAreTaken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "answers")
	old, next := "10000001 "+strings.Repeat("ab", 32)+"\n", "10000001 "+strings.Repeat("cd", 32)+"\n"
	read := func(text string) Seals {
		t.Helper()

		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}

		seals, err := ReadSeals(file)
		if err != nil {
			t.Fatal(err)
		}

		return seals
	}
	message := []byte("an answer")

	before, after := read(old).Seal("10000001", message), read(next+old).Seal("10000001", message)
	if both := read(next + old); !both.Genuine("10000001", message, before) ||
		!both.Genuine("10000001", message, after) {
		t.Error("one of the two is not taken")
	}

	if read(next).Genuine("10000001", message, before) {
		t.Error("the old one is taken after its end")
	}
}

func TestAFileOfSecretsThatIsWrongIsRefusedWithoutShowingIt(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "short": "10000001 5ec2e7", "no hex": "10000001 " + strings.Repeat("secret00", 8),
		"no bank": strings.Repeat("5ec2e700", 8),
		"three":   "10000001 5ec2e7 1", "not a bank": "central-bank " + strings.Repeat("5ec2e700", 8),
		"too many": strings.Repeat("10000001 "+strings.Repeat("5ec2e700", 8)+"\n", perHolderMax+1),
	} {
		file := filepath.Join(t.TempDir(), "answers")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}

		if _, err := ReadSeals(file); err == nil || strings.Contains(err.Error(), "5ec2e7") ||
			strings.Contains(err.Error(), "secret00") || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", name, err)
		}

		if err := MakeSeals(file, []pix.ISPB{"10000001"}); err == nil {
			t.Errorf("%s: a damaged file was written over", name)
		}
	}
}

// What a payment costs more for the seal of its answer: once here, once at the bank.
func BenchmarkSeal(b *testing.B) {
	file := filepath.Join(b.TempDir(), "answers")
	if err := MakeSeals(file, []pix.ISPB{"10000001"}); err != nil {
		b.Fatal(err)
	}

	seals, err := ReadSeals(file)
	if err != nil {
		b.Fatal(err)
	}
	message := make([]byte, 48) // an acceptance
	seal := seals.Seal("10000001", message)
	b.Run("seal", func(b *testing.B) {
		b.ReportAllocs()

		for b.Loop() {
			seals.Seal("10000001", message)
		}
	})
	b.Run("verify", func(b *testing.B) {
		b.ReportAllocs()

		for b.Loop() {
			if !seals.Genuine("10000001", message, seal) {
				b.Fatal("not genuine")
			}
		}
	})
}

// writerFile names the file that a process of TestAKilledWriterLeavesAWholeFile writes.
const writerFile = "LIQUIDA_TEST_SEALS_FILE"

// Killed at any moment, a writer leaves the file as it was, or with one bank more; and the next one
// goes on.
func TestAKilledWriterLeavesAWholeFile(t *testing.T) {
	bank := func(i int) pix.ISPB { return pix.ISPB(fmt.Sprint(10_000_000 + i)) }
	if file := os.Getenv(writerFile); file != "" {
		for i := 0; ; i++ {
			if err := MakeSeals(file, []pix.ISPB{bank(i)}); err != nil {
				t.Fatal(err)
			}
		}
	}

	file := filepath.Join(t.TempDir(), "answers")
	if err := MakeSeals(file, []pix.ISPB{bank(0)}); err != nil {
		t.Fatal(err)
	}

	before, err := ReadSeals(file)
	if err != nil {
		t.Fatal(err)
	}

	for range 12 {
		writer := exec.Command(os.Args[0], "-test.run=^TestAKilledWriterLeavesAWholeFile$")

		writer.Env = append(os.Environ(), writerFile+"="+file)
		if err := writer.Start(); err != nil {
			t.Fatal(err)
		}

		for until := time.Now().Add(time.Minute); ; { // at work, at whatever step
			after, err := ReadSeals(file)
			if err != nil {
				t.Fatal(err)
			}

			if len(after) > len(before)+5 {
				break
			}

			if time.Now().After(until) {
				t.Fatal("the writer writes nothing")
			}
		}
		_ = writer.Process.Kill()
		_ = writer.Wait()

		after, err := ReadSeals(file)
		if err != nil || len(after) <= len(before) {
			t.Fatalf("%d banks of %d: %v", len(after), len(before), err)
		}

		for psp := range before {
			if !slices.Equal(before.Fingerprints(psp), after.Fingerprints(psp)) {
				t.Errorf("%s has another secret", psp)
			}
		}
		before = after
	}
}
