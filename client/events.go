package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	// silenceMax is the longest silence of a stream. The server sends comments more often.
	silenceMax    = time.Minute
	eventBytesMax = 1 << 20
)

// event is an event of a stream. id is the position after it. The next event overwrites the data.
type event struct {
	id, name string
	data     []byte
}

// Follow calls each with every new state of a payment, and returns the final one. It reconnects
// after a break, within RetryFor, until the context ends. With an error it returns the last
// state that it saw.
func (c *Client) Follow(ctx context.Context, endToEndID string, each func(PaymentState)) (PaymentState, error) {
	return followStates(ctx, c, call{operation: opPaymentEvents, values: []string{endToEndID}}, each)
}

// FollowReturn is Follow for a return.
func (c *Client) FollowReturn(ctx context.Context, returnID string, each func(ReturnState)) (ReturnState, error) {
	return followStates(ctx, c, call{operation: opReturnEvents, values: []string{returnID}}, each)
}

// outcome is the state of a payment or a return.
type outcome interface {
	reached() string
	Final() bool
}

func followStates[S outcome](ctx context.Context, c *Client, events call, each func(S)) (S, error) {
	var last S
	err := c.stream(ctx, func() call { return events },
		func(e event) (bool, error) {
			if len(e.data) == 0 {
				return false, nil
			}

			var state S
			if err := json.Unmarshal(e.data, &state); err != nil {
				return false, fmt.Errorf("event %q: %w", e.name, err)
			}

			if state.reached() != last.reached() {
				last = state
				if each != nil {
					each(state)
				}
			}

			return state.Final(), nil
		})

	return last, err
}

// Everybody stands for all participants, whom only the central bank follows.
const Everybody = "all"

// Settlements calls each when a payment of a participant, or of Everybody, ends: from "start", from "end" (now),
// or from an earlier position. A settlement may come more than once: compare EndToEndID. The
// position is where to continue after it. Settlements reconnects after a break, until each
// returns stop or the context ends.
func (c *Client) Settlements(ctx context.Context, participant, from string,
	each func(s Settlement, position string) (stop bool, err error)) error {
	return c.stream(ctx, func() call {
		return call{operation: opSettlements, query: url.Values{"participant": {participant}, "from": {from}}}
	}, func(e event) (bool, error) {
		if e.id != "" {
			from = e.id // after a break the stream continues here
		}

		if len(e.data) == 0 {
			return false, nil
		}

		var s Settlement
		if err := json.Unmarshal(e.data, &s); err != nil {
			return false, fmt.Errorf("event %q: %w", e.id, err)
		}

		return each(s, e.id)
	})
}

// stream reads events until take returns stop. After a break it opens the stream again.
func (c *Client) stream(ctx context.Context, next func() call, take func(event) (stop bool, err error)) error {
	retries := c.retries()
	for {
		stopped, err := c.streamOnce(ctx, next(), func(e event) (bool, error) {
			retries = c.retries() // the stream works
			return take(e)
		})
		switch {
		case stopped || err != nil && !TryAgain(err):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !retries.pause(ctx, err):
			if ctx.Err() != nil {
				return ctx.Err()
			}

			return err
		}
	}
}

// open sends a request, and returns the body of a good response, to be read as it comes.
func (c *Client) open(ctx context.Context, call call) (io.ReadCloser, error) {
	request, err := c.request(ctx, call)
	if err != nil {
		return nil, err
	}

	response, err := c.http.Do(request)
	if err != nil {
		return nil, unanswered(ctx, err)
	}

	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(response.Body, eventBytesMax)) // a part is enough
		return nil, problemOf(response, text)
	}

	return response.Body, nil
}

// streamOnce reads one stream. Unless take stopped it, its end is an error for which TryAgain
// is true.
func (c *Client) streamOnce(ctx context.Context, call call, take func(event) (bool, error)) (stopped bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(c.Timeout, func() { cancel(fmt.Errorf("no response within %v", c.Timeout)) })
	defer silence.Stop()

	body, err := c.open(ctx, call)
	if err != nil {
		return false, err
	}
	defer body.Close()
	silence.Stop()
	lines := bufio.NewScanner(&heard{body, func() { cancel(fmt.Errorf("the stream was silent for %v", silenceMax)) }})
	lines.Buffer(nil, eventBytesMax)

	err = readEvents(lines, func(e event) (bool, error) {
		stopped, err = take(e)
		return stopped, err
	})
	switch {
	case stopped || err != nil:
		return stopped, err
	case errors.Is(lines.Err(), bufio.ErrTooLong):
		return false, fmt.Errorf("an event has a line of more than %d bytes", eventBytesMax)
	case lines.Err() != nil:
		return false, unanswered(ctx, lines.Err())
	}

	return false, &Unanswered{errors.New("the stream ended")}
}

// heard is a stream of which no read may be silent for longer than silenceMax. Between reads the caller takes its time.
type heard struct {
	io.Reader
	silent func()
}

func (h *heard) Read(into []byte) (int, error) {
	silence := time.AfterFunc(silenceMax, h.silent)
	defer silence.Stop()
	return h.Reader.Read(into)
}

// readEvents reads server-sent events: those with data, and those that only move the position,
// which this API sends to keep a stream alive.
func readEvents(lines *bufio.Scanner, take func(event) (stop bool, err error)) error {
	var e event
	told := e.id

	for lines.Scan() { // at the end an event without an empty line after it is incomplete: drop it
		line := lines.Bytes()
		if len(line) == 0 {
			if len(e.data) > 0 || e.id != told {
				told = e.id
				if stop, err := take(e); stop || err != nil {
					return err
				}
			}
			e = event{id: e.id, data: e.data[:0]}

			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))

		switch string(name) {
		case "id":
			e.id = string(value)
		case "event":
			e.name = string(value)
		case "data":
			if len(e.data) > 0 {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
		}

		if len(e.data) > eventBytesMax {
			return fmt.Errorf("an event has more than %d bytes", eventBytesMax)
		}
	}

	return nil
}
