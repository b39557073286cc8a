package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

func TestEachBankSealsItsAnswers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "answers")
	if err := keys.MakeSeals(file, []pix.ISPB{"10000001", "10000002"}); err != nil {
		t.Fatal(err)
	}

	seals, err := keys.ReadSeals(file)
	if err != nil {
		t.Fatal(err)
	}
	b := startBroker(t, bothTopics...)
	startProgram(t, b, "ANSWER_KEYS_FILE="+file)
	a := newAsker(t, b)
	var requests []*pixv1.AuthorizationRequest

	for i := range 20 {
		request := a.request([]string{"0001", "9003"}[i%2])
		if i%4 > 1 {
			request.Payee.Ispb = "10000001"
		}
		requests = append(requests, request)
	}
	a.ask(requests...)
	a.awaitResponses(1, requests...)
	a.mu.Lock()
	defer a.mu.Unlock()

	for _, record := range a.records {
		var answer pixv1.AuthorizationResponse
		if err := answer.UnmarshalVT(record.Value); err != nil {
			t.Fatal(err)
		}

		if len(record.Headers) != 1 || record.Headers[0].Key != keys.SealHeader ||
			!seals.Genuine(pix.ISPB(answer.Ispb), record.Value, record.Headers[0].Value) {
			t.Errorf("the answer to %s does not have the seal of %s", answer.EndToEndId, answer.Ispb)
		}
	}
}

// The file changes while the simulator runs: a bank that is new in it is answered for, and a secret
// that is its bank's first now makes the seals. Nobody answers for a bank that is not in it, nor
// because of a file that cannot be read.
func TestTheFileOfSecretsIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "answers")
	with := func(banks ...pix.ISPB) {
		t.Helper()

		if err := keys.MakeSeals(file, banks); err != nil {
			t.Fatal(err)
		}
	}
	with("10000001")
	b := startBroker(t, bothTopics...)
	p := startProgram(t, b, "ANSWER_KEYS_FILE="+file)
	a := newAsker(t, b)
	ask := func(bank string) *pixv1.AuthorizationRequest {
		request := a.request("0001")
		request.Payee.Ispb = bank
		a.ask(request)

		return request
	}
	// newest reports whether 10000009 has answered with the seal of its first secret.
	newest := func() (bool, string) {
		t.Helper()
		ask("10000009")

		seals, err := keys.ReadSeals(file)
		if err != nil {
			t.Fatal(err)
		}
		a.mu.Lock()
		defer a.mu.Unlock()

		for _, record := range a.records {
			if by, genuine := seals.SealedBy("10000009", record.Value, record.Headers[0].Value); genuine &&
				by == seals.Fingerprints("10000009")[0] {
				return true, ""
			}
		}

		return false, ""
	}
	first := ask("10000009")
	kit.Await(t, "the request", func() (bool, string) {
		return strings.Contains(p.metrics(), "pix_simulator_foreign_requests_total 1\n"), ""
	})
	with("10000009")
	kit.Await(t, "the new bank", newest)
	a.mu.Lock()
	for _, record := range a.records {
		if string(record.Key) == first.EndToEndId {
			t.Error("it answers for a bank whose secret it does not have")
		}
	}
	a.mu.Unlock()

	if err := errors.Join(keys.AddSeal(file, "10000009"), keys.PreferNewSeal(file, "10000009")); err != nil {
		t.Fatal(err)
	}
	kit.Await(t, "the new secret", newest)

	good, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte("10000009 half a li"), 0o600)
	}

	if err != nil {
		t.Fatal(err)
	}
	kit.Await(t, "a complaint", func() (bool, string) {
		a.awaitResponses(1, ask("10000009")) // by the secrets of before
		return strings.Contains(p.Log(), "cannot be read"), ""
	})

	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
}
