package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The examples can be tried: they are accepted.
func TestTheExamplesAreAccepted(t *testing.T) {
	t.Parallel()
	p := startProgram(t, startBroker(t), aLedger(t))
	p.AwaitNeed("kafka", false)
	examples := 0

	for _, route := range routes(t) {
		if route.method != http.MethodPost || strings.HasSuffix(route.path, "/answers") { // nobody has asked
			continue
		}
		examples++

		var body bytes.Buffer // in one line, for the batch
		for _, content := range route.RequestBody.Content {
			if err := json.Compact(&body, content.Example); err != nil {
				t.Fatalf("%s: %q %v", route.path, content.Example, err)
			}
		}

		if got := p.call("POST", route.path, body.String()); string(got.Status) != `"accepted"` {
			t.Errorf("%s %s: %d %s", route.path, body.String(), got.code, got.text)
		}
	}

	if examples != 3 {
		t.Errorf("%d operations take a body, want 3", examples)
	}
}

// route is an operation of the description.
type route struct {
	method, path string
	RequestBody  struct {
		Content map[string]struct{ Example json.RawMessage }
	}
}

// routes returns the routes of the description, which is generated from those that are served.
func routes(t *testing.T) (routes []route) {
	t.Helper()
	var described struct {
		Paths map[string]map[string]route
	}

	text, _ := os.ReadFile("openapi.json")
	if err := json.Unmarshal(text, &described); err != nil || len(described.Paths) < 9 {
		t.Fatalf("%d paths, %v", len(described.Paths), err)
	}

	for path, operations := range described.Paths {
		for method, operation := range operations {
			operation.method, operation.path = strings.ToUpper(method), path
			routes = append(routes, operation)
		}
	}

	return routes
}

func TestTheDescriptionIsServed(t *testing.T) {
	t.Parallel()
	p := startProgram(t, startBroker(t), nil)
	p.AwaitNeed("kafka", false)

	get := func(path string) (answer, string) {
		t.Helper()
		response := p.send(t.Context(), "GET", path, "")

		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK || len(text) == 0 {
			t.Errorf("%s: %s %s %v", path, response.Status, text, err)
		}

		return response, string(text)
	}
	if _, text := get("/openapi.json"); !strings.Contains(text, `"openapi": "3.1.0"`) {
		t.Errorf("%s", text)
	}
	// The viewer needs no Internet: this server has all files of the page, and the page's
	// policy forbids others.
	response, text := get("/docs")
	if policy := response.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy,
		"default-src 'none'; script-src 'self';") || strings.Contains(policy, "unsafe") ||
		strings.Contains(policy, "http") {
		t.Errorf("the policy is %q", policy)
	}

	named := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(text, -1)
	if len(named) < 4 {
		t.Errorf("the page names %v: %s", named, text)
	}

	for _, file := range named {
		get(file[1])
	}

	if _, text := get("/docs/start.js"); !strings.Contains(text, `"/openapi.json"`) {
		t.Errorf("%s", text)
	}

	for _, route := range routes(t) {
		if got := p.call("PATCH", strings.NewReplacer("{", "", "}", "").Replace(route.path),
			""); got.code != http.StatusMethodNotAllowed || got.Field != "method" || got.Rule == "" {
			t.Errorf("PATCH %s: %d %s", route.path, got.code, got.text)
		}
	}

	if got := p.call("GET", "/v1/nothing", ""); got.code != http.StatusNotFound ||
		got.contentType != "application/problem+json" {
		t.Errorf("%d %s", got.code, got.text)
	}

	if response := p.send(t.Context(), "HEAD", "/v1/settlements?participant=10000001",
		""); response.StatusCode != http.StatusMethodNotAllowed || response.Header.Get("Allow") != "GET" {
		t.Errorf("HEAD of a stream: %s", response.Status)
	}
}
