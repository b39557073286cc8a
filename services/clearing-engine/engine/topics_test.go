package engine

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/stream"
)

// settles says that an order settles, with one report.
func (w *world) settles(id string) {
	w.t.Helper()
	w.await("the report of "+id, func() bool { return len(w.reports()[id]) > 0 })

	if reports := w.reports()[id]; len(reports) != 1 || reports[0].ReasonCode != "" {
		w.t.Errorf("%s: %v", id, reports)
	}
}

// topicsRight reports whether the engine that was started last finds its topics as they must be.
func (w *world) topicsRight() bool { return w.metric(`pix_need_met{need="topics"}`) == 1 }

// An authorization topic keeps nothing that is needed later. The engine asks again what waits, and goes on.
func TestAnAuthorizationTopicMadeAnewIsUsedAsItIs(t *testing.T) {
	for _, topic := range []string{stream.AuthorizationRequests, stream.AuthorizationResponses} {
		t.Run(topic, func(t *testing.T) {
			inWorld(t, func(w *world) {
				e := w.start()
				stop := w.bank()
				before := w.pay()
				w.settles(before.String())
				stop()
				asked := len(w.records(stream.AuthorizationRequests))
				waiting := w.pay()
				w.await("the bank to be asked", func() bool {
					return len(w.records(stream.AuthorizationRequests)) == asked+1
				})
				w.makeAnew(topic)
				began := time.Now()

				wanted := 1 // in a new topic
				if topic == stream.AuthorizationResponses {
					wanted = asked + 2
				}
				w.await("the bank to be asked again", func() bool {
					return len(w.records(stream.AuthorizationRequests)) == wanted
				})

				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("the bank was asked again after %v", took)
				}
				defer w.bank()()
				w.settles(waiting.String())
				w.settles(w.pay().String())

				if !w.topicsRight() {
					t.Error("the engine is not ready")
				}

				if _, err := e.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// What settlements and dead letters kept is gone with them. The engine begins nothing, and does not end
// either: after a restart it would not know.
func TestWithoutWhatItHasReportedAnEngineBeginsNothing(t *testing.T) {
	for _, topic := range []string{stream.Settlements, stream.DeadLetters} {
		t.Run(topic, func(t *testing.T) {
			inWorld(t, func(w *world) {
				e := w.start()
				defer w.bank()()
				w.settles(w.pay().String())
				began := time.Now()
				w.makeAnew(topic)
				w.await("the engine to say so", func() bool { return !w.topicsRight() })

				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("it says so after %v", took)
				}
				held := len(w.ledger.of(ledger.CodeLeg1))
				w.pay()
				time.Sleep(10 * time.Minute)

				if after := len(w.ledger.of(ledger.CodeLeg1)); after != held || w.topicsRight() {
					t.Errorf("%d orders were held, and then %d", held, after)
				}

				if _, err := e.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// While a topic is missing, nothing is begun. With the topic it goes on.
func TestATopicThatIsLostForAWhileStopsNothingForGood(t *testing.T) {
	inWorld(t, func(w *world) {
		e := w.start()
		defer w.bank()()
		w.settles(w.pay().String())

		admin := kadm.NewClient(w.client)
		if _, err := admin.DeleteTopic(w.t.Context(), stream.AuthorizationResponses); err != nil {
			t.Fatal(err)
		}
		w.await("the engine to say so", func() bool { return w.metric(`pix_need_met{need="kafka"}`) == 0 })
		held := len(w.ledger.of(ledger.CodeLeg1))
		late := w.pay()
		time.Sleep(20 * time.Second)

		if after := len(w.ledger.of(ledger.CodeLeg1)); after != held {
			t.Errorf("%d orders were held, and then %d", held, after)
		}

		if _, err := admin.CreateTopic(w.t.Context(), 2, 1, nil, stream.AuthorizationResponses); err != nil {
			t.Fatal(err)
		}
		stop := w.bank() // the other one would not write to the new topic
		defer stop()
		w.settles(late.String())

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// Partitions of pix.payments that another topic lacks are nobody's: the engines say so, clear the others, and
// take them over once all topics have them.
func TestAddedPartitionsAreTakenOverOnceAllTopicsHaveThem(t *testing.T) {
	inWorld(t, func(w *world) {
		first, second := w.start(), w.start()
		defer w.bank()()
		w.settles(w.pay().String())

		admin := kadm.NewClient(w.client)
		if _, err := admin.UpdatePartitions(w.t.Context(), 4, stream.Payments); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		w.await("the engine to say so", func() bool { return !w.topicsRight() })

		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it says so after %v", took)
		}
		w.client.ForceMetadataRefresh()
		time.Sleep(10 * time.Minute)
		w.settles(w.pay().String())
		waiting := w.order()
		w.sendTo(3, waiting.EndToEndId, waiting)
		time.Sleep(10 * time.Second)

		if len(w.reports()[waiting.EndToEndId]) > 0 {
			t.Error("an order was cleared whose bank could not answer")
		}

		if _, err := admin.UpdatePartitions(w.t.Context(), 4, stream.TopicNames()[1:]...); err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		w.settles(waiting.EndToEndId)

		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("the order settled after %v", took)
		}

		commits, err := admin.FetchOffsetsForTopics(w.t.Context(), stream.EngineGroup, stream.Payments)
		for number := range int32(4) {
			if commit, ok := commits.Lookup(stream.Payments, number); err != nil || !ok || commit.At < 0 {
				t.Errorf("partition %d has no commit: %v", number, err)
			}
		}

		for _, e := range []*worker{first, second} {
			if _, err := e.end(); err != nil {
				t.Error(err)
			}
		}
	})
}
