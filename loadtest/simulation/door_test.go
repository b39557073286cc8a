package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/liquida/liquida/loadtest/answers"
	"github.com/liquida/liquida/loadtest/load"
)

// door is the load at the front doors: clients that pay, ask and follow while faults happen, and
// what they saw.
type door struct {
	w        *world
	judge    *answers.Judge
	clients  *answers.Clients
	observer *answers.Observer
	share    float64 // payments over HTTP for each payment at Kafka

	stopAsking context.CancelFunc
	asking     sync.WaitGroup
	paying     sync.WaitGroup
}

const beginMax = time.Minute

// invite has the guest join.
func (w *world) invite(seed uint64) error {
	if err := w.operator(rand.New(rand.NewPCG(seed, 1001)), 0).Invite(w.keys[string(load.Guest)]); err != nil {
		return err
	}
	if err := w.populate(); err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // every front door knows the guest's key
	return nil
}

// beginDoor opens the settlements streams, before clients send anything.
func (w *world) beginDoor(seed uint64, p pace) error {
	d := &door{w: w, judge: answers.NewJudge(p.payments, 0), share: 0.4 + 0.4*rand.New(rand.NewPCG(seed, 1000)).Float64()}
	d.clients = answers.NewClients(answers.Config{
		Doors: w.doors, Dial: w.dialDoor, Keys: w.keys, Population: population, Guests: load.GuestAccounts, Judge: d.judge, Seed: seed, Asks: p.asks,
	})
	ctx, cancel := context.WithTimeout(w.ends, beginMax)
	defer cancel()
	err := d.clients.Begin(ctx)
	if err == nil {
		d.observer, err = answers.Observe(ctx, w.kafka(), d.judge, nil)
	}
	w.door = d
	return err
}

// begin lets clients pay for a time at a share of the load's rate, and ask until the end.
func (d *door) begin(sending time.Duration, rate float64) {
	asking, stopAsking := context.WithCancel(d.w.ends)
	d.stopAsking = stopAsking
	d.asking.Go(func() { d.clients.Ask(asking) })
	patience, losePatience := context.WithTimeout(d.w.ends, sending+drainMax)
	d.paying.Go(func() {
		defer losePatience()
		ends, cancel := context.WithTimeout(d.w.ends, sending)
		defer cancel()
		d.clients.Pay(ends, patience, rate*d.share, d.observer)
		d.clients.Wait()
	})
}

// end returns when all payments of clients have ended and nobody asks any more.
func (d *door) end() {
	d.paying.Wait()
	d.stopAsking()
	d.asking.Wait()
}

// calm lets clients pay when all faults are over.
func (d *door) calm() {
	patience, cancel := context.WithTimeout(d.w.ends, drainMax)
	defer cancel()
	asking, stopAsking := context.WithCancel(patience)
	d.asking.Go(func() { d.clients.Ask(asking) })
	d.clients.PayInCalm(patience, calmFor, calmRate)
	stopAsking()
	d.asking.Wait()
}

// problems asks once more about everything, and judges all that was said.
func (d *door) problems() (problems []string) {
	complain := func(format string, arguments ...any) { problems = append(problems, fmt.Sprintf(format, arguments...)) }
	ctx, cancel := context.WithTimeout(d.w.ends, quietMax)
	defer cancel()
	if err := d.observer.Finish(ctx); err != nil {
		complain("%v", err)
	}
	untold, err := d.clients.Finish(ctx, d.w.ledger.Connect(nil))
	if err != nil || untold > 0 {
		complain("at the end the producers did not answer about %d payments and accounts (%v)", untold, err)
	}
	if err := d.clients.ReadDays(ctx, d.w.ledger.Connect(nil)); err != nil {
		complain("statements of days: %v", err)
	}
	told, err := d.judge.Conclude(d.w.ledger.Connect(nil))
	if err != nil {
		complain("%v", err)
	}
	problems = append(problems, d.clients.Problems(told)...)
	d.w.note("%v", told)
	if !told.Clean {
		text := told.String()
		for _, c := range told.Contradictions {
			text += fmt.Sprintf("\nWRONG %v", c)
		}
		complain("%s", text)
	}
	return problems
}
