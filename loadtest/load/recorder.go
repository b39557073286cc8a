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

// Record adds a latency. A longer one than latencyMax counts as that.
func (r *Recorder) Record(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.histogram.RecordValue(min(max(took, time.Microsecond), latencyMax).Microseconds()) // in its range
}

// Latency sums up what was recorded.
func (r *Recorder) Latency(kind string) Latency {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.histogram
	at := func(quantile float64) float64 { return float64(h.ValueAtQuantile(quantile)) / 1e3 }

	return Latency{kind, h.TotalCount(), at(50), at(90), at(95), at(99), at(99.9), float64(h.Max()) / 1e3,
		h.Mean() / 1e3}
}
