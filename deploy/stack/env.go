package stack

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// logLevels are those that every service takes.
var logLevels = []string{"debug", "info", "warn", "error"}

// BadSetting is an error in the settings that a stack is given for its processes.
type BadSetting struct{ why string }

func (b *BadSetting) Error() string { return b.why }

// kinds are the keys of Config.Env besides names of single processes.
var kinds = []string{TigerBeetle, Broker, Links, Bootstrap, Simulator, Engine, Producer, Archiver, Room, Prometheus, StatsdBridge}

// kindOf returns the kind of a process, or nothing for the name of none.
func kindOf(name string) string {
	kind, number, numbered := strings.Cut(name, "-")
	n, err := strconv.Atoi(number)
	switch {
	case slices.Contains(kinds, name):
		return name
	case !numbered || err != nil || n < 0:
		return ""
	case kind == "engine" && n < EnginesMax:
		return Engine
	case kind == TigerBeetle:
		return TigerBeetle
	case kind == Broker && n > 0 && n < 3:
		return Broker
	case name == SecondProducer:
		return Producer
	}
	return ""
}

// ours reports whether a kind is a program of this project, whose --help lists its settings.
func (c *Config) ours(kind string) bool {
	return !slices.Contains([]string{TigerBeetle, Prometheus, StatsdBridge}, kind) && (kind != Broker || c.Kafka != Apache)
}

// checkEnv returns a BadSetting for a process that there cannot be, and for a setting that its program does not know.
// What a program of others knows is not known here.
func (c *Config) checkEnv(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		kind := kindOf(name)
		if kind == "" {
			return &BadSetting{fmt.Sprintf("--env names the process %q: it must be one of %s, or one of several, such as %s", name, strings.Join(kinds, ", "), EngineName(0))}
		}
		if !c.ours(kind) || len(c.Env[name]) == 0 {
			continue
		}
		known, asked, err := c.settingsOf(ctx, kind)
		if err != nil {
			return err
		}
		for _, variable := range c.Env[name] {
			setting, _, whole := strings.Cut(variable, "=")
			if whole && !known[setting] && !strings.HasPrefix(setting, "GO") { // GOMEMLIMIT and others are Go's own
				return &BadSetting{fmt.Sprintf("--env %s:%s: %s has no setting %s; `%s` lists all", name, variable, kind, setting, asked)}
			}
		}
	}
	return nil
}

// settingsOf asks a program which settings it has.
func (c *Config) settingsOf(ctx context.Context, kind string) (known map[string]bool, asked string, err error) {
	ask := []string{filepath.Join(c.BinDir, kind), "--help"}
	if kind == Room {
		ask = []string{filepath.Join(c.BinDir, "loadtest"), Room, "--help"}
	}
	help := exec.CommandContext(ctx, ask[0], ask[1:]...)
	help.Env = []string{}
	text, err := help.Output()
	if err != nil {
		return nil, "", fmt.Errorf("cannot ask %s for its settings: %w", strings.Join(ask, " "), err)
	}
	known = map[string]bool{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if name, indented := strings.CutPrefix(lines.Text(), "  "); indented {
			name, _, _ = strings.Cut(name, " ")
			known[name] = true
		}
	}
	return known, strings.Join(ask, " "), nil
}

// withEnv returns settings with others behind them, of which each wins over the one of its name.
func withEnv(all, others map[string][]string) map[string][]string {
	merged := maps.Clone(all)
	if merged == nil {
		merged = map[string][]string{}
	}
	for process, variables := range others {
		kept := slices.DeleteFunc(slices.Clone(merged[process]), func(before string) bool {
			return slices.ContainsFunc(variables, func(now string) bool { return nameIn(now) == nameIn(before) })
		})
		merged[process] = append(kept, variables...)
	}
	return merged
}

func nameIn(variable string) string {
	name, _, _ := strings.Cut(variable, "=")
	return name
}

// changes returns how the settings of a running process differ from those that its spec says.
func (p *process) changes() (changes []string) {
	r := p.current()
	if r == nil || r.dead() || r.env == nil {
		return nil
	}
	is, want := valuesOf(r.env), valuesOf(p.spec.env)
	for name, value := range want {
		if before, set := is[name]; !set || before != value {
			changes = append(changes, name+"="+value)
		}
	}
	for name := range is {
		if _, set := want[name]; !set {
			changes = append(changes, name+" as by default")
		}
	}
	slices.Sort(changes)
	return changes
}

func valuesOf(env []string) map[string]string {
	values := map[string]string{}
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		values[name] = value
	}
	return values
}

// apply stops a running process whose settings have changed, and says so, for its caller to start it again.
func (s *Stack) apply(ctx context.Context, p *process) error {
	changes := p.changes()
	if changes == nil {
		return nil
	}
	fmt.Fprintf(s.config.Progress, "%-15s restarts with %s\n", p.spec.name, strings.Join(changes, ", "))
	return p.stop(ctx, s.config.StopWithin)
}
