package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Problem is an answer that is an error, as problem+json (RFC 9457).
type Problem struct {
	Type       string        `json:"type"`                    // a stable name of the kind of problem
	Title      string        `json:"title"`                   // the same in words
	Status     int           `json:"status"`                  // the HTTP status
	Detail     string        `json:"detail"`                  // what is wrong this time and what to do
	Field      string        `json:"field,omitempty"`         // which field of the request
	Value      any           `json:"value,omitempty"`         // what it held
	Rule       string        `json:"rule,omitempty"`          // what it must be
	Code       string        `json:"code,omitempty"`          // the reason code of the payment system
	EndToEndID string        `json:"end_to_end_id,omitempty"` // the payment
	RetryAfter time.Duration `json:"-"`                       // sent as a header, in whole seconds
	Challenge  string        `json:"-"`                       // sent as the header WWW-Authenticate
}

// Kind makes the type of a problem from its short name.
func Kind(name string) string { return "urn:liquida:problem:" + name }

// Write sends the problem.
func (p *Problem) Write(w http.ResponseWriter) {
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(p.RetryAfter.Seconds()))))
	}
	if p.Challenge != "" {
		w.Header().Set("WWW-Authenticate", p.Challenge)
	}
	write(w, "application/problem+json", p.Status, p)
}

// WriteJSON sends an answer that is not a problem.
func WriteJSON(w http.ResponseWriter, status int, body any) {
	write(w, "application/json", status, body)
}

func write(w http.ResponseWriter, contentType string, status int, body any) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client has gone: nobody to tell
}

// ReadJSON decodes one JSON object, and nothing after it, into target. Fields that the
// target does not have are refused: a typing error must not change what a request means.
func ReadJSON(body io.Reader, target any) *Problem {
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(target)
	if err == nil {
		if _, err = decoder.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err == nil || !errors.As(err, new(*http.MaxBytesError)) {
			err = errors.New("something follows the JSON object: send one object and nothing else")
		}
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return &Problem{Type: Kind("too-large"), Title: "Request too large", Status: http.StatusRequestEntityTooLarge,
			Detail: fmt.Sprintf("the body has more than %d bytes: send at most that", tooLarge.Limit)}
	}
	problem := &Problem{Type: Kind("malformed"), Title: "Malformed request", Status: http.StatusBadRequest, Detail: err.Error()}
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		problem.Field, problem.Value, problem.Rule = wrongType.Field, wrongType.Value, described(wrongType.Type)
		problem.Detail = fmt.Sprintf("%s is %s: it must be %s", nameOf(wrongType.Field), wrongType.Value, described(wrongType.Type))
	} else if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		problem.Field, _ = strconv.Unquote(name)
		problem.Rule = "a field that the API's description names"
		problem.Detail = fmt.Sprintf("field %s is not known: remove it or correct its name", name)
	} else if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		problem.Detail = "the JSON object ends too early, or the body is empty: send one whole object"
	}
	return problem
}

func nameOf(field string) string {
	if field == "" {
		return "the body"
	}
	return field
}

func described(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Uint64:
		return "an integer from 0 to 18446744073709551615"
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
