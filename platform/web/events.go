package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// EventStream writes server-sent events. Each event has a time limit of its own, in place of
// the server's limits, so that nobody waits for a client that does not read.
type EventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	text    bytes.Buffer
	data    *json.Encoder // to text
}

// StartEvents begins a stream. timeout is how long one event may take to be written.
func StartEvents(w http.ResponseWriter, timeout time.Duration) *EventStream {
	s := &EventStream{w: w, control: http.NewResponseController(w), timeout: timeout}
	s.data = json.NewEncoder(&s.text)
	NoReadDeadline(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(Unbuffered, "no")
	w.WriteHeader(http.StatusOK)

	return s
}

// Unbuffered with "no" has nginx pass on each part of a response at once, not after some kilobytes.
const Unbuffered = "X-Accel-Buffering"

// Bound returns a context that ends with ctx, with stopping, and after a time.
func Bound(ctx, stopping context.Context, longest time.Duration) (context.Context, func()) {
	bounded, cancel := context.WithTimeout(ctx, longest)
	stop := context.AfterFunc(stopping, cancel)
	return bounded, func() { stop(); cancel() }
}

// NoReadDeadline keeps a request alive whose body was read. Otherwise the server's read
// timeout would end its context.
func NoReadDeadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // an error means that there is no deadline
}

// Send writes one event. With an empty id the client keeps its last one.
func (s *EventStream) Send(id, event string, data any) error {
	if err := s.Add(id, event, data); err != nil {
		return err
	}

	return s.Flush()
}

// Add adds an event to those that Flush writes at once. Each write is much more work than an event, for both ends.
func (s *EventStream) Add(id, event string, data any) error {
	before := s.text.Len()
	s.begin(id, event)

	if err := s.data.Encode(data); err != nil { // it ends the line
		s.text.Truncate(before)
		return err
	}

	return s.end()
}

// AddEncoded is Add of data that is JSON in one line: to encode it again would check each of its bytes.
func (s *EventStream) AddEncoded(id, event string, data []byte) error {
	s.begin(id, event)
	s.text.Write(data)
	s.text.WriteByte('\n')

	return s.end()
}

func (s *EventStream) begin(id, event string) {
	s.identify(id)
	s.text.WriteString("event: ")
	s.text.WriteString(event)
	s.text.WriteString("\ndata: ")
}

func (s *EventStream) end() error {
	s.text.WriteByte('\n')

	if s.text.Len() < addedMax {
		return nil
	}

	return s.Flush()
}

// addedMax bounds the bytes that wait for Flush, but for the last event.
const addedMax = 32 << 10

// KeepAlive writes a comment. An id becomes the last event id of the client.
func (s *EventStream) KeepAlive(id string) error {
	s.text.WriteString(": keep-alive\n")
	s.identify(id)
	s.text.WriteByte('\n')

	return s.Flush()
}

func (s *EventStream) identify(id string) {
	if id != "" {
		s.text.WriteString("id: ")
		s.text.WriteString(id)
		s.text.WriteByte('\n')
	}
}

// Flush writes what was added.
func (s *EventStream) Flush() error {
	if s.text.Len() == 0 {
		return nil
	}
	defer s.text.Reset()

	_ = s.control.SetWriteDeadline(time.Now().Add(s.timeout))
	if _, err := s.w.Write(s.text.Bytes()); err != nil {
		return err
	}

	return s.control.Flush()
}
