// Package crash lets a program under test die at a named step of its work, as in a power
// cut. In production it is off and costs a comparison with nil.
package crash

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Point names a step.
type Point string

// Crash dies at the n-th passage of a point. A nil Crash never does.
type Crash struct {
	point  Point
	n      int64
	passed atomic.Int64
	die    func()
}

// Parse reads POINT:N from the value of a variable. An empty value means no crash. die ends
// the process; it may be nil if the value is only checked.
func Parse(variable, value string, points []Point, die func()) (*Crash, error) {
	if value == "" {
		return nil, nil
	}
	name, number, _ := strings.Cut(value, ":")

	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 {
		return nil, fmt.Errorf("%s is %q: it must be POINT:N, where N is at least 1", variable, value)
	}

	if !slices.Contains(points, Point(name)) {
		return nil, fmt.Errorf("%s is %q: POINT must be one of %q", variable, value, points)
	}

	return &Crash{point: Point(name), n: n, die: die}, nil
}

// Pass counts a passage of a point and dies if it is the n-th.
func (c *Crash) Pass(point Point) {
	if c.due(point) {
		c.die()
	}
}

// sendDelay is about the time of a request to a server on the same machine.
const sendDelay = time.Millisecond

// PassSent is Pass for a point at which something has just been queued for sending. It
// dies a moment later: the request is on its way or has arrived, its result has not.
func (c *Crash) PassSent(point Point) {
	if c.due(point) {
		time.AfterFunc(sendDelay, c.die)
	}
}

func (c *Crash) due(point Point) bool {
	return c != nil && c.point == point && c.passed.Add(1) == c.n
}
