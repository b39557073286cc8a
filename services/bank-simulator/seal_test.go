package main

import (
	"path/filepath"
	"testing"

	"github.com/liquida/liquida/platform/keys"
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
		if len(record.Headers) != 1 || record.Headers[0].Key != keys.SealHeader || !seals.Genuine(pix.ISPB(answer.Ispb), record.Value, record.Headers[0].Value) {
			t.Errorf("the answer to %s does not have the seal of %s", answer.EndToEndId, answer.Ispb)
		}
	}
}
