package engine

import (
	"sync"

	"github.com/liquida/liquida/platform/stream"
)

// rangesMax bounds the ranges of a partition that were overtaken and not read. With so many,
// the partition is read in its order.
const rangesMax = 1000

// overtaken are the ranges of a partition that younger orders have overtaken.
type overtaken struct {
	mu       sync.Mutex
	ranges   []stream.Span // ascending; the first one is being read
	position *position     // nil if there are none
	closed   bool          // the partition is handed over
}

// reading returns the position of the client in the first range, or nil.
func (o *overtaken) reading() *position {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.position
}

// records returns how many were overtaken and not read.
func (o *overtaken) records() (n int64) {
	o.mu.Lock()
	defer o.mu.Unlock()

	for _, r := range o.ranges {
		n += r.To - r.From
	}

	if o.position != nil {
		n -= o.position.at() - o.ranges[0].From
	}

	return n
}

func (o *overtaken) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}
