package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Recorder collects latencies of anything, from any goroutine.
type Recorder struct {
	mu        sync.Mutex
	histogram *hdrhistogram.Histogram
}

// NewRecorder returns a Recorder without latencies.
func NewRecorder() *Recorder {
	return &Recorder{histogram: hdrhistogram.New(1, latencyMax.Microseconds(), latencyDigits)}
}

// Record adds a latency.
func (r *Recorder) Record(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	observe(r.histogram, took)
}

// Latency sums up what was recorded.
func (r *Recorder) Latency(kind string) Latency {
	r.mu.Lock()
	defer r.mu.Unlock()
	return latency(kind, r.histogram)
}
