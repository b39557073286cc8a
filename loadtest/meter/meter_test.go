package meter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

// What is reserved for a file to grow into is not stored yet.
func TestReservedIsNotStored(t *testing.T) {
	folder := t.TempDir()
	file, err := os.Create(filepath.Join(folder, "file"))
	kit.Must(t, err)
	defer file.Close()
	const reserved, wrote = 64 << 20, 1 << 20

	err = syscall.Fallocate(int(file.Fd()), 0, 0, reserved)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		t.Skip("the file system reserves nothing")
	}
	kit.Must(t, err)
	kit.Must(t, kit.ErrorOf(file.WriteAt(make([]byte, wrote), reserved/2)))
	kit.Must(t, file.Sync())
	sample, err := Read(nil, folder)
	kit.Must(t, err)

	if sample.Stored < wrote || sample.Stored > wrote+1<<16 {
		t.Errorf("%d bytes are stored, %d were written and %d reserved", sample.Stored, wrote, reserved)
	}
}

func TestHopsAreWhatWasCountedBetweenTwoReadings(t *testing.T) {
	scrape := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		scrape++
		n := 100 * scrape // the first hundred are before the run
		fmt.Fprintf(w, "# TYPE pix_hop_seconds histogram\npix_hop_seconds_bucket{hop=\"queue\",le=\"+Inf\"} %d\n"+
			"pix_hop_seconds_sum{hop=\"queue\"} %g\npix_hop_seconds_count{hop=\"queue\"} %d\n"+
			"# TYPE go_memstats_mallocs_total counter\ngo_memstats_mallocs_total %d\n", n, float64(n)*0.001, n, n*7)
	}))
	defer server.Close()
	before, err := ReadEngines(context.Background(), []string{server.URL})
	kit.Must(t, err)
	after, err := ReadEngines(context.Background(), []string{server.URL})
	kit.Must(t, err)

	counted := after.Since(before)
	for name, pair := range map[string][2]float64{
		"count":       {counted.Labelled(HopSeconds+"_count", "queue"), 100},
		"mean":        {counted.Mean(HopSeconds, "queue"), 0.001},
		"other hop":   {counted.Mean(HopSeconds, "report"), 0},
		"allocations": {counted.Labelled("go_memstats_mallocs_total", ""), 700}} {
		if math.Abs(pair[0]-pair[1]) > 1e-12 {
			t.Errorf("the %s is %v, it must be %v", name, pair[0], pair[1])
		}
	}

	if _, err := ReadEngines(context.Background(), []string{"http://127.0.0.1:1"}); err == nil {
		t.Error("an engine that is away is counted")
	}
}
