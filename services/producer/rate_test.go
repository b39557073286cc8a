package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/submission"
)

func TestAParticipantThatAsksTooOftenWaitsAndOthersDoNot(t *testing.T) {
	t.Parallel()
	r := makeRing(t)
	// So slow that hardly any turn comes back during the test.
	b := startBroker(t)
	p := startProgram(t, b, aLedger(t), "HTTP_KEYS_FILE="+r.digests, "CALLER_RATE_MAX=1", "CALLER_BURST_MAX=5")
	p.AwaitNeed("kafka", false)
	one, other := "Bearer "+r.of(t, "10000001"), "Bearer "+r.of(t, "10000002")
	taken, refused := 0, 0
	began := time.Now()

	for refused < 3 {
		code, header, problem, text := p.as(one, "POST", "/v1/payments", valid)
		switch code {
		case http.StatusAccepted:
			taken++
		case http.StatusTooManyRequests:
			if refused++; header.Get("Retry-After") != "1" || problem.Type != web.Kind("too-often") ||
				problem.Rule == "" {
				t.Errorf("%s %s", header, text)
			}
		default:
			t.Fatalf("%d %s", code, text)
		}

		if taken > 5+int(time.Since(began).Seconds())+1 {
			t.Fatalf("%d were taken in %v", taken, time.Since(began))
		}
	}

	if taken < 5 {
		t.Errorf("only %d were taken", taken)
	}

	if code, _, _, text := p.as(other, "POST", "/v1/payments",
		strings.Replace(valid, "10000001", "10000002", 1)); code != http.StatusAccepted {
		t.Errorf("another participant: %d %s", code, text)
	}
	// It has four turns left. A batch does not help, because its lines count.
	_, _, _, text := p.as(other, "POST", batchPath,
		strings.Repeat(strings.Replace(valid, "10000001", "10000002", 1)+"\n", 50))
	lines := 0

	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		var result submission.BatchResult
		if err := json.Unmarshal([]byte(line), &result); err != nil {
			t.Fatal(err)
		}

		if result.Problem == nil {
			lines++
		} else if result.Problem.Status != http.StatusTooManyRequests {
			t.Errorf("%s", line)
		}
	}

	if most := 3 + int(time.Since(began).Seconds()) + 1; lines < 3 || lines > most {
		t.Errorf("%d lines of the batch were taken, at least 3 and at most %d may be", lines, most)
	}
	// Returns count, even invalid ones.
	third, passed := "Bearer "+r.of(t, "10000003"), 0
	for refused = 0; refused < 3; {
		switch code, _, _, text := p.as(third, "POST", "/v1/returns", "{}"); code {
		case http.StatusBadRequest:
			if passed++; passed > 5+int(time.Since(began).Seconds())+1 {
				t.Fatalf("%d returns were looked at in %v", passed, time.Since(began))
			}
		case http.StatusTooManyRequests:
			refused++
		default:
			t.Fatalf("%d %s", code, text)
		}
	}

	if passed < 5 {
		t.Errorf("only %d returns were looked at", passed)
	}

	if records := published(t, b, taken+1+lines); len(records) != taken+1+lines {
		t.Errorf("%d payments were written, %d were accepted", len(records), taken+1+lines)
	}
}
