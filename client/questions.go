package client

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"
)

// Question is what a bank is asked: whether it will credit its customer.
type Question struct {
	EndToEndID            string    `json:"end_to_end_id"` // or the id of a return
	OriginalEndToEndID    string    `json:"original_end_to_end_id,omitempty"`
	Payer                 Account   `json:"payer"`
	Payee                 Account   `json:"payee"`
	AmountCentavos        int64     `json:"amount_centavos"`
	RemittanceInformation string    `json:"remittance_information,omitempty"`
	AskedAt               time.Time `json:"asked_at"`
	Deadline              time.Time `json:"deadline"` // by the ledger's clock
	LeftMilliseconds      int64     `json:"left_milliseconds"`
}

// News is what became of a question: its payment is settled or rejected, it expired, or the answer was forged: it had
// not the bank's seal, and the question is open.
type News struct {
	EndToEndID string `json:"end_to_end_id"`
	Status     string `json:"status"`
	ReasonCode string `json:"reason_code,omitempty"`
}

// Questions calls ask with each question to a bank, and told, if any, with what became of one, until one of them
// returns an error or the context ends. It begins with all open questions. A question comes again until it is answered
// or over, so an answer must be a function of the question. Programs that name the same share divide the questions
// among them; with "" each is told all.
func (c *Client) Questions(ctx context.Context, ispb, share string, ask func(Question) error,
	told func(News) error) error {
	last := ""

	return c.stream(ctx, func() call {
		open := call{operation: opQuestions, values: []string{ispb}, query: url.Values{}}
		if share != "" {
			open.query.Set("share", share)
		} else if last != "" {
			open.header = map[string]string{"Last-Event-ID": last}
		}

		return open
	}, func(e event) (bool, error) {
		var err error

		switch {
		case len(e.data) == 0:
		case e.name == "question":
			var q Question
			if err = json.Unmarshal(e.data, &q); err == nil {
				if err = ask(q); err == nil {
					last = e.id
				}
			}
		case told != nil:
			var news News
			if err = json.Unmarshal(e.data, &news); err == nil {
				err = told(news)
			}
		}

		return err != nil, err
	})
}

// Secret is what a bank seals its answers with.
type Secret []byte

// ReadSecret returns the first secret of a bank in a file of lines "ISPB SECRET", 64 hexadecimal digits.
func ReadSecret(file, ispb string) (Secret, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}

	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")

		words := strings.Fields(line)
		if len(words) != 2 || words[0] != ispb {
			continue
		}

		if secret, err := hex.DecodeString(words[1]); err == nil && len(secret) == sha256.Size {
			return secret, nil
		}

		return nil, fmt.Errorf("%s: the secret of %s must be %d hexadecimal digits", file, ispb, 2*sha256.Size)
	}

	return nil, fmt.Errorf("%s has no secret of %s", file, ispb)
}

// Answer is a bank's word and its seal.
type Answer struct {
	Value []byte `json:"value"`
	Seal  []byte `json:"seal"`
}

// Answer says that a bank accepts, or with a reason code of four characters that it rejects.
func (s Secret) Answer(ispb, endToEndID, reasonCode string) Answer {
	const accepted, rejected = 1, 2 // AuthorizationStatus
	var value []byte
	text := func(number byte, text string) { // a field of a protobuf message; texts are short
		if text != "" {
			value = append(append(value, number<<3|2, byte(len(text))), text...)
		}
	}
	text(1, endToEndID)
	text(2, ispb)

	status := byte(accepted)
	if reasonCode != "" {
		status = rejected
	}
	value = append(value, 3<<3, status)
	text(4, reasonCode)
	seal := hmac.New(sha256.New, s)
	seal.Write(value)

	return Answer{value, seal.Sum(nil)}
}

// AnswersMax is how many answers go in one request.
const AnswersMax = 64

// Answer sends answers of a bank until each is stored or refused, and returns why: nil, or a *Problem with the status
// 404, 409, 410 or 422. A stored answer does not settle the payment.
func (c *Client) Answer(ctx context.Context, ispb string, answers ...Answer) ([]error, error) {
	if len(answers) == 0 || len(answers) > AnswersMax {
		return nil, fmt.Errorf("%d answers: send 1 to %d", len(answers), AnswersMax)
	}
	results := make([]error, len(answers))

	open := make([]int, len(answers)) // those that are not stored
	for i := range answers {
		open[i] = i
	}
	retries := c.retries()

	for {
		var body struct {
			Answers []Answer `json:"answers"`
		}
		for _, i := range open {
			body.Answers = append(body.Answers, answers[i])
		}
		var response struct {
			Results []struct {
				Problem *Problem `json:"problem"`
			} `json:"results"`
		}

		_, err := c.ask(ctx, call{operation: opAnswer, values: []string{ispb}, body: body}, &response)
		if problem, is := errors.AsType[*Problem](err); err != nil &&
			(!is || len(open) > 1 || TryAgain(err) || problem.Status == 401 || problem.Status == 403) {
			return nil, err
		}
		var again []int
		var why error

		for n, i := range open {
			results[i] = err
			if len(open) > 1 {
				results[i] = nil

				if n >= len(response.Results) {
					return nil, fmt.Errorf("%d results of %d answers", len(response.Results), len(open))
				}

				if problem := response.Results[n].Problem; problem != nil {
					results[i] = problem
				}
			}

			if TryAgain(results[i]) {
				again, why = append(again, i), results[i]
			}
		}

		if open = again; len(open) == 0 || !retries.pause(ctx, why) {
			return results, nil
		}
	}
}
