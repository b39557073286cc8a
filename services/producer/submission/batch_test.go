package submission

import (
	"context"
	"io"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/overload"
	"github.com/liquida/liquida/services/producer/query"
)

// brokenBody ends with its request, as a connection does.
type brokenBody struct{ end context.CancelFunc }

func (b brokenBody) Read([]byte) (int, error) {
	b.end()
	return 0, os.ErrDeadlineExceeded
}

// A connection that ends is not the sender's mistake: what is told is not sent may be sent again.
func TestABatchWhoseRequestEndsMayBeSentAgain(t *testing.T) {
	s := &Submissions{Publisher: &Publisher{now: time.Now,
		gate: overload.NewGate(overload.Config{Age: time.Second}, prometheus.NewRegistry())},
		batches: batches{config: BatchConfig{LinesMax: 10, BytesMax: 1000}, lineMax: 100}, ledger: &query.Ledger{}}
	ctx, end := context.WithCancel(
		access.With(httptest.NewRequest("POST", "/v1/payments:batch", nil), access.Caller{}).Context())
	lines := make(chan *batchLine, 11)
	s.readBatch(ctx, io.NopCloser(brokenBody{end}), lines)

	line := <-lines
	if problem := line.result.Problem; problem == nil || problem.Status != 503 || problem.RetryAfter == 0 {
		t.Errorf("%+v", problem)
	}

	if more, open := <-lines; open {
		t.Errorf("one more line: %+v", more)
	}
}
