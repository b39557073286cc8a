// Package crash lets a program under test die at a named step of its work, like in a
// power cut. In production it is switched off and costs a comparison with nil.
package crash

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Point names a step.
type Point string

// Crash kills the process at the n-th passage of a point. A nil Crash never does.
type Crash struct {
	point  Point
	n      int64
	passed atomic.Int64
	die    func()
}

// Parse reads POINT:N from the value of a variable; nothing is no crash.
func Parse(variable, text string, points []Point) (*Crash, error) {
	if text == "" {
		return nil, nil
	}
	name, number, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 {
		return nil, fmt.Errorf("%s is %q: it must be POINT:N with N from 1 on", variable, text)
	}
	if !slices.Contains(points, Point(name)) {
		return nil, fmt.Errorf("%s is %q: POINT must be one of %q", variable, text, points)
	}
	return &Crash{point: Point(name), n: n, die: die}, nil
}

// Pass counts a passage of a point and dies if it is the one.
func (c *Crash) Pass(point Point) {
	if c.due(point) {
		c.die()
	}
}

// sendDelay is about the time of a request to a server on the same machine.
const sendDelay = time.Millisecond

// PassSent is Pass for a point at which something has just been queued for sending: it
// dies a moment later, with the request on its way, or there, and the answer not here yet.
func (c *Crash) PassSent(point Point) {
	if c.due(point) {
		time.AfterFunc(sendDelay, c.die)
	}
}

func (c *Crash) due(point Point) bool {
	return c != nil && c.point == point && c.passed.Add(1) == c.n
}

// die is a death without any last word: no deferred call, no flush.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
