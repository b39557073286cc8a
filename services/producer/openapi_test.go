package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// The file is for those who make clients; make openapi writes it.
func TestTheDescriptionIsTheCodes(t *testing.T) {
	made := describe(api(&acceptance{follow: &follow{}}, &batches{}, &reads{}))
	if os.Getenv("LIQUIDA_WRITE_OPENAPI") != "" {
		if err := os.WriteFile("openapi.json", made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile("openapi.json")
	if err != nil || !bytes.Equal(made, kept) {
		t.Errorf("openapi.json is not what the code says (%v): run make openapi", err)
	}
}

func TestTheDescriptionIsServed(t *testing.T) {
	p := startProgram(t, startBroker(t), nil)
	p.AwaitNeed("kafka", false)
	for path, holds := range map[string]string{"/openapi.json": `"openapi": "3.1.0"`, "/docs": "/v1/payments/{endToEndId}/events"} {
		response := p.send(t.Context(), "GET", path, "")
		if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(text), holds) {
			t.Errorf("%s: %s %s %v", path, response.Status, text, err)
		}
	}
	var described struct {
		Paths map[string]map[string]json.RawMessage
	}
	text, _ := os.ReadFile("openapi.json")
	if err := json.Unmarshal(text, &described); err != nil || len(described.Paths) < 9 {
		t.Fatalf("%d paths, %v", len(described.Paths), err)
	}
	for path := range described.Paths {
		if got := p.call("PATCH", strings.NewReplacer("{", "", "}", "").Replace(path), ""); got.code != http.StatusMethodNotAllowed || got.Field != "method" || got.Rule == "" {
			t.Errorf("PATCH %s: %d %s", path, got.code, got.text)
		}
	}
	if got := p.call("GET", "/v1/nothing", ""); got.code != http.StatusNotFound || got.contentType != "application/problem+json" {
		t.Errorf("%d %s", got.code, got.text)
	}
	if response := p.send(t.Context(), "HEAD", "/v1/settlements?participant=10000001", ""); response.StatusCode != http.StatusMethodNotAllowed || response.Header.Get("Allow") != "GET" {
		t.Errorf("HEAD of a stream: %s", response.Status)
	}
}
