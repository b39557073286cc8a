package chaos

import (
	"strings"

	"github.com/liquida/liquida/deploy/stack"
)

// linked reports whether a program reaches a server through a link of its own (stack.Config.Linked).
func linked(process, server string) bool {
	return strings.HasPrefix(process, "engine-") || process == stack.Producer ||
		process == stack.Simulator && server == stack.Broker // it does not use the ledger
}
