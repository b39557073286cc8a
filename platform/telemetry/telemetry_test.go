package telemetry

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestReadinessTellsWhatIsWrong(t *testing.T) {
	health := NewHealth()
	health.Need("tigerbeetle")
	answer := httptest.NewRecorder()
	health.ServeHTTP(answer, nil)
	if answer.Code != http.StatusServiceUnavailable || !strings.Contains(answer.Body.String(), "tigerbeetle") {
		t.Fatalf("a need that was never reached is not ready: %d %s", answer.Code, answer.Body)
	}
	if !health.Report("tigerbeetle", nil) {
		t.Fatal("becoming well is news")
	}
	answer = httptest.NewRecorder()
	health.ServeHTTP(answer, nil)
	if answer.Code != http.StatusOK {
		t.Fatalf("all needs are met: %d %s", answer.Code, answer.Body)
	}
	if !health.Report("tigerbeetle", errors.New("no answer for 3s")) || health.Report("tigerbeetle", errors.New("no answer for 4s")) {
		t.Fatal("only a change between well and not well is news")
	}
}

func TestConfigNamesTheVariable(t *testing.T) {
	if err := (Config{LogLevel: "loud", Address: "127.0.0.1:1"}).Validate(); err == nil || !strings.Contains(err.Error(), "LOG_LEVEL") {
		t.Fatalf("got %v", err)
	}
	if err := (Config{LogLevel: "info", Address: "nowhere"}).Validate(); err == nil || !strings.Contains(err.Error(), "TELEMETRY_ADDRESS") {
		t.Fatalf("got %v", err)
	}
}
