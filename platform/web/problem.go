package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// Problem is a response that is an error, as problem+json (RFC 9457).
type Problem struct {
	Type       string        `json:"type" doc:"A stable name of the kind of problem."`
	Title      string        `json:"title" doc:"The kind in words."`
	Status     int           `json:"status" doc:"The HTTP status."`
	Detail     string        `json:"detail" doc:"What is wrong this time, and what to do."`
	Field      string        `json:"field,omitempty" doc:"The field of the request."`
	Value      any           `json:"value,omitempty" doc:"What the field held."`
	Rule       string        `json:"rule,omitempty" doc:"What the field must be."`
	Code       string        `json:"code,omitempty" doc:"The reason code of the payment system."`
	EndToEndID string        `json:"end_to_end_id,omitempty" doc:"The payment or return."`
	RequestID  string        `json:"request_id,omitempty" doc:"The X-Request-Id of the response: tell the operator. The request's, if it had one."`
	RetryAfter time.Duration `json:"-"` // sent as a header, in whole seconds
	Challenge  string        `json:"-"` // sent as the header WWW-Authenticate
}

// Kind returns the type of a problem for its short name.
func Kind(name string) string { return "urn:liquida:problem:" + name }

// RequestID is the header that names a request, in logs of proxies and here.
const RequestID = "X-Request-Id"

var requestID = regexp.MustCompile(`^[0-9A-Za-z._-]{1,64}$`)

// NamesRequests has each response name its request: by the request's own id, or by one that is made.
func NamesRequests(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(RequestID)
		if !requestID.MatchString(id) {
			id = fmt.Sprintf("%016x", rand.Uint64())
		}
		w.Header().Set(RequestID, id)
		handler.ServeHTTP(w, r)
	})
}

// Write sends the problem as the response.
func (p *Problem) Write(w http.ResponseWriter) {
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(p.RetryAfter.Seconds()))))
	}

	if p.Challenge != "" {
		w.Header().Set("WWW-Authenticate", p.Challenge)
	}
	p.RequestID = w.Header().Get(RequestID)
	write(w, "application/problem+json", p.Status, p)
}

// WriteJSON sends a response that is not a problem.
func WriteJSON(w http.ResponseWriter, status int, body any) {
	write(w, "application/json", status, body)
}

func write(w http.ResponseWriter, contentType string, status int, body any) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // an error means that the client is gone
}

// bodies are buffers for requests. Each has at most the bytes that a body may have.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// ReadJSON decodes one JSON object into target, as strictly as DecodeJSON.
func ReadJSON(body io.Reader, target any) *Problem {
	buffer := bodies.Get().(*bytes.Buffer)
	defer bodies.Put(buffer) // nothing that was decoded, and no problem, holds a part of it
	buffer.Reset()
	_, err := buffer.ReadFrom(body)

	text := buffer.Bytes()
	if err == nil {
		err = DecodeJSON(text, target)
	}

	if err == nil {
		return nil
	}

	if tooLarge, is := errors.AsType[*http.MaxBytesError](err); is {
		return &Problem{Type: Kind("too-large"), Title: "Request too large", Status: http.StatusRequestEntityTooLarge,
			Detail: fmt.Sprintf("the body has more than %d bytes: send at most that", tooLarge.Limit)}
	}

	problem := &Problem{Type: Kind("malformed"), Title: "Malformed request", Status: http.StatusBadRequest,
		Detail: err.Error()}
	switch wrong := err.(type) { //nolint:errorlint // encoding/json wraps none of them
	case *FieldError:
		problem.Field, problem.Rule = wrong.Field, wrong.Rule
		problem.Detail += placeIn(text, wrong.Offset)
	case *json.UnmarshalTypeError:
		problem.Field, problem.Value, problem.Rule = wrong.Field, wrong.Value, described(wrong.Type)
		problem.Detail = fmt.Sprintf("%s is %s: it must be %s", cmp.Or(wrong.Field, "the body"), wrong.Value,
			described(wrong.Type)) + placeIn(text, int(wrong.Offset)-1)
	case *json.SyntaxError:
		problem.Detail += ": send one JSON object" + placeIn(text, int(wrong.Offset)-1)
	default:
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			problem.Detail = "the JSON object ends too early, or the body is empty: send one whole object" +
				placeIn(text, len(text))
		}
	}

	return problem
}

// placeIn says where in a text something is, for people: the offset is in bytes, from 0, and so
// are columns, from 1.
func placeIn(text []byte, offset int) string {
	before := text[:max(0, min(offset, len(text)))]
	return fmt.Sprintf(" (line %d, column %d)", 1+bytes.Count(before, []byte("\n")),
		len(before)-bytes.LastIndexByte(before, '\n'))
}

func described(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Uint64:
		return "an integer of at least 0"
	case reflect.Int64:
		return "an integer"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}

	return "a " + t.String()
}
