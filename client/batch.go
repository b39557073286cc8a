package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

var opPayBatch = operation{"payBatch", "POST", "/v1/payments:batch"}

// batchLine is a line of the response to a batch.
type batchLine struct {
	Line       int      `json:"line"`
	EndToEndID string   `json:"end_to_end_id,omitempty"`
	Status     string   `json:"status,omitempty"`
	Problem    *Problem `json:"problem,omitempty"`
}

// BatchResult is the result of one payment of a batch. Without an error the API accepted it:
// it is stored. With an *UnknownFate the API may have accepted it, with
// any other error it did not.
type BatchResult struct {
	EndToEndID string
	Err        error
}

// PayBatch sends payments in one request, and retries those without a result as Pay does. So
// each is made once, whatever breaks. It gives an EndToEndId to payments without one, also in
// the slice. It does not wait for outcomes. After an error the API denied the whole batch and
// accepted nothing. The limits of the server are BATCH_LINES_MAX and BATCH_BYTES_MAX.
func (c *Client) PayBatch(ctx context.Context, payments []Payment) ([]BatchResult, error) {
	results, open := make([]BatchResult, len(payments)), make([]bool, len(payments))
	var pending []int

	for i := range payments {
		if payments[i].EndToEndID == "" {
			if payments[i].EndToEndID, results[i].Err = NewEndToEndID(payments[i].Payer); results[i].Err != nil {
				continue
			}
		}
		results[i].EndToEndID = payments[i].EndToEndID
		pending = append(pending, i)
	}

	retries := c.retries()
	for tries := 0; len(pending) > 0; tries++ {
		answers, unsent, err := c.batchOnce(ctx, payments, pending)
		if tries == 0 && len(answers) == 0 && err != nil && !TryAgain(err) {
			return nil, err
		}
		var again []int
		var why error // of the retry

		for at, i := range pending {
			switch {
			case at < len(answers) && answers[at].Problem == nil:
				results[i].Err, open[i] = nil, false
				continue
			case at == len(answers)-1 && at > 0 && answers[at].Problem.Status == http.StatusRequestEntityTooLarge:
				again = append(again, i) // it ended the batch; it may fit into the next one
				continue
			case at < len(answers):
				results[i].Err = answers[at].Problem
			case at < unsent:
				results[i].Err = err
			default: // a line before it ended the batch
				again = append(again, i)
				continue
			}

			if !TryAgain(results[i].Err) {
				open[i] = open[i] && !OtherContent(results[i].Err)
				continue
			}
			open[i] = open[i] || problemIn(results[i].Err).Status != http.StatusTooManyRequests
			again, why = append(again, i), results[i].Err
		}
		pending = again

		if why != nil && !retries.pause(ctx, why) || ctx.Err() != nil {
			break
		}
	}

	for _, i := range pending {
		if results[i].Err == nil { // never sent: there was no time
			results[i].Err = &Unanswered{errors.New("not sent: the time for retries was over")}
		}
	}

	for i := range results {
		if open[i] { // also if a later try was denied: an earlier one may have been accepted
			results[i].Err = &UnknownFate{results[i].EndToEndID, results[i].Err}
		}
	}

	return results, nil
}

// batchOnce sends payments once. It returns the results that came, in order. Payments after
// unsent were not sent. The error says why there are no more results.
func (c *Client) batchOnce(ctx context.Context, payments []Payment,
	which []int) (answers []batchLine, unsent int, err error) {
	var lines bytes.Buffer

	encoder := json.NewEncoder(&lines)
	for _, i := range which {
		if err := encoder.Encode(payments[i]); err != nil {
			return nil, 0, err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(c.Timeout, func() { cancel(fmt.Errorf("no response within %v", c.Timeout)) })
	defer silence.Stop()
	header := map[string]string{"Content-Type": "application/x-ndjson"}

	body, err := c.open(ctx, call{operation: opPayBatch, body: &lines, header: header})
	if err != nil {
		return nil, len(which), err
	}
	defer body.Close()
	decoder := json.NewDecoder(io.LimitReader(body, answerBytesMax))

	for len(answers) < len(which) {
		var line batchLine
		if err := decoder.Decode(&line); err != nil {
			if errors.Is(err, io.EOF) && len(answers) > 0 { // a complete response: what it does not name was not sent
				return answers, len(answers), nil
			}

			return answers, len(which), unanswered(ctx, err)
		}
		silence.Reset(c.Timeout)

		if at := len(answers); line.Line != at+1 || line.Problem == nil &&
			line.EndToEndID != payments[which[at]].EndToEndID {
			return answers, len(which),
				&Unanswered{fmt.Errorf("line %d of the response is about line %d, %s: is %s Liquida's address?", at+1,
					line.Line, line.EndToEndID, c.base)}
		}
		answers = append(answers, line)
	}

	return answers, len(which), nil
}
