package main

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// waitingRoom holds the answers whose time has not come, with one goroutine and one
// timer for all of them.
type waitingRoom struct {
	mu      sync.Mutex
	answers byDue
	sooner  chan struct{} // something is due before what the timer waits for
}

func newWaitingRoom() *waitingRoom { return &waitingRoom{sooner: make(chan struct{}, 1)} }

func (w *waitingRoom) put(a *answer) {
	w.mu.Lock()
	heap.Push(&w.answers, a)
	first := w.answers[0] == a
	w.mu.Unlock()
	if first {
		select {
		case w.sooner <- struct{}{}:
		default:
		}
	}
}

func (w *waitingRoom) length() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.answers)
}

// release gives every answer to send when it is due, until ctx ends.
func (w *waitingRoom) release(ctx context.Context, send func(*answer)) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var due []*answer
	var rest time.Duration
	for {
		due, rest = w.takeDue(due[:0], time.Now())
		for i, a := range due {
			send(a)
			due[i] = nil
		}
		timer.Reset(rest)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-w.sooner:
		}
	}
}

// takeDue returns the answers that are due and the time until the next one.
func (w *waitingRoom) takeDue(due []*answer, now time.Time) ([]*answer, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.answers) > 0 {
		if rest := w.answers[0].due.Sub(now); rest > 0 {
			return due, rest
		}
		due = append(due, heap.Pop(&w.answers).(*answer))
	}
	return due, time.Hour
}

type byDue []*answer

func (b byDue) Len() int           { return len(b) }
func (b byDue) Less(i, j int) bool { return b[i].due.Before(b[j].due) }
func (b byDue) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *byDue) Push(a any)        { *b = append(*b, a.(*answer)) }
func (b *byDue) Pop() any {
	last := len(*b) - 1
	a := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	return a
}
