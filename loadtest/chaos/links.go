package chaos

import (
	"slices"
	"strings"

	"github.com/liquida/liquida/deploy/stack"
)

// linked reports whether a program reaches a server through a link of its own (stack.Config.Linked): if a fault of the
// plan breaks links. Each byte over a link passes this process, which has a load to send.
func (c *Config) linked(process, server string) bool {
	return !c.Bare() && slices.ContainsFunc(c.Plan, func(p PlannedFault) bool {
		return kindNamed(p.Kind).needs == plainKafka
	}) && (strings.HasPrefix(process, "engine-") || process == stack.Producer ||
		process == stack.Simulator && server == stack.Broker) // it does not use the ledger
}
