package room

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/liquida/liquida/deploy/stack"
)

// Act is what somebody asks the room to do.
type Act struct {
	Act           string  `json:"act"`
	Target        string  `json:"target"`        // a process; a bank's ISPB for bank
	Peer          string  `json:"peer"`          // broker or ledger, for cut and mend
	Behaviour     string  `json:"behaviour"`     // of a bank
	RatePerSecond float64 `json:"ratePerSecond"` // of the load; 0 ends it
}

const (
	actKill      = "kill"
	actFreeze    = "freeze"
	actThaw      = "thaw"
	actRestart   = "restart"
	actLeaveDead = "leave-dead"
	actAddEngine = "add-engine"
	actCut       = "cut"
	actMend      = "mend"
	actBank      = "bank"
	actLoad      = "load"
)

// refusal says which field of an act is wrong, and what it must be.
type refusal struct{ field, value, rule string }

func (r refusal) Error() string {
	return fmt.Sprintf("%s is %q: it must be %s", r.field, r.value, r.rule)
}

var (
	errNoStack = errors.New("the room has no stack: start it with --dir or --on compose")
	errNoBanks = errors.New("the room cannot reach the bank simulator: set SIMULATOR_URL and CLIENT_KEYS_DIR")
	errNoLoad  = errors.New("the room may not send: it has no Kafka user that may write orders")
)

// actTimeout bounds an act; a process that starts must be ready within it.
const actTimeout = 2 * time.Minute

var acts = []string{actKill, actFreeze, actThaw, actRestart, actLeaveDead, actAddEngine, actCut, actMend, actBank, actLoad}

// Do does one act, and returns the number of its line in the story.
func (r *Room) Do(ctx context.Context, act Act) (int, error) {
	if !slices.Contains(acts, act.Act) {
		return 0, refusal{"act", act.Act, "one of " + strings.Join(acts, ", ")}
	}
	if r.config.ReadOnly != "" {
		return 0, errors.New(r.config.ReadOnly)
	}
	switch act.Act {
	case actLoad:
		if err := r.sender.set(act.RatePerSecond); err != nil {
			return 0, err
		}
		if act.RatePerSecond == 0 {
			return r.story.tell(nil, "the load ends"), nil
		}
		return r.story.tell(nil, "%s payments a second", thousands(int64(act.RatePerSecond))), nil
	case actBank:
		began := time.Now()
		if err := r.banks.behave(ctx, act.Target, act.Behaviour); err != nil {
			return 0, err
		}
		kind := "broken"
		if act.Behaviour == behaviourNormal {
			kind = "mended"
		}
		r.mark(kind, "bank %s is %s", act.Target, act.Behaviour)
		return r.story.tell(r.flows.watch(began, nil), "bank %s is %s", act.Target, act.Behaviour), nil
	}
	if r.config.Stack == nil {
		return 0, errNoStack
	}
	if act.Act == actAddEngine {
		number := r.story.tell(nil, "an engine is added")
		r.acting.Go(func() { r.addEngine() })
		return number, nil
	}
	state := r.machine.state(act.Target)
	if state == "" || act.Target == stack.Room {
		return 0, refusal{"target", act.Target, "a process that the picture shows, not the room itself"}
	}
	partitions := r.machine.of(act.Target)
	began := time.Now()
	switch act.Act {
	case actKill:
		if err := r.config.Stack.Kill(ctx, act.Target); err != nil {
			return 0, err
		}
		r.machine.restartSoon(act.Target)
		r.mark("broken", "%s killed", act.Target)
		return r.story.tell(r.flows.watch(began, partitions), "kill -9 %s", act.Target), nil
	case actFreeze:
		if err := r.config.Stack.Freeze(ctx, act.Target); err != nil {
			return 0, err
		}
		r.mark("broken", "%s frozen", act.Target)
		return r.story.tell(r.flows.watch(began, partitions), "%s frozen", act.Target), nil
	case actThaw:
		if err := r.config.Stack.Thaw(ctx, act.Target); err != nil {
			return 0, err
		}
		r.mark("mended", "%s thawed", act.Target)
		return r.story.tell(r.flows.watch(began, partitions), "%s thawed", act.Target), nil
	case actCut:
		if err := r.config.Stack.Cut(ctx, act.Target, act.Peer); err != nil {
			return 0, err
		}
		r.mark("broken", "%s cut from %s", act.Target, act.Peer)
		return r.story.tell(r.flows.watch(began, partitions), "%s cut from the %s", act.Target, act.Peer), nil
	case actMend:
		if err := r.config.Stack.Mend(ctx, act.Target, act.Peer); err != nil {
			return 0, err
		}
		r.mark("mended", "%s reaches %s", act.Target, act.Peer)
		return r.story.tell(r.flows.watch(began, partitions), "%s reaches the %s again", act.Target, act.Peer), nil
	case actRestart:
		if state != string(stack.Dead) {
			return 0, refusal{"target", act.Target, "a dead process"}
		}
		r.machine.leaveDead(act.Target) // it starts now, not again later
		r.acting.Go(func() { r.startAgain(act.Target) })
		return r.story.tell(nil, "%s starts again", act.Target), nil
	case actLeaveDead:
		if !r.machine.leaveDead(act.Target) {
			return 0, refusal{"target", act.Target, "a process that the room would start again"}
		}
		return r.story.tell(nil, "%s stays dead", act.Target), nil
	}
	return 0, fmt.Errorf("the room cannot %s", act.Act)
}

// startAgain starts a dead process.
func (r *Room) startAgain(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), actTimeout)
	defer cancel()
	began := time.Now()
	if err := r.config.Stack.Start(ctx, name); err != nil {
		r.config.Log("cannot start %s: %v", name, err)
		r.story.tell(nil, "%s does not start: %v", name, err)
		return
	}
	r.mark("mended", "%s is back", name)
	r.story.tell(nil, "%s is back, ready after %.1f s", name, time.Since(began).Seconds())
}

func (r *Room) addEngine() {
	ctx, cancel := context.WithTimeout(context.Background(), actTimeout)
	defer cancel()
	began := time.Now()
	if err := r.config.Stack.AddEngine(ctx); err != nil {
		r.config.Log("cannot add an engine: %v", err)
		r.story.tell(nil, "no engine could be added: %v", err)
		return
	}
	r.mark("mended", "an engine more")
	r.story.tell(nil, "one more engine, ready after %.1f s", time.Since(began).Seconds())
}
