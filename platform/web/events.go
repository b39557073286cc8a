package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// EventStream writes server-sent events. The server's time limits end with it: each event
// has its own instead, so that a client that does not read is not waited for.
type EventStream struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
	text     bytes.Buffer
}

// StartEvents begins a stream; patience is how long one event may take to be written.
func StartEvents(w http.ResponseWriter, patience time.Duration) *EventStream {
	s := &EventStream{w: w, control: http.NewResponseController(w), patience: patience}
	NoReadDeadline(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	return s
}

// NoReadDeadline keeps a request whose body is read alive past the server's read timeout,
// which would else end its context.
func NoReadDeadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // not supported: no deadline then
}

// Send writes one event; an empty id leaves the client's last one.
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

// KeepAlive writes a comment and, with an id, moves on the client's last event id.
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
	_ = s.control.SetWriteDeadline(time.Now().Add(s.patience))
	if _, err := s.w.Write(s.text.Bytes()); err != nil {
		return err
	}
	return s.control.Flush()
}
