package submission

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/field"
)

// BatchConfig bounds the batches.
type BatchConfig struct {
	LinesMax   int           `env:"BATCH_LINES_MAX" envDefault:"10000" range:"1 to 100000" help:"payments in one batch"`
	BytesMax   int64         `env:"BATCH_BYTES_MAX" envDefault:"4194304" range:"1024 to 67108864" help:"bytes in one batch; a line has at most HTTP_BODY_BYTES_MAX"`
	BatchesMax int           `env:"BATCHES_MAX" envDefault:"64" range:"1 to 1000" help:"batches at the same time; above it 429"`
	Timeout    time.Duration `env:"BATCH_TIMEOUT" envDefault:"1m" range:"1s to 10m" help:"for a whole batch to arrive"`
}

// batches is what all batches share. A batch is NDJSON: one JSON object a line. The response
// has one line for each, in the same order, as soon as Kafka has acknowledged it. Each line
// stands for itself: a wrong one does not affect the others.
type batches struct {
	config  BatchConfig
	lineMax int // bytes
	permits *web.Pool
	lines   *prometheus.CounterVec
}

// admittedFor is how long a batch may send lines until they are admitted again: otherwise slow
// batches that began in a quiet moment would pass an overload by.
const admittedFor = 2 * time.Second

// BatchWindow bounds the payments of one batch that wait for Kafka's acknowledgement.
const BatchWindow = 256

func newBatches(config BatchConfig, lineMax int, pools *web.Pools, registry prometheus.Registerer) batches {
	b := batches{config: config, lineMax: lineMax, permits: pools.Pool("batches", "BATCHES_MAX", config.BatchesMax),
		lines: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "pix_producer_batch_lines_total",
				Help: "Lines of batches answered, by result: accepted, or the HTTP status of the problem."},
			[]string{"result"})}
	registry.MustRegister(b.lines)

	return b
}

// BatchResult is one line of the response.
type BatchResult struct {
	Line       int          `json:"line"`
	EndToEndID string       `json:"end_to_end_id,omitempty"`
	Status     string       `json:"status,omitempty" enum:"accepted"`
	Problem    *web.Problem `json:"problem,omitempty"`
}

// batchLine is a line that was read. Its delivery may still be on its way.
type batchLine struct {
	result   BatchResult
	payment  *sending  // nil: it is none
	delivery *delivery // nil: not sent
}

// PayBatch serves POST /v1/payments:batch.
func (s *Submissions) PayBatch(w http.ResponseWriter, r *http.Request) *web.Problem {
	b, who := &s.batches, access.Of(r)
	if problem := s.gate.Admit(who.Name()); problem != nil {
		return problem
	}

	if problem := b.permits.Take(who.Name()); problem != nil {
		return problem
	}
	defer b.permits.Free(who.Name())

	if r.ContentLength > b.config.BytesMax {
		return b.tooManyBytes()
	}
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // results are written while lines are still read
	_ = control.SetReadDeadline(time.Now().Add(b.config.Timeout))
	_ = control.SetWriteDeadline(time.Now().Add(b.config.Timeout + 2*s.timeout))
	// A key that was revoked ends a batch whose next line does not come, too.
	interrupted := make(chan struct{})
	stop := context.AfterFunc(r.Context(), func() {
		defer close(interrupted)
		_ = control.SetReadDeadline(time.Now())
	})
	defer func() {
		if !stop() {
			<-interrupted
		}
	}()

	// With room for all lines, a client that reads only after it has written is served too.
	lines := make(chan *batchLine, b.config.LinesMax+1)
	go s.readBatch(r.Context(), r.Body, lines)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(web.Unbuffered, "no")
	buffer := bufio.NewWriterSize(w, 16<<10)
	encoder := json.NewEncoder(buffer)
	gone := false

	for line := range lines { // to the end, even when the client is gone: each line that was read is counted
		if line.delivery != nil {
			if len(line.delivery.acknowledged) == 0 && !gone { // known results need not wait for this one
				gone = flush(buffer, control) != nil
			}

			if err := line.delivery.wait(who); err != nil {
				line.result = BatchResult{Line: line.result.Line, Problem: notPublished(line.result.EndToEndID, err)}
			} else {
				s.crash.Pass(afterAcknowledged)
			}
		}

		if line.result.Problem != nil {
			b.lines.WithLabelValues(fmt.Sprint(line.result.Problem.Status)).Inc()
		} else {
			b.lines.WithLabelValues(line.result.Status).Inc()
		}

		if gone {
			continue
		}

		gone = encoder.Encode(line.result) != nil
		if len(lines) == 0 && !gone {
			gone = flush(buffer, control) != nil
		}
	}
	// Read the rest of a body that broke a limit; BATCH_BYTES_MAX and BATCH_TIMEOUT bound it.
	// In full duplex the server would otherwise read it beside the next request of the
	// connection, and panic. What cannot be read it would take for the next request: whoever shares the connection, as
	// behind a proxy, would get the answer to what a batch holds. After too many bytes it closes the connection itself.
	if _, err := io.Copy(io.Discard, r.Body); err != nil && !errors.As(err, new(*http.MaxBytesError)) {
		panic(http.ErrAbortHandler)
	}

	return nil
}

