package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

func some(a *asker) (requests []*pixv1.AuthorizationRequest) {
	for range 20 {
		requests = append(requests, a.request("0001"))
	}

	return requests
}

// A topic that is made anew keeps nothing that a bank needs. The banks go on with the new one, from its
// beginning, without a restart of the process.
func TestATopicMadeAnewIsUsedAsItIs(t *testing.T) {
	for _, topic := range bothTopics {
		t.Run(topic, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, bothTopics...)
			p := startProgram(t, b)
			p.AwaitNeed("assignment", false)
			p.AwaitNeed("topics", false)

			before := newAsker(t, b)
			for range 3 { // so that the banks have committed something
				request := before.request("0001")
				before.ask(request)
				before.awaitResponses(1, request)
			}
			admin := kadm.NewClient(b.Client())
			_, err := admin.DeleteTopic(t.Context(), topic)

			_, err2 := admin.CreateTopic(t.Context(), partitions, 1, nil, topic)
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			after := newAsker(t, b)
			requests := some(after)
			after.ask(requests...)

			if topic == stream.AuthorizationRequests {
				after.awaitResponses(1, requests...)
			}
			kit.Await(t, "the banks to see it", func() (bool, string) {
				return strings.Contains(p.Log(), "made anew or cut"), ""
			})
			p.AwaitNeed("assignment", false)
			again := some(after) // an engine asks again when it sees the new topic
			after.ask(again...)
			after.awaitResponses(1, again...)
		})
	}
}
