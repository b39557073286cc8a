package stack

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
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

// ours reports whether a kind is a program of this project, whose --help lists its settings.
func (c *Config) ours(kind string) bool {
	return !slices.Contains([]string{TigerBeetle, Prometheus, StatsdBridge}, kind) &&
		(kind != Broker || c.Kafka != Apache)
}

// CheckProcesses returns an error for a process that there cannot be, and for what is no setting.
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

// checkEnv also returns an error for a setting that its program does not know. What a program of others knows is not
// known here.
func (c *Config) checkEnv(ctx context.Context) error {
	if err := CheckProcesses(c.Env); err != nil {
		return err
	}

	for name, variables := range c.Env {
		kind := kindOf(name)
		if !c.ours(kind) || len(variables) == 0 {
			continue
		}

		ask := []string{filepath.Join(c.BinDir, kind), "--help"}
		if kind == Room {
			ask = []string{filepath.Join(c.BinDir, "loadtest"), Room, "--help"}
		}
		help := exec.CommandContext(ctx, ask[0], ask[1:]...)
		help.Env = []string{}

		known, err := help.Output()
		if err != nil {
			return fmt.Errorf("cannot ask %s for its settings: %w", strings.Join(ask, " "), err)
		}

		for _, variable := range variables {
			setting, _, _ := strings.Cut(variable, "=")

			listed := regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(setting) + `\b`)
			if !listed.Match(known) && !strings.HasPrefix(setting, "GO") { // GOMEMLIMIT and others are Go's own
				return fmt.Errorf("--env %s:%s: %s has no setting %s; `%s` lists all", name, variable, kind, setting,
					strings.Join(ask, " "))
			}
		}
	}

	return nil
}
