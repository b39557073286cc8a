package simulation

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/producer/question"
)

// No bank speaks Kafka: two programs of each answer over HTTP, at two front doors. Engines, doors and programs die, and of good
// payments none is rejected.
func TestBanksAnswerOverHTTP(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		first, second := s.open(), s.open()
		for i := range population.Banks {
			s.put(string(population.Bank(i)), http.MethodPut, `{"silent_share": 1}`)
			for range 2 {
				go s.answerOverHTTP(s.ends, population.Bank(i), between(s.random, 20*time.Second, time.Minute))
			}
		}
		load := s.send("accepted=1", 20, 1500)
		for _, dies := range []*service{first, s.engine(0), second, s.engine(1)} {
			s.pass(5*time.Second, 12*time.Second)
			s.note("%s dies", dies.name)
			dies.kill(between(s.random, time.Second, 4*time.Second), "")
			s.ready(dies)
		}
		if result := load.wait(1); result.Settled != 1500 {
			s.t.Errorf("%d of 1500 payments settled", result.Settled)
		}
		s.verdict()
	})
}

// answerOverHTTP is a bank that accepts all. Its program dies in the middle of its work now and then, and knows nothing when it
// is there again.
func (w *world) answerOverHTTP(ends context.Context, bank pix.ISPB, lives time.Duration) {
	seals, err := keys.ReadSeals(w.sealsFile)
	if err != nil {
		w.t.Error(err)
		return
	}
	client := http.Client{Transport: &http.Transport{DialContext: w.network.DialContext, DisableKeepAlives: true}, Timeout: 20 * time.Second}
	call := func(ctx context.Context, method, door, path string, body, into any) error {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		request, err := http.NewRequestWithContext(ctx, method, door+"/v1/participants/"+string(bank)+"/"+path, bytes.NewReader(text))
		if err != nil {
			return err
		}
		request.Header = http.Header{"Authorization": {"Bearer " + w.keys[string(bank)]}, "Accept": {"application/json"}, "Prefer": {"wait=5"}}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode/100 == 4 && response.StatusCode != http.StatusNotFound && response.StatusCode != http.StatusGone && response.StatusCode != http.StatusTooManyRequests {
			w.t.Errorf("%s %s: %s", bank, path, response.Status)
		}
		if response.StatusCode/100 != 2 {
			return fmt.Errorf("%s", response.Status)
		}
		return json.NewDecoder(response.Body).Decode(into)
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
					value, err := (&pixv1.AuthorizationResponse{EndToEndId: q.EndToEndID, Ispb: string(bank), Status: pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP}).MarshalVT()
					if err != nil {
						w.t.Error(err)
					}
					answers.Answers = append(answers.Answers, question.Answer{Value: base64.StdEncoding.EncodeToString(value), Seal: base64.StdEncoding.EncodeToString(seals.Seal(bank, value))})
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
