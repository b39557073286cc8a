package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBatchesAndCertificatesThatAreBadUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "payments")
	if err := os.WriteFile(file, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ arguments, says string }{
		{"batch", "accepts 1 arg"},
		{"batch /nowhere/payments", "FILE"},
		{"batch " + file + " --lines 0", "--lines is 0"},
		{"batch " + file + " --wait 2h", "--wait is 2h0m0s"},
		{"participants --ca ca.pem", "begins with https"},
		{"participants --url https://127.0.0.1:1 --cert cert.pem", "give both or none"},
		{"participants --url https://127.0.0.1:1 --ca " + file, "no certificate in PEM"},
	} {
		liquida(t, strings.Fields(c.arguments)...).Is(t, exitBadUsage, c.says, "--help")
	}
	liquida(t, "batch", file).Is(t, exitNot, "there is no payment")
	liquida(t, "__complete", "ba").Is(t, exitDone, "balance", "batch")
}
