package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/stream"
)

const (
	// answerers is how many requests with answers a bank has open.
	answerers = 4
	// answersSkipped is what does not count at the beginning: streams and consumers start.
	answersSkipped = 2 * time.Second
	// hangsFor is after how long a bank that never reads opens its stream again.
	hangsFor = 10 * time.Second
)

// questionRows are the same payments with banks over Kafka and over HTTP. With two processors, one of them the ledger's,
// they would measure the queue for the other one.
func (c Config) questionRows(with func(part, name string, change func(*row)) row) []row {
	at := func(name string, answering int, change func(*row)) row {
		r := row{part: questionsPart, name: "1,000/s, " + name, rate: 1000, payments: int(1000 * c.RateDuration.Seconds()), banks: 5, answering: answering, sharedCores: true}
		if r.env = map[string][]string{}; answering > 0 {
			r.env = overHTTP()
		}
		change(&r)
		return r
	}
	same := func(*row) {}
	toOne := func(r *row) { r.mix = "hottest" }
	return []row{
		at("banks over Kafka", 0, same), at("banks over HTTP", 5, same), at("to one bank over HTTP", 5, toOne),
		at("to one bank over HTTP, 2,000/s to four that hang", 1, func(r *row) {
			toOne(r)
			r.flood = load.Flood{Kind: load.ToSilentBanks, PerSecond: 2000}
			r.env[stack.Engine] = []string{"ENGINE_IN_FLIGHT_MAX=20000"}
		}),
		with(questionsPart, "five banks over Kafka", func(r *row) { r.banks, r.sharedCores = 5, true }),
		with(questionsPart, "five banks over HTTP", func(r *row) { r.banks, r.sharedCores, r.answering, r.env = 5, true, 5, overHTTP() }),
	}
}

func overHTTP() map[string][]string {
	return map[string][]string{stack.Producer: {"CALLER_RATE_MAX=1000000", "CALLER_BURST_MAX=1000000"}}
}

// startBanks has the first banks answer over HTTP, and the others hang on their streams, until stop is called. It calls
// failed once one of them cannot go on.
func (c Config) startBanks(ctx context.Context, s *stack.Stack, population sandbox.Population, answering int, failed func()) (stop func() error, err error) {
	if answering == 0 {
		return func() error { return nil }, nil
	}
	keys, err := s.Keys()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, population.Banks)
	for i := range population.Banks {
		bank := string(population.Bank(i))
		go func() {
			if i < answering {
				err := answerAll(ctx, s, bank, keys[bank])
				if err != nil {
					failed()
				}
				ended <- err
				return
			}
			for ctx.Err() == nil {
				hang(ctx, s.ProducerURL()+"/v1/participants/"+bank+"/questions", keys[bank])
			}
			ended <- nil
		}()
	}
	return func() error {
		cancel()
		var all error
		for range population.Banks {
			all = errors.Join(all, <-ended)
		}
		return all
	}, nil
}

// hang opens a stream and reads nothing of it.
func hang(ctx context.Context, url, key string) {
	ctx, cancel := context.WithTimeout(ctx, hangsFor)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err == nil {
		request.Header.Set("Authorization", "Bearer "+key)
		var response *http.Response
		if response, err = http.DefaultClient.Do(request); err == nil {
			defer response.Body.Close()
		}
	}
	<-ctx.Done()
}

// answerAll accepts whatever a bank is asked, until ctx ends.
func answerAll(ctx context.Context, s *stack.Stack, bank, key string) error {
	secret, err := client.ReadSecret(s.AnswerKeysFile(), bank)
	if err != nil {
		return err
	}
	api, err := client.New(s.ProducerURL(), key)
	if err != nil {
		return err
	}
	asked, ended := make(chan string, 100_000), make(chan error, answerers)
	for range answerers {
		go func() { ended <- answer(ctx, api, secret, bank, asked) }()
	}
	err = api.Questions(ctx, bank, "", func(q client.Question) error {
		select {
		case asked <- q.EndToEndID:
			return nil
		case why := <-ended:
			ended <- why
			return why
		}
	}, nil)
	close(asked)
	for range answerers {
		if why := <-ended; err == nil || ctx.Err() != nil {
			err = why
		}
	}
	if ctx.Err() != nil { // whatever ended then was to end
		err = nil
	}
	return err
}

// answer sends what there is, as many in one request as there are, until asked closes.
func answer(ctx context.Context, api *client.Client, secret client.Secret, bank string, asked <-chan string) error {
	for id := range asked {
		answers := []client.Answer{secret.Answer(bank, id, "")}
		for more := true; more && len(answers) < client.AnswersMax; {
			select {
			case id, more = <-asked:
				if more {
					answers = append(answers, secret.Answer(bank, id, ""))
				}
			default:
				more = false
			}
		}
		if _, err := api.Answer(ctx, bank, answers...); err != nil {
			return fmt.Errorf("%s: %d answers: %w", bank, len(answers), err)
		}
	}
	return nil
}

// answered measures how long the banks took, by the times of the records of requests and responses.
func (c Config) answered(ctx context.Context, s *stack.Stack) (*load.Latency, error) {
	asked, took := map[string]time.Time{}, load.NewRecorder()
	err := stream.ReadTopic(ctx, s.Kafka(), stream.AuthorizationRequests, func(r *kgo.Record) {
		if before, again := asked[string(r.Key)]; !again || r.Timestamp.Before(before) {
			asked[string(r.Key)] = r.Timestamp
		}
	})
	if err != nil || len(asked) == 0 {
		return nil, errors.Join(err, errors.New("no bank was asked"))
	}
	first := slices.MinFunc(slices.Collect(maps.Values(asked)), time.Time.Compare)
	err = stream.ReadTopic(ctx, s.Kafka(), stream.AuthorizationResponses, func(r *kgo.Record) {
		if at, once := asked[string(r.Key)]; once && at.Sub(first) >= answersSkipped {
			took.Record(r.Timestamp.Sub(at))
		}
		delete(asked, string(r.Key)) // a second response is no answer
	})
	latency := took.Latency("answered")
	return &latency, err
}
