package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/liquida/liquida/deploy/stack"
)

// awayFor is how long the killed engine stays away. It is shorter than the engine's deadline, so
// that the payments that wait meanwhile still settle.
const awayFor = 5 * time.Second

// errInterrupted ends the demo after Ctrl-C. How far it came is already printed.
var errInterrupted = errors.New("interrupted")

func demoDir(dir string) string { return filepath.Join(dir, "demo") }

// demo is a run of the demo: a load on a stack of its own, an engine that dies, and the proof.
type demo struct {
	dir    string
	stack  *stack.Stack // nil: it did not start
	screen *screen
	story  *story

	loadErr, auditErr error // nil: passed
}

func (o *options) demo(ctx context.Context) error {
	config := o.config
	config.Dir, config.Ports = demoDir(config.Dir), stack.FreePorts
	if o.output {
		config.Output = os.Stderr
	}
	// A late bank answers after the engine's deadline. The demo shows that without waiting 40 s.
	// These come first, so that --env wins.
	o.env[stack.Engine] = append([]string{"ENGINE_DEADLINE=10s"}, o.env[stack.Engine]...)
	o.env[stack.Simulator] = append([]string{"SIMULATOR_LATE_DELAY=15s"}, o.env[stack.Simulator]...)

	began := time.Now()
	screen := newScreen(os.Stdout, !o.output)
	d := &demo{dir: config.Dir, screen: screen, story: newStory(screen), auditErr: errors.New("the audit was not run")}
	err := d.run(ctx, o, config)
	if ctx.Err() != nil {
		return d.interrupted(err)
	}
	if d.stack == nil {
		return err
	}
	fmt.Printf("\nload    %s\nkill    %s\naudit   %s\ntook    %v\n", d.verdict(d.loadErr), d.story.summary(), d.verdict(d.auditErr), time.Since(began).Round(time.Second))
	if err != nil {
		d.kept()
		return err
	}
	if err := stack.Clean(d.dir); err != nil {
		return err
	}
	fmt.Printf("\nThe demo's data and logs are deleted.\n\n%s\n", d.screen.paint(bold, "Next"))
	fmt.Println(`  make up                               # the same in the background: http://127.0.0.1:8080
  make load RATE=2000 DURATION=30s      # while it runs: kill -9 an engine, then make up again
  make audit                            # proves one outcome for each payment`)
	fmt.Printf("After make up the banks' keys are in %s, a file for each ISPB.\n", filepath.Join(o.config.Dir, "keys"))
	return nil
}

// run returns what failed. After an interrupt these are only failures that it does not explain.
func (d *demo) run(ctx context.Context, o *options, config stack.Config) error {
	err := o.build(ctx)
	if err == nil {
		err = stack.Clean(d.dir)
	}
	if err == nil {
		d.stack, err = stack.Start(ctx, config)
	}
	if err != nil {
		return unlessInterrupted(ctx, err)
	}
	killErr := d.load(ctx, o)
	if ctx.Err() == nil { // also after a failed load
		d.auditErr = unlessInterrupted(ctx, d.stack.Run(ctx, os.Stdout, os.Stderr, "loadtest", "audit"))
	}
	crashes := d.stack.Crashes()
	err = errors.Join(d.loadErr, killErr, d.stack.Stop(context.WithoutCancel(ctx)))
	if ctx.Err() == nil {
		err = errors.Join(err, d.auditErr)
	}
	for _, c := range crashes {
		err = errors.Join(err, fmt.Errorf("%s ended unasked (%s); the end of its log:\n%s", c.Name, c.How, c.Log))
	}
	return err
}

// load sends the load, and kills an engine when half of it is sent. It returns why that failed.
func (d *demo) load(ctx context.Context, o *options) (killErr error) {
	var result bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		// An order that waits longer than the engine's deadline must be rejected. On a slow machine
		// the engine's death may cause that. The result counts these as excused.
		ended <- d.stack.Run(ctx, &result, d.story, "loadtest", "run", "--progress=json", "--allow=AB03,LQ10",
			fmt.Sprint("--rate=", o.rate), fmt.Sprint("--payments=", o.payments))
	}()
	select {
	case d.loadErr = <-ended:
	case <-d.story.half:
		killErr = d.kill(ctx)
		d.loadErr = <-ended
	}
	if ctx.Err() != nil && d.story.latest().Wrong == 0 {
		d.loadErr = nil
		return killErr
	}
	os.Stdout.Write(result.Bytes())
	return killErr
}

// kill kills an engine, and starts it again after a while.
func (d *demo) kill(ctx context.Context) error {
	name := stack.EngineName(0)
	pid := d.stack.PID(name)
	if err := d.stack.Kill(name); err != nil {
		return err
	}
	d.story.killed(name, pid)
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(awayFor):
	}
	if err := d.stack.StartProcess(name); err != nil {
		return err
	}
	d.story.started(name)
	return unlessInterrupted(ctx, d.stack.WaitReady(ctx, name))
}

func unlessInterrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// interrupted says how far the demo came. err is what failed before.
func (d *demo) interrupted(err error) error {
	n := d.story.latest()
	fmt.Printf("\nINTERRUPTED: %s sent, %s ended, %s under way; audit not run\n", thousands(n.Sent), thousands(n.Sent-n.Waiting), thousands(n.Waiting))
	d.kept()
	if err != nil {
		return err
	}
	return errInterrupted
}

// kept says where the data and the logs are.
func (d *demo) kept() {
	if _, err := os.Stat(d.dir); err == nil {
		fmt.Printf("data    %s\nlogs    %s\nBoth stay until the next demo, or make clean.\n", filepath.Join(d.dir, "data"), filepath.Join(d.dir, "logs"))
	}
}

func (d *demo) verdict(err error) string {
	if err != nil {
		return d.screen.paint(red, "FAILED")
	}
	return d.screen.paint(green, "passed")
}