func flush(buffer *bufio.Writer, control *http.ResponseController) error {
	if buffer.Buffered() == 0 {
		return nil
	}

	if err := buffer.Flush(); err != nil {
		return err
	}

	return control.Flush()
}

// readBatch publishes the payments of a body and hands over their lines in order, until the
// body ends or breaks a limit of the whole batch. Lines that have come together share the question
// to the ledger.
func (s *Submissions) readBatch(ctx context.Context, body io.Reader, lines chan<- *batchLine) {
	b, who := &s.batches, access.From(ctx)
	groups := make(chan *group, groupsMax)
	defer close(groups)
	go s.sendGroups(who, groups, lines)
	reader := bufio.NewReaderSize(body, b.lineMax+2) // and the end of the line
	taken, admitted := 0, time.Now()
	var together []*batchLine
	hand := func() {
		if len(together) > 0 {
			groups <- s.compareGroup(ctx, together)
			together = nil
		}
	}
	defer hand()

	for number := 1; ; number++ {
		end := func(problem *web.Problem) {
			together = append(together, &batchLine{result: BatchResult{Line: number, Problem: problem}})
		}
		// the next line may be long in coming
		if more, _ := reader.Peek(reader.Buffered()); len(together) == BatchWindow || bytes.IndexByte(more, '\n') < 0 {
			hand()
		}
		text, err := reader.ReadSlice('\n')

		ended := errors.Is(err, io.EOF) && len(bytes.TrimSpace(text)) == 0
		if problem := who.Ended(); problem != nil && !ended { // if nothing more comes, all was answered
			problem.Detail += "; neither this line nor what follows was sent"
			end(problem)
			return
		}

		switch {
		case err == nil || errors.Is(err, io.EOF):
		case errors.Is(err, bufio.ErrBufferFull):
			end(&web.Problem{Type: web.Kind("too-large"), Title: "Line too large",
				Status: http.StatusRequestEntityTooLarge,
				Detail: fmt.Sprintf("the line has more than HTTP_BODY_BYTES_MAX bytes (%d): neither it nor what follows was sent",
					b.lineMax)})

			return
		case errors.As(err, new(*http.MaxBytesError)):
			end(b.tooManyBytes())
			return
		case ctx.Err() != nil: // the connection ends, which is not what the sender wrote
			end(&web.Problem{Type: web.Kind("interrupted"), Title: "Interrupted", Status: http.StatusServiceUnavailable,
				RetryAfter: time.Second,
				Detail:     "the request ended before its body: neither this line nor what follows was sent, send it again"})

			return
		default:
			end(&web.Problem{Type: web.Kind("malformed"), Title: "Malformed request", Status: http.StatusBadRequest,
				Detail: fmt.Sprintf("the body cannot be read to its end (%v): neither this line nor what follows was sent",
					err)})

			return
		}

		if text = bytes.TrimSpace(text); len(text) > 0 { // empty lines are skipped
			if taken++; taken > b.config.LinesMax {
				end(&web.Problem{Type: web.Kind("too-large"), Title: "Batch too large",
					Status: http.StatusRequestEntityTooLarge,
					Detail: fmt.Sprintf("more than BATCH_LINES_MAX lines (%d): neither this line nor what follows was sent, send it in another batch",
						b.config.LinesMax)})

				return
			}

			var refusal *web.Problem
			if time.Since(admitted) > admittedFor {
				refusal, admitted = s.gate.Admit(who.Name()), time.Now()
			}

			if refusal != nil {
				admitted = time.Time{} // the next line asks again
				end(refusal)
			} else {
				together = append(together, s.readLine(who, number, text))
			}
		}

		if err == nil {
			continue
		}

		if taken == 0 {
			end(&web.Problem{Type: web.Kind("malformed"), Title: "Malformed request", Status: http.StatusBadRequest,
				Detail: "the batch has no line: send one JSON object a line"})
		}

		return
	}
}

