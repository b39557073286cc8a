package ledgerfacts

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/platform/telemetry"
)

func awaitFresh(t *testing.T, r *register.Register, what string, met func(*register.State) bool) {
	t.Helper()
	kit.Await(t, what, func() (bool, string) {
		state, fresh := r.Current()
		return fresh && met(state), fmt.Sprintf("fresh %v, read to %d", fresh, state.ReadTo)
	})
}

// stalled is a client whose reading of the register waits while it is held.
type stalled struct {
	tigerbeetle.Client
	hold sync.RWMutex
}

func (s *stalled) GetAccountTransfers(filter tb.AccountFilter) ([]tb.Transfer, error) {
	found, err := s.Client.GetAccountTransfers(filter) // asked now, answered late
	s.hold.RLock()
	defer s.hold.RUnlock()

	return found, err
}

// Freshness counts from before the question: an answer that comes late makes nothing fresh.
func TestAStaleRegister(t *testing.T) {
	bank := newScene(t)
	bank.do("join")
	psp := bank.content.Payer.ISPB
	client := &stalled{Client: client}
	tel, err := telemetry.Start("test", telemetry.Config{LogLevel: "error", Address: "127.0.0.1:0"}, host.System())
	kit.Must(t, err)
	defer tel.Stop()
	r := register.New(client, 1, tel) // each page is full
	ctx, stop := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer following.Wait()
	defer stop()
	awaitFresh(t, r, "the bank", func(s *register.State) bool { return s.Participant(psp) != nil })
	problem := func(none bool) {
		t.Helper()
		kit.Await(t, "the need of readiness", func() (bool, string) {
			problem := tel.Health.Problems()[register.Need]
			return problem == "" == none, problem
		})
	}
	problem(true)

	client.hold.Lock()
	held := time.Now()
	var last time.Time
	kit.Await(t, "stale", func() (bool, string) {
		before := time.Now()

		_, fresh := r.Current()
		if fresh {
			last = before
		}

		return !fresh, "fresh"
	})

	if took := last.Sub(held); took > 2*time.Second {
		t.Errorf("fresh until %v after the last answer", took)
	}
	problem(false)
	bank.do("act suspended 0 OK")

	if state, fresh := r.Current(); fresh || state.Suspended(psp) {
		t.Errorf("fresh %v, suspended %v without an answer", fresh, state.Suspended(psp))
	}
	client.hold.Unlock()
	awaitFresh(t, r, "the suspension", func(s *register.State) bool { return s.Suspended(psp) })
	problem(true)
}
