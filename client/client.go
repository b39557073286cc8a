// Package client is for Liquida's HTTP API. It sends payments so that each is made once,
// whatever breaks on the way, and reads states, balances, statements and streams.
//
// It is written by hand from services/producer/openapi.json. A test compares the two.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// DefaultURL is the API of make up.
const DefaultURL = "http://127.0.0.1:8080"

// Limits of what a server, which may be any, can send.
const (
	answerBytesMax = 64 << 20
	keyBytesMax    = 4096
	retryAfterMax  = 30 * time.Second
)

// Client is safe for many goroutines. Set its times before the first request.
type Client struct {
	// Timeout bounds one request, without the wait for an outcome. For a stream it bounds the
	// beginning. Default 10 s.
	Timeout time.Duration
	// RetryFor bounds the retries of a request without a response, or with 429 or 5xx. The first
	// try is always made. Default 30 s.
	RetryFor time.Duration

	// OnRetry is called before the pause that comes before a retry, with what went wrong and the time that is
	// left for retries. nil: retries are silent.
	OnRetry func(err error, left time.Duration)

	silence time.Duration // longest between two parts of a statement of a day

	base *url.URL
	key  string
	http *http.Client
}

// New returns a client of the API at an address such as DefaultURL. Every request carries the
// key, if there is one (Authorization: Bearer).
func New(address, key string) (*Client, error) {
	base, err := url.Parse(address)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("the address of the API is %q: it must be like %s", address, DefaultURL)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	// there is one host; two would close the connections of whoever asks more at once
	transport.MaxIdleConnsPerHost = transport.MaxIdleConns

	return &Client{Timeout: 10 * time.Second, RetryFor: 30 * time.Second, silence: silenceMax, base: base, key: key,
		http: &http.Client{
			Transport: transport,
			// The API never redirects, and a payment must not go anywhere else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}}, nil
}

// ReadKey reads a key from a file of one line.
func ReadKey(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("cannot read the key: %w", err)
	}
	defer file.Close()

	text, err := io.ReadAll(io.LimitReader(file, keyBytesMax+1))
	if err != nil {
		return "", fmt.Errorf("cannot read the key: %w", err)
	}

	key := strings.TrimSpace(string(text))
	if key == "" || len(text) > keyBytesMax || strings.ContainsFunc(key, func(c rune) bool {
		return c <= ' ' || c > '~'
	}) {
		// The content is a secret, even if it is wrong.
		return "", fmt.Errorf("%s must hold a key and nothing else: one line of at most %d visible characters", path,
			keyBytesMax)
	}

	return key, nil
}

// operation is an operation of the API, by its id in the description.
type operation struct{ id, method, path string }

var (
	opPay           = operation{"pay", "POST", "/v1/payments"}
	opPayment       = operation{"payment", "GET", "/v1/payments/{endToEndId}"}
	opPaymentEvents = operation{"paymentEvents", "GET", "/v1/payments/{endToEndId}/events"}
	opGiveBack      = operation{"giveBack", "POST", "/v1/returns"}
	opReturn        = operation{"returnState", "GET", "/v1/returns/{returnId}"}
	opReturnEvents  = operation{"returnEvents", "GET", "/v1/returns/{returnId}/events"}
	opSettlements   = operation{"settlements", "GET", "/v1/settlements"}
	opAccount       = operation{"account", "GET", "/v1/accounts/{ispb}/{branch}/{number}"}
	opStatement     = operation{"statement", "GET", "/v1/accounts/{ispb}/{branch}/{number}/statement"}
	opParticipants  = operation{"participants", "GET", "/v1/participants"}
	opParticipant   = operation{"participant", "GET", "/v1/participants/{ispb}"}
	opDay           = operation{"dayStatement", "GET", "/v1/participants/{ispb}/statements/{day}"}

	opActOnParticipant = operation{"actOnParticipant", "PUT", "/v1/participants/{ispb}/acts/{actId}"}
	opActOnAccount     = operation{"actOnAccount", "PUT", "/v1/accounts/{ispb}/{branch}/{number}/acts/{actId}"}
	opParticipantActs  = operation{"participantActs", "GET", "/v1/participants/{ispb}/acts"}
	opActs             = operation{"acts", "GET", "/v1/acts"}
	opQuestions        = operation{"questions", "GET", "/v1/participants/{ispb}/questions"}
	opAnswer           = operation{"answer", "POST", "/v1/participants/{ispb}/answers"}
	opAccounts         = operation{"accounts", "GET", "/v1/participants/{ispb}/accounts"}
)

// call is a request that may be sent more than once.
type call struct {
	operation
	values []string   // of the path, in order
	query  url.Values // parameters
	header map[string]string
	body   any           // sent as JSON, unless it is an io.Reader
	longer time.Duration // time added to Timeout
}

func (c *Client) request(ctx context.Context, call call) (*http.Request, error) {
	path := call.path
	for _, value := range call.values {
		open, end := strings.IndexByte(path, '{'), strings.IndexByte(path, '}')
		path = path[:open] + url.PathEscape(value) + path[end+1:]
	}

	address := strings.TrimSuffix(c.base.String(), "/") + path
	if len(call.query) > 0 {
		address += "?" + call.query.Encode()
	}

	body, ready := call.body.(io.Reader)
	if call.body != nil && !ready {
		text, err := json.Marshal(call.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}

	request, err := http.NewRequestWithContext(ctx, call.method, address, body)
	if err != nil {
		return nil, err
	}

	if call.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}

	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}

	for name, value := range call.header {
		request.Header.Set(name, value)
	}

	return request, nil
}

