//go:build unix && !linux

package stack

// cores are processors that a process may run on: only Linux lets them be chosen.
type cores struct{}

func splitCores() (ledger, others *cores) { return nil, nil }
func confineThread(*cores) error          { return nil }
func confineProcess(*cores) error         { return nil }
