package simulation

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/producer/question"
)

// answerOverHTTP is a bank that accepts all. Its program dies in the middle of its work now and then, and knows nothing
// when it is there again.
func (w *world) answerOverHTTP(ends context.Context, bank pix.ISPB, lives time.Duration) {
	seals, err := keys.ReadSeals(w.sealsFile)
	if err != nil {
		w.t.Error(err)
		return
	}
	header := http.Header{"Authorization": {"Bearer " + w.keys[string(bank)]}, "Accept": {"application/json"},
		"Prefer": {"wait=5"}}
	call := func(ctx context.Context, method, door, path string, body, into any) error {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}

		code, said := w.request(ctx, 20*time.Second, method, door+"/v1/participants/"+string(bank)+"/"+path, header,
			string(text))
		if code/100 == 4 && code != http.StatusNotFound && code != http.StatusGone &&
			code != http.StatusTooManyRequests {
			w.t.Errorf("%s %s: %d %s", bank, path, code, said)
		}

		if code/100 != 2 {
			return fmt.Errorf("%d %s", code, said)
		}

		return json.Unmarshal([]byte(said), into)
	}

	for turn := 0; ends.Err() == nil; turn++ {
		life, dies := context.WithTimeout(ends, lives)
		for life.Err() == nil {
			door := w.doors[turn%len(w.doors)]
			var asked question.Page

			err := call(life, http.MethodGet, door, "questions", nil, &asked)
			if err == nil && len(asked.Questions) > 0 {
				var answers question.Answers

				for _, q := range asked.Questions {
					if q.Payee.Branch != "0001" { // the simulator answers as the case must end
						continue
					}

					value, err := (&pixv1.AuthorizationResponse{EndToEndId: q.EndToEndID, Ispb: string(bank),
						Status: pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP}).MarshalVT()
					if err != nil {
						w.t.Error(err)
					}
					answers.Answers = append(answers.Answers,
						question.Answer{Value: base64.StdEncoding.EncodeToString(value),
							Seal: base64.StdEncoding.EncodeToString(seals.Seal(bank, value))})
				}

				if len(answers.Answers) > 0 {
					err = call(life, http.MethodPost, door, "answers", answers, &question.Results{})
				}
			}

			if err != nil {
				turn++ // to the other door
				time.Sleep(500 * time.Millisecond)
			}
		}
		dies()
	}
}
