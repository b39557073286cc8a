package audit

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Secrets are the keys with which banks seal their responses, by ISPB.
type Secrets map[string][][]byte

// ReadSecrets reads a file of lines "ISPB secret in hex"; # begins a comment.
func ReadSecrets(path string) (Secrets, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	secrets := Secrets{}
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 2 { // the line itself is not shown: it holds a secret
			return nil, fmt.Errorf("%s, line %d: it must be an ISPB and a secret in hex", path, number)
		}
		secret, err := hex.DecodeString(fields[1])
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: the secret is not hexadecimal", path, number)
		}
		secrets[fields[0]] = append(secrets[fields[0]], secret)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(secrets) == 0 {
		return nil, fmt.Errorf("%s holds no secret: no response could be genuine", path)
	}
	return secrets, nil
}

func (s Secrets) genuine(bank string, message, seal []byte) bool {
	return slices.ContainsFunc(s[bank], func(secret []byte) bool {
		mac := hmac.New(sha256.New, secret)
		mac.Write(message)
		return hmac.Equal(mac.Sum(nil), seal)
	})
}

// answer is what a bank said, under its seal, about a payment or return.
type answer struct {
	id     endToEndID
	bank   string
	reason uint32 // none if it accepted
}

// answers are the genuine responses that can be read. The topic keeps them for a time only.
type answers struct {
	secrets Secrets // nil: responses are not checked
	given   map[answer]struct{}
	reach
}

// answersMargin is what clocks may differ by, with room.
const answersMargin = time.Minute

// Answers makes the audit check responses with these secrets. cut are the partitions whose first
// records are gone. Call it before Answer.
func (a *Auditor) Answers(secrets Secrets, cut []int32) {
	a.answers = answers{secrets, map[answer]struct{}{}, reach{cut, map[int32]time.Time{}}}
}

// readAnswers reads the responses that the topic still keeps.
func readAnswers(ctx context.Context, config *Config, topics *topics, a *Auditor) error {
	if config.Secrets == nil {
		return nil
	}
	bounds, err := topics.boundsOf(ctx, answersTopic)
	if err != nil {
		return err
	}
	a.Answers(config.Secrets, reachOf(bounds, answersTopic).cut)
	if err := topics.readAll(ctx, answersTopic, bounds, a.Answer, a.answers.gone, topics.passOthers(ctx, answersTopic)); err != nil && ctx.Err() == nil {
		// Banks write this topic. What one of them writes must not end the audit.
		a.answers.secrets, a.summary.AnswersUnread = nil, err.Error()
	} else if err != nil {
		return err
	}
	return nil
}

// Answer takes a record of pix.authorization-responses. Those without a seal prove nothing.
func (a *Auditor) Answer(r Record) {
	a.answers.read(r)
	var message pixv1.AuthorizationResponse
	if proto.Unmarshal(r.Value, &message) != nil || len(message.EndToEndId) != len(endToEndID{}) || !a.answers.secrets.genuine(message.Ispb, r.Value, r.Seal) {
		return
	}
	said := answer{bank: message.Ispb}
	copy(said.id[:], message.EndToEndId)
	switch message.Status {
	case pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP:
	case pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT:
		said.reason = unspecified
		if code, err := reasonNumber(message.ReasonCode); err == nil && code != 0 {
			// Engines before they told a bank's codes from others kept the code itself.
			a.answers.given[answer{said.id, said.bank, code}] = struct{}{}
		}
	default:
		return
	}
	a.answers.given[said] = struct{}{}
}

const (
	silent      = 'A'<<24 | 'B'<<16 | '0'<<8 | '3'
	unspecified = 'L'<<24 | 'Q'<<16 | '0'<<8 | '3' // a rejection whose code is not the bank's to give
)

// judgeAnswer reports an outcome that needs the receiving bank's word and does not have it.
// Only legs that were held are posted or voided for a bank; AB03 is the deadline's.
func (a *Auditor) judgeAnswer(id endToEndID, payee accountID, posted, voided bool, reason uint32, decidedAt uint64) {
	if a.answers.secrets == nil || !posted && (!voided || reason == silent) {
		return
	}
	if !a.answers.keeps(time.Unix(0, int64(decidedAt)).Add(-answersMargin)) {
		a.summary.AnswersGone++
		return
	}
	if posted {
		reason = 0
	}
	bank := ispbOf(payee)
	if _, said := a.answers.given[answer{id, bank, reason}]; said {
		a.summary.Answered++
		return
	}
	what := "settled"
	if !posted {
		what = "rejected with " + reasonText(reason)
	}
	a.add(NoAnswer, id.String(), "it was %s, but no response in %s with the seal of its payee's bank %s says so", what, answersTopic, bank)
}