func (b *batches) tooManyBytes() *web.Problem {
	return &web.Problem{Type: web.Kind("too-large"), Title: "Batch too large", Status: http.StatusRequestEntityTooLarge,
		Detail: fmt.Sprintf("more than BATCH_BYTES_MAX bytes (%d): neither this line nor what follows was sent, send it in another batch",
			b.config.BytesMax)}
}

// readLine reads one payment, or says what is wrong with it.
func (s *Submissions) readLine(who access.Caller, number int, text []byte) *batchLine {
	line := &batchLine{result: BatchResult{Line: number}}

	var body Payment
	if line.result.Problem = field.ReadJSON(bytes.NewReader(text), &body); line.result.Problem != nil {
		return line
	}

	if line.result.Problem = s.closed(); line.result.Problem != nil {
		return line
	}

	payment, problem := body.sending(s.now())
	if problem == nil {
		problem = s.leaves(who, &body)
	}

	if problem == nil {
		problem = who.TakeTurn()
	}

	if problem != nil {
		line.result.Problem = problem
		return line
	}
	line.payment = payment

	return line
}

// group is lines that have come together. They share the question to the ledger, which is asked while more
// lines are read.
type group struct {
	lines    []*batchLine
	compared chan struct{} // closed when the ledger has answered
}

// groupsMax bounds the groups of a batch that wait for the ledger. A group is what the buffer holds.
const groupsMax = 16

// compareGroup begins to compare the payments of lines with the ledger.
func (s *Submissions) compareGroup(ctx context.Context, lines []*batchLine) *group {
	g := &group{lines: lines, compared: make(chan struct{})}
	var payments []*sending

	for _, line := range lines {
		if line.payment != nil {
			payments = append(payments, line.payment)
		}
	}
	go func() {
		defer close(g.compared)
		s.compare(ctx, payments...)
	}()

	return g
}

// sendGroups publishes payments, and hands their lines over, in their order.
func (s *Submissions) sendGroups(who access.Caller, groups <-chan *group, lines chan<- *batchLine) {
	defer close(lines)
	window := make(chan struct{}, BatchWindow)

	for g := range groups {
		<-g.compared

		for _, line := range g.lines {
			if line.payment != nil {
				s.sendLine(who, line, window)
			}
			lines <- line
		}
	}
}

// sendLine publishes the payment of a line, unless there is a problem.
func (s *Submissions) sendLine(who access.Caller, line *batchLine, window chan struct{}) {
	if line.result.Problem = line.payment.problem; line.result.Problem != nil {
		return
	}
	id := line.payment.ID.String()
	line.result.EndToEndID, line.result.Status = id, "accepted"

	select {
	case window <- struct{}{}:
	case <-time.After(s.timeout):
		line.result = BatchResult{Line: line.result.Line, Problem: tooManyInFlight(id)}
		return
	}
	line.delivery = s.publish(who, line.payment, func() { <-window })
}
