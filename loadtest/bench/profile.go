package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/platform/host"
)

// profiles are taken in this order, after the run has warmed up.
var profiles = []struct {
	path    string
	options []string // of go tool pprof
}{
	{"profile?seconds=10", []string{"-nodecount=25"}},
	{"allocs?seconds=4", []string{"-sample_index=alloc_objects", "-nodecount=15"}},
	// A wait counts for the function that waited, not for the lock or channel itself.
	{"mutex?seconds=4", []string{"-sample_index=delay", "-nodecount=8", `-hide=^(runtime|sync|internal)[./]`}},
	{"block?seconds=4", []string{"-sample_index=delay", "-nodecount=8", `-hide=^(runtime|sync|internal)[./]`}},
}

// startProfile takes the profiles of one engine into the folder. The function that it returns fails if they
// are not complete when the run ends, and prints their tops.
func (m *session) startProfile(ctx context.Context, url string) func() error {
	var tops strings.Builder
	done := make(chan error, 1)
	go func() { done <- m.takeProfiles(ctx, url, &tops) }()

	return func() error {
		select {
		case err := <-done:
			fmt.Fprint(m.Config.Log, tops.String())
			return err
		default:
			<-done // its requests end by themselves
			return errors.New("the run ended before its profiles, which take 26 s: give more --payments")
		}
	}
}

func (m *session) takeProfiles(ctx context.Context, url string, tops *strings.Builder) error {
	if err := os.MkdirAll(m.Profiles, 0o755); err != nil {
		return err
	}

	if !host.Sleep(ctx, 4*time.Second) {
		return ctx.Err()
	}

	for _, p := range profiles {
		name, _, _ := strings.Cut(p.path, "?")
		file := filepath.Join(m.Profiles, name+".pb.gz")

		profile, err := meter.Get(ctx, url+"/debug/pprof/"+p.path)
		if err == nil {
			err = os.WriteFile(file, profile, 0o644)
		}

		if err != nil {
			return fmt.Errorf("cannot profile the engine: %w", err)
		}
		command := exec.CommandContext(ctx, "go",
			append(append([]string{"tool", "pprof", "-top"}, p.options...), file)...)
		command.Env = append(os.Environ(), "PPROF_TMPDIR="+m.Profiles)

		top, err := command.Output()
		if err != nil {
			return fmt.Errorf("cannot read the profile %s: %w", file, err)
		}
		fmt.Fprintf(tops, "\n%s:\n%s", file, top)
	}

	return nil
}
