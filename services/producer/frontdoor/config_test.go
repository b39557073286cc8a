package frontdoor

import (
	"strings"
	"testing"

	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
)

func TestLimitsThatContradictEachOtherAreRefused(t *testing.T) {
	parse := func() (*Config, error) {
		c := &Config{Telemetry: telemetry.Config{Address: "127.0.0.1:9101"},
			HTTP: web.Config{Address: "127.0.0.1:8080"}}
		return c, settings.Parse(c)
	}
	if _, err := parse(); err != nil {
		t.Fatalf("the defaults are refused: %v", err)
	}

	for _, c := range []struct {
		name, value, says string
	}{
		{"PAGE_MAX", "8189", "PAGE_MAX is 8189: it must be from 1 to 8188"},
		{"LEDGER_LOOKUP_IDS_MAX", "133", "LEDGER_LOOKUP_IDS_MAX is 133: it must be from 134 to 8189"},
		{"LEDGER_LOOKUP_IDS_MAX", "1000", "PAGE_MAX is 1000: it must be below LEDGER_LOOKUP_IDS_MAX, 1000"},
		{"HTTP_CONNECTIONS_MAX", "2000",
			"HTTP_CONNECTIONS_MAX is 2000: it must be more than WAITS_MAX and STREAMS_MAX together, 2000"},
		{"HTTP_WRITE_TIMEOUT", "10s", "HTTP_WRITE_TIMEOUT is 10s: it must be longer"},
		{"LEDGER_READ_WAIT_MAX", "22s",
			"HTTP_WRITE_TIMEOUT is 30s: it must be longer than HTTP_READ_TIMEOUT, LEDGER_READ_WAIT_MAX and"},
		{"BATCH_LINES_MAX", "0", "BATCH_LINES_MAX is 0: it must be from 1 to 100000"},
		{"BATCH_BYTES_MAX", "1", "BATCH_BYTES_MAX is 1"},
		{"BATCHES_MAX", "0", "BATCHES_MAX is 0"},
		{"BATCH_TIMEOUT", "1ms", "BATCH_TIMEOUT is 1ms"},
		{"WAIT_MAX", "1h", "WAIT_MAX is 1h0m0s: it must be from 1s to 5m0s"},
		{"WAITS_MAX", "0", "WAITS_MAX is 0"},
		{"ASK_AGAIN_INTERVAL", "1ms", "ASK_AGAIN_INTERVAL is 1ms"},
		{"STREAMS_MAX", "0", "STREAMS_MAX is 0"},
		{"STREAM_TIME_MAX", "100h", "STREAM_TIME_MAX is 100h0m0s"},
		{"STREAM_KEEP_ALIVE", "1ms", "STREAM_KEEP_ALIVE is 1ms"},
		{"STREAM_WRITE_TIMEOUT", "1h", "STREAM_WRITE_TIMEOUT is 1h0m0s"},
		{"SETTLEMENT_HISTORIES_MAX", "65", "SETTLEMENT_HISTORIES_MAX is 65: it must be from 1 to 64"},
		{"SHED_AGE", "999ms", "SHED_AGE is 999ms: it must be from 1s to 10m0s"},
		{"LEDGER_LOOKUP_PAUSE", "2s", "LEDGER_LOOKUP_PAUSE is 2s: it must be from 0s to 1s"},
		{"LEDGER_READ_SHARE", "0", "LEDGER_READ_SHARE is 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(c.name, c.value)

			if _, err := parse(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}
