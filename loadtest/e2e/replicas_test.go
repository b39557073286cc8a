package e2e

import (
	"testing"

	"github.com/liquida/liquida/deploy/stack"
)

// One at a time of three TigerBeetle replicas is lost and comes back: the first two are killed,
// the third freezes. Each is usually the primary at that time, because the primary moves to the
// next replica. The other two go on. On a busy machine three replicas may be slower than the
// deadline, so AB03 is excused; the audit excuses nothing.
func TestReplicaLost(t *testing.T) {
	s := start(t, 1, func(c *stack.Config) { c.Replicas = 3 })
	load := s.load(200, 6000, duringFaults...)
	replicas := s.Replicas()
	for _, replica := range replicas {
		lose, bring := s.Kill, s.StartProcess
		if replica == replicas[2] {
			lose, bring = s.Pause, s.Resume
		}
		load.progress(100)
		s.must(lose(replica))
		load.progress(100) // on two replicas
		s.ready(stack.EngineName(0))
		s.must(bring(replica))
		s.ready(replica)
	}
	load.proven()
}

// An older copy of all replicas' files is not taken either.
func TestAnOlderLedgerOfReplicasIsNotTaken(t *testing.T) {
	olderLedgerIsNotTaken(openBooks(t, func(c *stack.Config) { c.Replicas = 3 }))
}
