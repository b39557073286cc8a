package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
}

// StartEvents begins a stream. timeout is how long one event may take to be written.
func StartEvents(w http.ResponseWriter, timeout time.Duration) *EventStream {
	s := &EventStream{w: w, control: http.NewResponseController(w), timeout: timeout}
	NoReadDeadline(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	return s
}

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
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if id != "" {
		fmt.Fprintf(&s.text, "id: %s\n", id)
	}
	fmt.Fprintf(&s.text, "event: %s\ndata: %s\n\n", event, text)
	return s.write()
}

// KeepAlive writes a comment. An id becomes the last event id of the client.
func (s *EventStream) KeepAlive(id string) error {
	s.text.WriteString(": keep-alive\n")
	if id != "" {
		fmt.Fprintf(&s.text, "id: %s\n", id)
	}
	s.text.WriteString("\n")
	return s.write()
}

func (s *EventStream) write() error {
	defer s.text.Reset()
	_ = s.control.SetWriteDeadline(time.Now().Add(s.timeout))
	if _, err := s.w.Write(s.text.Bytes()); err != nil {
		return err
	}
	return s.control.Flush()
}
