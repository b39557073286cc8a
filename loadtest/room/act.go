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
	actRestart = "restart"
	actBank    = "bank"
	actLoad    = "load"
)

// refusal says which field of an act is wrong, and what it must be.
type refusal struct{ field, value, rule string }

func (r refusal) Error() string {
	return fmt.Sprintf("%s is %q: it must be %s", r.field, r.value, r.rule)
}

var errNoBanks = errors.New("the room cannot reach the bank simulator: set SIMULATOR_URL and CLIENT_KEYS_DIR")

// actTimeout bounds an act. It is longer than the stack waits for a process to become ready, and then says why not.
const actTimeout = 4 * time.Minute

var acts = []string{stack.ActKill, stack.ActFreeze, stack.ActThaw, actRestart, stack.ActAddEngine, stack.ActCut,
	stack.ActMend, actBank, actLoad}

// Do does one act.
func (r *Room) Do(ctx context.Context, act Act) error {
	r.mu.Lock()
	r.askedAt = time.Now()
	r.mu.Unlock()

	if !slices.Contains(acts, act.Act) {
		return refusal{"act", act.Act, "one of " + strings.Join(acts, ", ")}
	}

	if why := r.readOnly(); why != "" {
		return errors.New(why)
	}

	kind, text, err := r.do(ctx, act)
	if err == nil {
		r.story.tell(kind, text)
	}

	return err
}

// do does an act that the room knows, and returns what the story says of it.
func (r *Room) do(ctx context.Context, act Act) (kind, text string, err error) {
	on, name, peer := r.config.Stack, act.Target, act.Peer

	switch act.Act {
	case actLoad:
		text = fmt.Sprintf("the load is %s payments a second", pix.Thousands(int64(act.RatePerSecond)))
		return "", text, r.sender.set(act.RatePerSecond)
	case actBank:
		kind = kindBroken
		if act.Behaviour == behaviourNormal {
			kind = kindMended
		}

		return kind, "bank " + name + " is " + act.Behaviour, r.banks.behave(ctx, name, act.Behaviour)
	case stack.ActAddEngine:
		r.starting("", "one more engine", 0, stack.ActAddEngine)
		return "", "an engine is added", nil
	}

	p, known := r.machine.find(name)
	if !known || name == stack.Room {
		return "", "", refusal{"target", name, "a process that the picture shows, not the room itself"}
	}

	if act.Act == actRestart {
		if p.State != string(stack.Dead) {
			return "", "", refusal{"target", name, "a dead process"}
		}
		r.startAgain(name, 0)

		return "", name + " starts again", nil
	}

	switch err = on.Act(ctx, act.Act, name, peer); act.Act {
	case stack.ActKill:
		if err == nil {
			r.startAgain(name, restartAfter)
		}

		return kindBroken, name + " killed", err
	case stack.ActFreeze:
		return kindBroken, name + " frozen", err
	case stack.ActThaw:
		return kindMended, name + " thawed", err
	case stack.ActCut:
		return kindBroken, name + " cut from the " + peer, err
	}

	return kindMended, name + " reaches the " + peer + " again", err
}

// restartAfter is how long what a button killed stays dead.
const restartAfter = 5 * time.Second

// startAgain starts a process after a time, if it is dead then.
func (r *Room) startAgain(name string, after time.Duration) {
	r.starting(name, name+" is back", after, stack.ActStart)
}

// starting starts what is dead, or new, after a time, and tells when it is ready. Nobody waits for it.
func (r *Room) starting(name, done string, after time.Duration, act string) {
	r.acting.Go(func() {
		select {
		case <-r.ended:
			return
		case <-time.After(after):
		}

		ctx, cancel := context.WithTimeout(context.Background(), actTimeout)
		defer cancel()

		if name != "" && r.machine.lives(ctx, name) {
			return // somebody was faster
		}
		began := time.Now()

		if err := r.config.Stack.Act(ctx, act, name, ""); err != nil {
			r.config.Log("not %s: %v", done, err)
			r.story.tell("", fmt.Sprintf("not %s: %v", done, err))
			return
		}
		r.story.tell(kindMended, fmt.Sprintf("%s, ready after %.1f s", done, time.Since(began).Seconds()))
	})
}
