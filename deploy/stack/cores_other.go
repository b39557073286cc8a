//go:build unix && !linux

package stack

// cores are the processors that a process may run on. Only Linux lets us choose them.
type cores struct{}

func splitCores() (ledger, others *cores) { return nil, nil }
func confineThread(*cores) error          { return nil }
func confineProcess(*cores) error         { return nil }
