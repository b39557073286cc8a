package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/loadtest/load"
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

// startBanks has the first banks answer over HTTP, and the others hang on their streams, until stop is called. It calls
// failed once one of them cannot go on.
func (m *session) startBanks(ctx context.Context, failed func()) (stop func() error) {
	if m.answering == 0 {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)

	ended := make(chan error, m.population.Banks)
	for i := range m.population.Banks {
		bank := string(m.population.Bank(i))

		play := m.hang
		if i < m.answering {
			play = m.answerAll
		}
		go func() {
			api, err := client.New(m.ProducerURL(), m.keys[bank])
			for err == nil && ctx.Err() == nil {
				err = play(ctx, api, bank)
			}

			if err != nil {
				failed()
			}
			ended <- err
		}()
	}

	return func() error {
		cancel()

		var all error
		for range m.population.Banks {
			all = errors.Join(all, <-ended)
		}

		return all
	}
}

// hang opens a stream and reads nothing of it.
func (m *session) hang(ctx context.Context, api *client.Client, bank string) error {
	lasts, cancel := context.WithTimeout(ctx, hangsFor)
	defer cancel()
	_ = api.Questions(lasts, bank, "", func(client.Question) error { // it is cut off, or its time ends
		<-lasts.Done()
		return lasts.Err()
	}, nil)
	<-lasts.Done()

	return nil
}

// answerAll accepts whatever a bank is asked, until ctx ends.
func (m *session) answerAll(ctx context.Context, api *client.Client, bank string) error {
	secret, err := client.ReadSecret(m.AnswerKeysFile(), bank)
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
		err = errors.Join(err, <-ended)
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
func (m *session) answered(ctx context.Context) error {
	asked, took := map[string]time.Time{}, load.NewRecorder()

	err := stream.ReadTopic(ctx, m.Kafka(), stream.AuthorizationRequests, func(r *kgo.Record) {
		if before, again := asked[string(r.Key)]; !again || r.Timestamp.Before(before) {
			asked[string(r.Key)] = r.Timestamp
		}
	})
	if err != nil || len(asked) == 0 {
		return errors.Join(err, errors.New("no bank was asked"))
	}
	first := slices.MinFunc(slices.Collect(maps.Values(asked)), time.Time.Compare)
	err = stream.ReadTopic(ctx, m.Kafka(), stream.AuthorizationResponses, func(r *kgo.Record) {
		if at, once := asked[string(r.Key)]; once && at.Sub(first) >= answersSkipped {
			took.Record(r.Timestamp.Sub(at))
		}
		delete(asked, string(r.Key)) // a second response is no answer
	})
	latency := took.Latency("answered")
	m.run.set(answerFigures, "p50", latency.P50)
	m.run.set(answerFigures, "p99", latency.P99)

	return err
}
