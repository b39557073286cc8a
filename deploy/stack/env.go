package stack

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var numbered = regexp.MustCompile(`^(engine|tigerbeetle|broker|producer)-[0-9]{1,2}$`)

// kindOf returns the kind of a process, or nothing for the name of none.
func kindOf(name string) string {
	if slices.Contains(kinds, name) {
		return name
	}

	if found := numbered.FindStringSubmatch(name); found != nil {
		return strings.Replace(found[1], "engine", Engine, 1)
	}

	return ""
}

// CheckProcesses returns an error for a process that there cannot be, and for what is no variable.
func CheckProcesses(env map[string][]string) error {
	for name, variables := range env {
		if kindOf(name) == "" {
			return fmt.Errorf("--env names the process %q: it must be one of %s, or one of several, such as %s", name,
				strings.Join(kinds, ", "), EngineName(0))
		}

		for _, variable := range variables {
			if !strings.Contains(variable, "=") {
				return fmt.Errorf("--env %s:%s: it must be PROCESS:NAME=value, like clearing-engine:ENGINE_DEADLINE=10s",
					name, variable)
			}
		}
	}

	return nil
}
