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

// batchLine is one line of the answer to a batch.
type batchLine struct {
	Line       int      `json:"line"`
	EndToEndID string   `json:"end_to_end_id,omitempty"`
	Status     string   `json:"status,omitempty"`
	Problem    *Problem `json:"problem,omitempty"`
}

// BatchResult is what became of a payment of a batch. Without an error it was taken and will
// be settled or rejected. An *UnknownFate may have been taken; any other error was not.
type BatchResult struct {
	EndToEndID string
	Err        error
}

// PayBatch sends payments in one request, and what was not answered again, as Pay does one: so
// each is made once, whatever breaks. A payment without an EndToEndId is given one, also in
// the slice. It does not wait for outcomes. With an error the whole was refused, and nothing
// was taken. The server's limits hold for the whole: BATCH_LINES_MAX, BATCH_BYTES_MAX.
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
		var why error // to try again
		for at, i := range pending {
			switch {
			case at < len(answers) && answers[at].Problem == nil:
				results[i].Err, open[i] = nil, false
				continue
			case at == len(answers)-1 && at > 0 && answers[at].Problem.Status == http.StatusRequestEntityTooLarge:
				again = append(again, i) // it ended the batch, and may fit into another
				continue
			case at < len(answers):
				results[i].Err = answers[at].Problem
			case at < unsent:
				results[i].Err = err
			default: // what came before it ended the batch
				again = append(again, i)
				continue
			}
			if !TryAgain(results[i].Err) {
				continue
			}
			if problem := new(Problem); !errors.As(results[i].Err, &problem) || problem.Status != http.StatusTooManyRequests {
				open[i] = true
			}
			again, why = append(again, i), results[i].Err
		}
		pending = again
		if why != nil && !retries.pause(ctx, why) || ctx.Err() != nil {
			break
		}
	}
	for _, i := range pending {
		if results[i].Err == nil { // never sent, for there was no time
			results[i].Err = &Unanswered{errors.New("not sent: the time to try again was over")}
		}
	}
	for i := range results {
		if open[i] { // also if a later try was refused: an earlier one may have been taken
			results[i].Err = &UnknownFate{results[i].EndToEndID, results[i].Err}
		}
	}
	return results, nil
}

// batchOnce sends payments once. It returns the answers that came, in order; those after
// unsent were not sent. An error is why there are no more answers.
func (c *Client) batchOnce(ctx context.Context, payments []Payment, which []int) (answers []batchLine, unsent int, err error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	for _, i := range which {
		if err := encoder.Encode(payments[i]); err != nil {
			return nil, 0, err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(c.Timeout, func() { cancel(fmt.Errorf("no answer within %v", c.Timeout)) })
	defer silence.Stop()
	request, err := c.request(ctx, call{operation: opPayBatch})
	if err != nil {
		return nil, 0, err
	}
	request.Body, request.ContentLength = io.NopCloser(&body), int64(body.Len())
	request.Header.Set("Content-Type", "application/x-ndjson")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, len(which), unanswered(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
		if err != nil {
			return nil, len(which), unanswered(ctx, err)
		}
		return nil, len(which), problemOf(response, text)
	}
	decoder := json.NewDecoder(io.LimitReader(response.Body, answerBytesMax))
	for len(answers) < len(which) {
		var line batchLine
		if err := decoder.Decode(&line); err != nil {
			if errors.Is(err, io.EOF) && len(answers) > 0 { // the whole answer: what it does not name was not sent
				return answers, len(answers), nil
			}
			return answers, len(which), unanswered(ctx, err)
		}
		silence.Reset(c.Timeout)
		if at := len(answers); line.Line != at+1 || line.Problem == nil && line.EndToEndID != payments[which[at]].EndToEndID {
			return answers, len(which), &Unanswered{fmt.Errorf("line %d of the answer is about line %d, %s: is %s Liquida's address?", at+1, line.Line, line.EndToEndID, c.base)}
		}
		answers = append(answers, line)
	}
	return answers, len(which), nil
}
