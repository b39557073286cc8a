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

var acts = []string{actKill, actFreeze, actThaw, actRestart, actLeaveDead, actAddEngine, actCut, actMend,
	actBank, actLoad}

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
		r.starting("", "one more engine", r.config.Stack.AddEngine)
		return number, nil
	}

	p, known := r.machine.find(act.Target)
	if !known || act.Target == stack.Room {
		return 0, refusal{"target", act.Target, "a process that the picture shows, not the room itself"}
	}

	switch act.Act {
	case actRestart:
		if p.State != string(stack.Dead) {
			return 0, refusal{"target", act.Target, "a dead process"}
		}
		r.machine.leaveDead(act.Target) // it starts now, not again later
		r.startAgain(act.Target)

		return r.story.tell(nil, "%s starts again", act.Target), nil
	case actLeaveDead:
		if !r.machine.leaveDead(act.Target) {
			return 0, refusal{"target", act.Target, "a process that the room would start again"}
		}

		return r.story.tell(nil, "%s stays dead", act.Target), nil
	}

	return r.breakOrMend(ctx, act, p)
}

// breakOrMend does what breaks a process or its link, or mends it.
func (r *Room) breakOrMend(ctx context.Context, act Act, p process) (int, error) {
	partitions, began, on, name, peer := r.machine.of(p), time.Now(), r.config.Stack, act.Target, act.Peer
	var err error
	var mark, text string

	switch act.Act {
	case actKill:
		err, mark, text = on.Kill(ctx, name), name+" killed", "kill -9 "+name
	case actFreeze:
		err, mark, text = on.Freeze(ctx, name), name+" frozen", name+" frozen"
	case actThaw:
		err, mark, text = on.Thaw(ctx, name), name+" thawed", name+" thawed"
	case actCut:
		err, mark, text = on.Cut(ctx, name, peer), name+" cut from "+peer, name+" cut from the "+peer
	case actMend:
		err, mark, text = on.Mend(ctx, name, peer), name+" reaches "+peer, name+" reaches the "+peer+" again"
	}

	switch {
	case err != nil:
		return 0, err
	case act.Act == actThaw || act.Act == actMend:
		return r.mended(name+peer, mark, text), nil
	case act.Act == actKill:
		r.machine.restartSoon(name)
	}

	return r.broken(name+peer, began, partitions, mark, text), nil
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
	r.starting(name, name+" is back", func(ctx context.Context) error { return r.config.Stack.Start(ctx, name) })
}

// starting starts what is dead, or new, and tells when it is ready. Nobody waits for it.
func (r *Room) starting(name, done string, start func(context.Context) error) {
	r.acting.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), actTimeout)
		defer cancel()
		began := time.Now()

		if err := start(ctx); err != nil {
			r.config.Log("not %s: %v", done, err)
			r.story.tell(nil, "not %s: %v", done, err)
			return
		}
		r.mended(name, done, fmt.Sprintf("%s, ready after %.1f s", done, time.Since(began).Seconds()))
	})
}
