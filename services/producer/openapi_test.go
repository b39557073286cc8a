package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// routes returns the routes of the description, which is generated from those that are served.
func routes(t *testing.T) (routes []struct{ method, path string }) {
	t.Helper()
	var described struct {
		Paths map[string]map[string]json.RawMessage
	}
	text, _ := os.ReadFile("openapi.json")
	if err := json.Unmarshal(text, &described); err != nil || len(described.Paths) < 9 {
		t.Fatalf("%d paths, %v", len(described.Paths), err)
	}
	for path, operations := range described.Paths {
		for method := range operations {
			routes = append(routes, struct{ method, path string }{strings.ToUpper(method), path})
		}
	}
	return routes
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
	for _, route := range routes(t) {
		if got := p.call("PATCH", strings.NewReplacer("{", "", "}", "").Replace(route.path), ""); got.code != http.StatusMethodNotAllowed || got.Field != "method" || got.Rule == "" {
			t.Errorf("PATCH %s: %d %s", route.path, got.code, got.text)
		}
	}
	if got := p.call("GET", "/v1/nothing", ""); got.code != http.StatusNotFound || got.contentType != "application/problem+json" {
		t.Errorf("%d %s", got.code, got.text)
	}
	if response := p.send(t.Context(), "HEAD", "/v1/settlements?participant=10000001", ""); response.StatusCode != http.StatusMethodNotAllowed || response.Header.Get("Allow") != "GET" {
		t.Errorf("HEAD of a stream: %s", response.Status)
	}
}
