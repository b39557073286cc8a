package room

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/pix"
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
	errNoStack = errors.New("the room has no stack: start it with --dir")
	errNoBanks = errors.New("the room cannot reach the bank simulator: set SIMULATOR_URL and CLIENT_KEYS_DIR")
	errNoLoad  = errors.New("the room may not send: it has no Kafka user that may write orders")
)

// actTimeout bounds an act; a process that starts must be ready within it.
const actTimeout = 2 * time.Minute

var acts = []string{actKill, actFreeze, actThaw, actRestart, actLeaveDead, actAddEngine, actCut, actMend, actBank, actLoad}

// Do does one act, and returns the number of its line in the story.
func (r *Room) Do(ctx context.Context, act Act) (int, error) {
	r.mu.Lock()
	r.askedAt = time.Now()
	r.mu.Unlock()
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
		return r.story.tell(nil, "%s payments a second", pix.Thousands(int64(act.RatePerSecond))), nil
	case actBank:
		began := time.Now()
		if err := r.banks.behave(ctx, act.Target, act.Behaviour); err != nil {
			return 0, err
		}
		text := fmt.Sprintf("bank %s is %s", act.Target, act.Behaviour)
		if act.Behaviour == behaviourNormal {
			return r.mended(act.Target, text, text), nil
		}
		return r.broken(act.Target, began, nil, text, text), nil
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
		return r.broken(act.Target, began, partitions, act.Target+" killed", "kill -9 "+act.Target), nil
	case actFreeze:
		if err := r.config.Stack.Freeze(ctx, act.Target); err != nil {
			return 0, err
		}
		return r.broken(act.Target, began, partitions, act.Target+" frozen", act.Target+" frozen"), nil
	case actThaw:
		if err := r.config.Stack.Thaw(ctx, act.Target); err != nil {
			return 0, err
		}
		return r.mended(act.Target, act.Target+" thawed", act.Target+" thawed"), nil
	case actCut:
		if err := r.config.Stack.Cut(ctx, act.Target, act.Peer); err != nil {
			return 0, err
		}
		text := fmt.Sprintf("%s cut from the %s", act.Target, act.Peer)
		return r.broken(act.Target+act.Peer, began, partitions, act.Target+" cut from "+act.Peer, text), nil
	case actMend:
		if err := r.config.Stack.Mend(ctx, act.Target, act.Peer); err != nil {
			return 0, err
		}
		text := fmt.Sprintf("%s reaches the %s again", act.Target, act.Peer)
		return r.mended(act.Target+act.Peer, act.Target+" reaches "+act.Peer, text), nil
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

// broken tells that something was broken, and watches what comes of it until it is mended.
func (r *Room) broken(what string, began time.Time, partitions []int32, mark, text string) int {
	watch := r.flows.broke(what, began, partitions)
	r.mark("broken", mark)
	return r.story.tell(watch, "%s", text)
}

// mended tells that it works again.
func (r *Room) mended(what, mark, text string) int {
	r.flows.mended(what)
	r.mark("mended", mark)
	return r.story.tell(nil, "%s", text)
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
	r.mended(name, name+" is back", fmt.Sprintf("%s is back, ready after %.1f s", name, time.Since(began).Seconds()))
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
	r.mended("", "one more engine", fmt.Sprintf("one more engine, ready after %.1f s", time.Since(began).Seconds()))
}
