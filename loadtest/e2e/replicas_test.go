package e2e

import (
	"testing"
	"time"

	"github.com/liquida/liquida/deploy/stack"
)

// Of three TigerBeetle replicas one is killed and comes back, and then another, so that
// one of them was the primary. The other two go on: nothing is excused by their deadline.
func TestReplicaKilled(t *testing.T) {
	s := start(t, 1, func(c *stack.Config) { c.Replicas, c.CacheGrid = 3, "" })
	load := s.load(200, 8000, "--mix", "demo")
	for _, replica := range s.Replicas()[:2] {
		time.Sleep(3 * time.Second)
		s.must(s.Kill(replica))
		time.Sleep(3 * time.Second)
		s.ready(stack.EngineName(0)) // on two replicas
		s.must(s.StartProcess(replica))
		s.ready(replica)
	}
	s.settledAtLeast(load.wait(), 0.9)
	s.audit()
}
