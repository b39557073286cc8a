package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liquida/liquida/platform/web"
)

// batches takes many payments in one request, one JSON object a line (NDJSON), and answers
// with a line for each, in the same order. Each line stands for itself: it is taken or
// refused whatever becomes of the others, and is answered once Kafka has acknowledged it.
type batches struct {
	config     BatchConfig
	lineMax    int // bytes
	acceptance *acceptance
	slots      chan struct{}
	lines      *prometheus.CounterVec
}

// batchWindow bounds the payments of one batch that wait for Kafka's acknowledgement.
const batchWindow = 256

func newBatches(config BatchConfig, lineMax int, acceptance *acceptance, registry prometheus.Registerer) *batches {
	b := &batches{config: config, lineMax: lineMax, acceptance: acceptance, slots: make(chan struct{}, config.BatchesMax),
		lines: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pix_producer_batch_lines_total", Help: "Lines of batches answered, by result: accepted, or the HTTP status of the problem."}, []string{"result"})}
	registry.MustRegister(b.lines)
	return b
}

// batchResult is one line of the answer.
type batchResult struct {
	Line       int          `json:"line"`
	EndToEndID string       `json:"end_to_end_id,omitempty"`
	Status     string       `json:"status,omitempty" enum:"accepted"`
	Problem    *web.Problem `json:"problem,omitempty"`
}

// batchLine is a line that was read; its result may still be on its way.
type batchLine struct {
	result batchResult
	sent   *sent // nil: not sent
}

// ServeHTTP answers POST /v1/payments:batch.
func (b *batches) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	default:
		(&web.Problem{Type: web.Kind("busy"), Title: "Too many batches", Status: http.StatusTooManyRequests, RetryAfter: time.Second,
			Detail: fmt.Sprintf("BATCHES_MAX batches (%d) are being taken: nothing was sent, send this one again after a pause", b.config.BatchesMax)}).Write(w)
		return
	}
	if r.ContentLength > b.config.BytesMax {
		b.tooManyBytes().Write(w)
		return
	}
	control := http.NewResponseController(w)
	// Results are written while lines are still read, each side in its own time.
	_ = control.EnableFullDuplex()
	_ = control.SetReadDeadline(time.Now().Add(b.config.Timeout))
	_ = control.SetWriteDeadline(time.Now().Add(b.config.Timeout + 2*b.acceptance.timeout))

	// Room for all, so that a client that reads only after it has written is served too.
	lines := make(chan *batchLine, b.config.LinesMax+1)
	go b.read(callerOf(r), r.Body, lines)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	buffer := bufio.NewWriterSize(w, 16<<10)
	encoder := json.NewEncoder(buffer)
	gone := false
	for line := range lines { // to the end also when the client has gone: it was read, so it is sent
		if line.sent != nil {
			if len(line.sent.acknowledged) == 0 && !gone { // what is known need not wait
				gone = b.flush(buffer, control) != nil
			}
			if err := line.sent.wait(); err != nil {
				line.result = batchResult{Line: line.result.Line, Problem: notPublished(line.result.EndToEndID, err)}
			} else {
				b.acceptance.crash.Pass(afterAcknowledged)
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
			gone = b.flush(buffer, control) != nil
		}
	}
	// What is left of a body that broke a limit, bounded by BATCH_BYTES_MAX and
	// BATCH_TIMEOUT: with full duplex the server itself would read on while it awaits the
	// next request of the connection, and panic.
	_, _ = io.Copy(io.Discard, r.Body)
}

func (b *batches) flush(buffer *bufio.Writer, control *http.ResponseController) error {
	if buffer.Buffered() == 0 {
		return nil
	}
	if err := buffer.Flush(); err != nil {
		return err
	}
	return control.Flush()
}

// read sends the payments of the body and hands their lines over in order, until the body
// ends or breaks a limit of the whole batch.
func (b *batches) read(who caller, body io.Reader, lines chan<- *batchLine) {
	defer close(lines)
	reader := bufio.NewReaderSize(body, b.lineMax+2) // and the end of the line
	window := make(chan struct{}, batchWindow)
	taken := 0
	for number := 1; ; number++ {
		refuse := func(problem *web.Problem) {
			lines <- &batchLine{result: batchResult{Line: number, Problem: problem}}
		}
		text, err := reader.ReadSlice('\n')
		switch {
		case err == nil || errors.Is(err, io.EOF):
		case errors.Is(err, bufio.ErrBufferFull):
			refuse(&web.Problem{Type: web.Kind("too-large"), Title: "Line too large", Status: http.StatusRequestEntityTooLarge,
				Detail: fmt.Sprintf("the line has more than HTTP_BODY_BYTES_MAX bytes (%d): neither it nor what follows was sent", b.lineMax)})
			return
		case errors.As(err, new(*http.MaxBytesError)):
			refuse(b.tooManyBytes())
			return
		default:
			refuse(&web.Problem{Type: web.Kind("malformed"), Title: "Malformed request", Status: http.StatusBadRequest,
				Detail: fmt.Sprintf("the body cannot be read to its end (%v): neither this line nor what follows was sent", err)})
			return
		}
		if text = bytes.TrimSpace(text); len(text) > 0 { // an empty line says nothing
			if taken++; taken > b.config.LinesMax {
				refuse(&web.Problem{Type: web.Kind("too-large"), Title: "Batch too large", Status: http.StatusRequestEntityTooLarge,
					Detail: fmt.Sprintf("more than BATCH_LINES_MAX lines (%d): neither this line nor what follows was sent, send it in another batch", b.config.LinesMax)})
				return
			}
			lines <- b.take(who, number, text, window)
		}
		if err == nil {
			continue
		}
		if taken == 0 {
			refuse(&web.Problem{Type: web.Kind("malformed"), Title: "Malformed request", Status: http.StatusBadRequest, Detail: "the batch has no line: send one JSON object a line"})
		}
		return
	}
}

func (b *batches) tooManyBytes() *web.Problem {
	return &web.Problem{Type: web.Kind("too-large"), Title: "Batch too large", Status: http.StatusRequestEntityTooLarge,
		Detail: fmt.Sprintf("more than BATCH_BYTES_MAX bytes (%d): neither this line nor what follows was sent, send it in another batch", b.config.BytesMax)}
}

// take sends one payment, or says what is wrong with it.
func (b *batches) take(who caller, number int, text []byte, window chan struct{}) *batchLine {
	line := &batchLine{result: batchResult{Line: number}}
	var body payment
	if line.result.Problem = web.ReadJSON(bytes.NewReader(text), &body); line.result.Problem != nil {
		return line
	}
	record, problem := body.record(time.Now())
	if problem == nil {
		problem = who.pays(&body)
	}
	if problem == nil {
		problem = who.takesTurn()
	}
	if problem != nil {
		line.result.Problem = problem
		return line
	}
	line.result.EndToEndID, line.result.Status = body.EndToEndID, "accepted"
	room := time.NewTimer(b.acceptance.timeout)
	defer room.Stop()
	select {
	case window <- struct{}{}:
	case <-room.C:
		line.result = batchResult{Line: number, Problem: tooManyInFlight(body.EndToEndID)}
		return line
	}
	line.sent = b.acceptance.send(record, func() { <-window })
	return line
}
