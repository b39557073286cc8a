package meter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

// Both ends of a connection belong to this process: what one sends the other receives.
func TestNetworkBytesCountBothEnds(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	kit.Must(t, err)
	defer listener.Close()
	here, err := net.Dial("tcp", listener.Addr().String())
	kit.Must(t, err)
	defer here.Close()
	there, err := listener.Accept()
	kit.Must(t, err)
	defer there.Close()
	folder, self := t.TempDir(), []Process{{"this", os.Getpid()}}
	before, err := Read(self, folder)
	kit.Must(t, err)
	const bytes = 100_000
	go func() { _, _ = here.Write(make([]byte, bytes)) }() // what is missing shows below
	kit.Must(t, kit.ErrorOf(io.ReadFull(there, make([]byte, bytes))))
	kit.Must(t, os.WriteFile(filepath.Join(folder, "file"), make([]byte, 1<<20), 0o600))
	after, err := Read(self, folder)
	kit.Must(t, err)

	use := after.Since(before)[0]
	if use.NetworkBytes < bytes || use.NetworkBytes > 2*bytes {
		t.Errorf("%d bytes are counted, %d were sent and as many received", use.NetworkBytes, bytes)
	}

	if use.RSSBytes == 0 || after.Stored < before.Stored {
		t.Errorf("nothing was used: %+v", use)
	}
}

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
		fmt.Fprintf(w, "# TYPE pix_hop_seconds histogram\n"+
			"pix_hop_seconds_bucket{hop=\"queue\",le=\"0.001\"} %d\npix_hop_seconds_bucket{hop=\"queue\",le=\"0.002\"} %d\npix_hop_seconds_bucket{hop=\"queue\",le=\"+Inf\"} %d\n"+
			"pix_hop_seconds_sum{hop=\"queue\"} %g\npix_hop_seconds_count{hop=\"queue\"} %d\n"+
			"# TYPE go_memstats_mallocs_total counter\ngo_memstats_mallocs_total %d\n", n/2, n, n,
			float64(n)*0.001, n, n*7)
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
		"median":      {counted.Quantile(0.5, HopSeconds, "queue"), 0.001},
		"p99":         {counted.Quantile(0.99, HopSeconds, "queue"), 0.00198},
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