// once sends a request and decodes its response.
func (c *Client) once(ctx context.Context, call call, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout+call.longer,
		fmt.Errorf("no response within %v", c.Timeout+call.longer))
	defer cancel()

	request, err := c.request(ctx, call)
	if err != nil {
		return err
	}

	response, err := c.http.Do(request)
	if err != nil {
		return unanswered(ctx, err)
	}
	defer response.Body.Close()

	text, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax+1))
	if err != nil {
		return unanswered(ctx, err)
	}

	if response.StatusCode/100 != 2 {
		return problemOf(response, text)
	}

	if len(text) > answerBytesMax {
		return fmt.Errorf("%s responded with more than %d bytes: ask for less", call.path, answerBytesMax)
	}

	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("the response of %s is not from the API (%w): is %s Liquida's address?", call.path,
			err, c.base)
	}

	return nil
}

// ask sends a request, and retries it within RetryFor if the response allows it. A retry of any
// request of this API is safe: a payment carries its identity. With an error, open reports
// whether a try may have succeeded: not after a final error, or one that says that nothing was done.
func (c *Client) ask(ctx context.Context, call call, into any) (open bool, err error) {
	retries := c.retries()
	for {
		if err = c.once(ctx, call, into); err == nil {
			return false, nil
		}

		if OtherContent(err) || burnt(err) {
			return false, err // nor was an earlier try
		}
		again := TryAgain(err)

		open = open || again && !nothingDone(err)
		if !again || !retries.pause(ctx, err) {
			return open, err
		}
	}
}

// get returns the answer to a call that changes nothing.
func get[V any](ctx context.Context, c *Client, call call) (value V, err error) {
	_, err = c.ask(ctx, call, &value)
	return value, err
}

// submit sends an order or an act with an id. After an *UnknownFate it may have been taken.
func (c *Client) submit(ctx context.Context, call call, id string, into any) error {
	open, err := c.ask(ctx, call, into)
	if open {
		err = &UnknownFate{id, err}
	}

	return err
}

// retries bounds the retries of one request.
type retries struct {
	until   time.Time
	next    time.Duration
	onRetry func(error, time.Duration)
}

func (c *Client) retries() *retries {
	return &retries{time.Now().Add(c.RetryFor), 200 * time.Millisecond, c.OnRetry}
}

// pause waits before the next try: as long as the server asks for, or a growing time. It
// returns false when no time is left.
func (r *retries) pause(ctx context.Context, err error) bool {
	pause := r.next/2 + rand.N(r.next) // random, so that many clients do not return at once

	r.next = min(2*r.next, 5*time.Second)
	if asked := problemIn(err).RetryAfter; asked > 0 {
		pause = min(asked, retryAfterMax)
	}

	if time.Now().Add(pause).After(r.until) {
		return false
	}

	if r.onRetry != nil {
		r.onRetry(err, time.Until(r.until))
	}

	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// Unanswered is the error of a request without a complete response: its effect is unknown.
type Unanswered struct{ Err error }

func (e *Unanswered) Error() string { return e.Err.Error() }
func (e *Unanswered) Unwrap() error { return e.Err }

func unanswered(ctx context.Context, err error) error {
	if notTrusted(err) {
		return err // the server has read no request
	}

	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w (%w)", err, cause)
	}

	return &Unanswered{err}
}

