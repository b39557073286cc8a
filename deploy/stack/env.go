package stack

import (
	"bufio"
	"bytes"
	"context"
	"errors"
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

func badSetting(format string, arguments ...any) error {
	return &BadSetting{fmt.Sprintf(format, arguments...)}
}

func isBadSetting(err error) bool {
	_, bad := errors.AsType[*BadSetting](err)
	return bad
}

// kindOf returns the kind of a process, or nothing for the name of none.
func kindOf(name string) string {
	kind, number, numbered := strings.Cut(name, "-")
	n, err := strconv.Atoi(number)
	switch {
	case slices.Contains(kindsInOrder, name):
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
			return badSetting("--env names the process %q: it must be one of %s, or one of several, such as %s", name, strings.Join(kindsInOrder, ", "), EngineName(0))
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
				return badSetting("--env %s:%s: %s has no setting %s; `%s` lists all", name, variable, kind, setting, asked)
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
