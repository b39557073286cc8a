package main

import (
	"net/http"
	"strings"
	"testing"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/deploy/ledgertest"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/stream"
)

// nothingIsTakenIntoALogThatIsNotTheLedgers is a step of TestWholeLedger, because a ledger names one
// log. No engine would ever clear what goes into another, so the producer takes nothing: neither one
// that runs while the topic is made anew, nor one that starts after that. Once the log is given up, both
// take the topic as it is.
func nothingIsTakenIntoALogThatIsNotTheLedgers(t *testing.T, l *ledgertest.Server, client tigerbeetle.Client) {
	b := startBroker(t)
	p := startProgram(t, b, l)
	p.AwaitNeed("log", false)

	if got := p.call("POST", "/v1/payments", valid); got.code != http.StatusAccepted {
		t.Fatalf("a payment: %d %s", got.code, got.text)
	}

	kafka, err := kgo.NewClient(kgo.SeedBrokers(b.Address))
	if err != nil {
		t.Fatal(err)
	}
	defer kafka.Close()

	bounds, err := stream.BoundsOf(t.Context(), kafka, stream.Payments)
	if err != nil {
		t.Fatal(err)
	}

	for partition, of := range bounds {
		if of.End > 0 { // as an engine names it
			if _, err := origin.Name(t.Context(), kafka, client, 1, partition, 0); err != nil {
				t.Fatal(err)
			}
		}
	}

	admin := kadm.NewClient(kafka)
	if _, err := admin.DeleteTopic(t.Context(), stream.Payments); err != nil {
		t.Fatal(err)
	}

	if _, err := admin.CreateTopic(t.Context(), 4, 1, nil, stream.Payments); err != nil {
		t.Fatal(err)
	}
	refuses := func(p *program) {
		t.Helper()
		kit.Await(t, "the producer to refuse", func() (bool, string) {
			got := p.call("POST", "/v1/payments", valid)
			return got.code == http.StatusServiceUnavailable && got.Type == "urn:liquida:problem:log-wrong" &&
				got.retryAfter != "", got.text
		})
		// after what an acknowledgement has told it
		kit.Await(t, "the producer to say what it has found", func() (bool, string) {
			problem := p.Problems()["log"]
			return strings.Contains(problem, "the ledger's log has a record at 0") &&
				strings.Contains(problem, "ForeignLog"), problem
		})

		if got := p.call("POST", batchPath, valid); !strings.Contains(got.text, "log-wrong") {
			t.Errorf("a line of a batch: %d %s", got.code, got.text)
		}
	}
	refuses(p)

	before, err := admin.ListEndOffsets(t.Context(), stream.Payments)
	if err != nil {
		t.Fatal(err)
	}
	again := startProgram(t, b, l)
	again.AwaitNeed("running", false)

	if got := again.call("POST", "/v1/payments", valid); got.code != http.StatusServiceUnavailable {
		t.Errorf("the first payment after a start: %d %s", got.code, got.text)
	}
	refuses(again)

	after, err := admin.ListEndOffsets(t.Context(), stream.Payments)
	if err != nil {
		t.Fatal(err)
	}
	before.Each(func(o kadm.ListedOffset) {
		if end, _ := after.Lookup(o.Topic, o.Partition); end.Offset != o.Offset {
			t.Errorf("partition %d grew from %d to %d", o.Partition, o.Offset, end.Offset)
		}
	})
	write(t, client, []tb.Transfer{ledger.GivenUp(1)})

	for name, one := range map[string]*program{"that ran meanwhile": p, "that started later": again} {
		one.AwaitNeed("log", false)

		if got := one.call("POST", "/v1/payments", valid); got.code != http.StatusAccepted {
			t.Errorf("a payment into the next log by the one %s: %d %s", name, got.code, got.text)
		}
	}
}

// onlyActsBeforeARebuildIsConfirmed is a step of TestWholeLedger. A revocation that a rebuild has lost can be done
// again before anybody pays.
func onlyActsBeforeARebuildIsConfirmed(t *testing.T, l *ledgertest.Server, client tigerbeetle.Client) {
	write(t, client, []tb.Transfer{ledger.Rebuilt(ledger.Identity{Number: 1, Since: 1})})
	p := startProgram(t, startBroker(t), l)
	p.AwaitNeed("log", true)

	if got := p.call("POST", "/v1/payments", valid); got.code != http.StatusServiceUnavailable ||
		got.Type != "urn:liquida:problem:acts-only" {
		t.Errorf("a payment: %d %s", got.code, got.text)
	}

	account := newBank(t, p)
	if done := p.onParticipant(t, account.ISPB, "s", `{"act": "suspend"}`); done.Participant.State != "suspended" {
		t.Errorf("an act: %+v", done)
	}
	write(t, client, []tb.Transfer{ledger.Confirmed()})
	p.AwaitNeed("log", false)

	if got := p.call("POST", "/v1/payments", valid); got.code != http.StatusAccepted {
		t.Errorf("a payment after it was confirmed: %d %s", got.code, got.text)
	}
}
