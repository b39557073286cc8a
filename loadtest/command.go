package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
)

// Limits of the flags of several commands.
const (
	rateMax     = 200_000
	paymentsMax = 100_000_000
	enginesMax  = 16
)

// started reports that arguments and environment were good. An error after that is not bad
// usage.
var started bool

// errInterrupted ends a command after Ctrl-C. What it did until then is already printed.
var errInterrupted = errors.New("interrupted")

// errThreshold ends a run whose outcomes are all right, but that breaks a threshold.
var errThreshold = errors.New("a threshold is broken")

// exitThreshold is the exit code then, as of k6.
const exitThreshold = 99

// commandLine is how this process was started, for a shell.
func commandLine() string {
	words := slices.Clone(os.Args)
	for i, word := range words {
		if strings.ContainsAny(word, " \t\n\"'\\$&;|<>()*?#~`!{}[]") {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}

	return strings.Join(words, " ")
}

// environmentHelp lists the variables of a configuration.
func environmentHelp(config any) string {
	var text strings.Builder
	settings.WriteVariables(&text, config)
	return text.String()
}

// each reads all values of a flag. The list is empty, not nil, without any.
func each[T any](flag string, texts []string, read func(string) (T, error)) ([]T, error) {
	all := []T{}

	for _, text := range texts {
		value, err := read(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		all = append(all, value)
	}

	return all, nil
}

// variablesByProcess reads PROCESS:NAME=value.
func variablesByProcess(texts []string) (map[string][]string, error) {
	variables := map[string][]string{}

	for _, text := range texts {
		process, variable, ok := strings.Cut(text, ":")
		if !ok || process == "" || !strings.Contains(variable, "=") {
			return nil, fmt.Errorf("--env holds %q: it must be PROCESS:NAME=value, like clearing-engine:LEDGER_REQUEST_PAUSE=0s",
				text)
		}
		variables[process] = append(variables[process], variable)
	}

	return variables, nil
}

// programs returns the folder of all programs: that of this one.
func programs() (string, error) {
	program, err := os.Executable()
	return filepath.Dir(program), err
}

// reach returns how to connect to Kafka, after it answered once. Fail early: with bad
// credentials the client would retry forever and say nothing.
func reach(ctx context.Context, config stream.Config) ([]kgo.Opt, error) {
	options, err := config.Options()
	if err != nil {
		return nil, err
	}

	client, err := config.Client(kgo.ClientID("loadtest"))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()

	return options, stream.Reach(ctx, client)
}
