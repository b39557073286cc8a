package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/live"
	"github.com/liquida/liquida/platform/ledger"
)

// watched is a live audit of a clearing house.
type watched struct {
	*live.Audit
	s *system
}

// ledgerClient returns a client of the ledger.
func (s *system) ledgerClient() tigerbeetle.Client {
	s.t.Helper()
	client, err := ledger.Connect(ledger.Config{Addresses: strings.Split(s.TigerBeetleAddresses(), ",")})
	s.must(err)
	s.t.Cleanup(client.Close)
	return client
}

// watch starts a live audit.
func (s *system) watch(client tigerbeetle.Client, change ...func(*live.Config)) *watched {
	s.t.Helper()
	kafka, err := s.Kafka().Options()
	s.must(err)
	config := live.Config{Kafka: kafka, Ledger: client, Behind: s.Kafka().Behind, Log: s.t.Logf}
	for _, change := range change {
		change(&config)
	}
	audit, err := live.Open(config)
	s.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = audit.Run(ctx) // it ends by cancel
	}()
	s.t.Cleanup(func() { cancel(); <-ended })
	return &watched{audit, s}
}

// turns waits until the light has a colour.
func (w *watched) turns(colour string) live.Light {
	w.s.t.Helper()
	w.s.eventually("the light is "+colour, func() bool { return w.Light().Colour == colour })
	return w.Light()
}

// neverRed fails the test if the light is red.
func (w *watched) neverRed() {
	w.s.t.Helper()
	if l := w.Light(); l.Colour == live.Red {
		w.s.t.Errorf("the light is red, and nothing was wrong: %s", l.Text)
		for _, f := range l.Findings {
			w.s.t.Logf("%s %s", f.Payment, f.Text)
		}
	}
}

// While engines are killed the light is green, or amber: nothing is wrong with the money. In the end it has
// checked every payment.
func TestLiveAuditStaysGreen(t *testing.T) {
	s := start(t, 2)
	transfers := s.watch(s.ledgerClient())
	events := s.watch(s.ledgerClient(), func(c *live.Config) { c.ChangeEvents = true })
	both := []*watched{transfers, events}
	for _, w := range both {
		w.turns(live.Green)
	}
	load := s.load(500, 8000, duringFaults...)
	for range 3 {
		load.progress(500)
		s.must(s.Kill(stack.EngineName(0)))
		s.must(s.StartProcess(stack.EngineName(0)))
		s.ready(stack.EngineName(0))
	}
	result := load.wait()
	want := int64(result.Settled + result.Rejected + result.Returned + result.ReturnsRejected)
	for _, w := range both {
		s.eventually("all are checked", func() bool { l := w.Light(); return l.Colour == live.Red || l.Checked >= want })
		w.neverRed()
		l := w.turns(live.Green)
		t.Logf("%s; %+v; %d had an outcome", l.Text, w.Figures(), want)
	}
	s.audit()
	late := s.watch(s.ledgerClient(), func(c *live.Config) { c.From = time.Now().Add(-time.Hour) })
	s.eventually("all are checked", func() bool { l := late.Light(); return l.Colour == live.Red || l.Checked >= want })
	late.neverRed()
	t.Log(late.turns(live.Green).Text)
}
