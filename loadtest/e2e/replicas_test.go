package e2e

import (
	"testing"
	"time"

	"github.com/liquida/liquida/deploy/stack"
)

// One at a time of three TigerBeetle replicas is lost and comes back: the first two are killed,
// the third freezes. Each is usually the primary at that time, because the primary moves to the
// next replica. The other two go on. On a busy machine three replicas may be slower than the
// deadline, so AB03 is excused; the audit excuses nothing.
func TestReplicaLost(t *testing.T) {
	s := start(t, 1, func(c *stack.Config) { c.Replicas, c.CacheGrid = 3, "" })
	load := s.load(200, 8000, duringFaults...)
	replicas := s.Replicas()
	for _, replica := range replicas {
		lose, bring := s.Kill, s.StartProcess
		if replica == replicas[2] {
			lose, bring = s.Pause, s.Resume
		}
		time.Sleep(3 * time.Second)
		s.must(lose(replica))
		time.Sleep(3 * time.Second)
		s.ready(stack.EngineName(0)) // on two replicas
		s.must(bring(replica))
		s.ready(replica)
	}
	s.settledAtLeast(load.wait(), 0.5)
	s.audit()
}