// Problem is an error response (RFC 9457).
type Problem struct {
	Type       string          `json:"type"`
	Title      string          `json:"title"`
	Status     int             `json:"status"`
	Detail     string          `json:"detail"`                  // what is wrong and what to do
	Field      string          `json:"field,omitempty"`         // which field of the request
	Value      json.RawMessage `json:"value,omitempty"`         // its value
	Rule       string          `json:"rule,omitempty"`          // the rule that it breaks
	Code       string          `json:"code,omitempty"`          // the reason code of the payment system
	EndToEndID string          `json:"end_to_end_id,omitempty"` // the payment
	RequestID  string          `json:"request_id,omitempty"`    // under which the API's operator finds it
	RetryAfter time.Duration   `json:"-"`
}

func (p *Problem) Error() string {
	text := fmt.Sprintf("%s (%d): %s", p.Title, p.Status, p.Detail)
	if len(p.Value) > 0 {
		text += "\n  value: " + string(p.Value)
	}

	if p.Rule != "" {
		text += "\n  rule: " + p.Rule
	}

	if p.Code != "" {
		text += "\n  code: " + p.Code
	}

	if p.RequestID != "" {
		text += "\n  request: " + p.RequestID
	}

	return text
}

// problemOf reads an error response. A proxy between client and API may respond something else.
func problemOf(response *http.Response, text []byte) error {
	problem := new(Problem)
	if json.Unmarshal(text, problem) != nil || problem.Title == "" {
		problem = &Problem{Title: http.StatusText(response.StatusCode),
			Detail: fmt.Sprintf("the response is not a problem document: %.200q", text)}
	}

	problem.Status = response.StatusCode
	if seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 31); err == nil {
		problem.RetryAfter = time.Duration(seconds) * time.Second
	}

	return problem
}

// problemIn returns the problem that an error is. Of another error it is empty.
func problemIn(err error) Problem {
	if problem, is := errors.AsType[*Problem](err); is {
		return *problem
	}

	return Problem{}
}

// TryAgain reports whether a retry may help: there was no response, or 429, or 5xx. It does not
// help with a statement that the ledger contradicts, nor with a wrong version of HTTP.
func TryAgain(err error) bool {
	problem, is := errors.AsType[*Problem](err)
	switch {
	case !is:
		return errors.As(err, new(*Unanswered))
	case problem.Type == "urn:liquida:problem:broken-law" || problem.Status == http.StatusHTTPVersionNotSupported:
		return false
	}

	return problem.Status == http.StatusTooManyRequests || problem.Status >= 500
}

// OtherContent reports whether an error says that the ledger knows the id with other content: no money
// moves for what was sent.
func OtherContent(err error) bool {
	return problemIn(err).Type == "urn:liquida:problem:other-content"
}

// nothingDone reports whether an error says that its request did nothing: 429, and a 503 of the API that
// leaves no fate open. That of an order names the order.
func nothingDone(err error) bool {
	problem := problemIn(err)
	ours := strings.HasPrefix(problem.Type, "urn:liquida:problem:") &&
		problem.Type != "urn:liquida:problem:unknown-fate"

	return problem.Status == http.StatusTooManyRequests || ours && problem.Status == http.StatusServiceUnavailable &&
		problem.EndToEndID == ""
}

// burnt reports whether an error says that the ledger refuses the id of an act, so that no try under it
// does the act.
func burnt(err error) bool {
	problem := problemIn(err)
	return problem.Type == "urn:liquida:problem:act-refused" &&
		(problem.Status == http.StatusUnprocessableEntity || problem.Field == "act_id")
}

// NotFound reports whether an error says that the ledger does not know the id.
func NotFound(err error) bool { return problemIn(err).Status == http.StatusNotFound }
