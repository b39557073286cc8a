package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/liquida/liquida/deploy/stack"
)

const (
	// awayFor is how long the killed engine stays away, as after a kill in the control room. It is
	// shorter than the engine's deadline, so that the payments that wait meanwhile still settle.
	awayFor = 5 * time.Second
	// startedWithin bounds the wait for the control room to start what it killed.
	startedWithin = time.Minute
)

// errInterrupted ends the demo after Ctrl-C. How far it came is already printed.
var errInterrupted = errors.New("interrupted")

func demoDir(dir string) string { return filepath.Join(dir, "demo") }

// reportFile is all that a demo leaves that has passed.
const reportFile = "report.html"

// cleanDemo removes what demos left in the folder of a stack.
func cleanDemo(dir string) error {
	if err := os.Remove(filepath.Join(demoDir(dir), reportFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return stack.Clean(demoDir(dir))
}

// demo is a run of the demo: a load on a stack of its own, an engine that dies, and the proof.
type demo struct {
	dir    string
	stack  *stack.Stack // nil: it did not start
	room   *controlRoom // nil: there is none
	screen *screen
	story  *story

	loadErr, auditErr error // nil: passed
}

func (o *options) demo(ctx context.Context) error {
	config := o.config
	config.Dir, config.Ports, config.Room = demoDir(config.Dir), stack.FreePorts, true
	if o.output {
		config.Output = os.Stderr
	}
	// A late bank answers after the engine's deadline. The demo shows that without waiting 40 s.
	// These come first, so that --env wins.
	o.env[stack.Engine] = append([]string{"ENGINE_DEADLINE=10s"}, o.env[stack.Engine]...)
	o.env[stack.Simulator] = append([]string{"SIMULATOR_LATE_DELAY=15s"}, o.env[stack.Simulator]...)

	began := time.Now()
	screen := newScreen(os.Stdout, !o.output)
	config.Progress = screen
	d := &demo{dir: config.Dir, screen: screen, story: newStory(screen), auditErr: errors.New("the audit was not run")}
	err := d.run(ctx, o, config)
	if ctx.Err() != nil {
		return d.interrupted(err)
	}
	if d.stack == nil {
		return err
	}
	fmt.Printf("\nload    %s\nkill    %s\naudit   %s\ntook    %v\n", d.verdict(d.loadErr), d.story.summary(), d.verdict(d.auditErr), time.Since(began).Round(time.Second))
	if exists(d.report()) {
		fmt.Printf("report  %s, which opens in any browser\n", d.report())
	}
	if err != nil {
		d.kept()
		return err
	}
	if err := stack.Clean(d.dir); err != nil {
		return err
	}
	fmt.Printf("\nThe demo's data and logs are deleted.\n\n%s\n", d.screen.paint(bold, "Next"))
	fmt.Println(`  make up                               # the same in the background: API http://127.0.0.1:8080, and the control room
  make load RATE=2000 DURATION=30s      # while it runs: kill -9 an engine, then make up again
  make audit                            # proves one outcome for each payment`)
	fmt.Printf("After make up the banks' keys are in %s, a file for each ISPB.\n", filepath.Join(o.config.Dir, "keys"))
	return nil
}

// run returns what failed. After an interrupt these are only failures that it does not explain.
func (d *demo) run(ctx context.Context, o *options, config stack.Config) error {
	err := o.build(ctx)
	if err == nil {
		err = cleanDemo(o.config.Dir)
	}
	if err == nil {
		d.stack, err = stack.Start(ctx, config)
	}
	if err != nil {
		return unlessInterrupted(ctx, err)
	}
	if err := d.openRoom(ctx); err != nil && ctx.Err() == nil {
		d.screen.line(yellow, "There is no control room, and there will be no report: %v", err)
	}
	killErr := d.load(ctx, o)
	if ctx.Err() == nil { // also after a failed load
		d.auditErr = unlessInterrupted(ctx, d.stack.Run(ctx, os.Stdout, os.Stderr, "loadtest", "audit"))
	}
	if d.room != nil && ctx.Err() == nil {
		if err := d.room.saveReport(ctx, d.report()); err != nil {
			d.screen.line(yellow, "There is no report: %v", err)
		}
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

// openRoom waits for the control room, without which the demo can do.
func (d *demo) openRoom(ctx context.Context) error {
	if err := d.stack.WaitReady(ctx, stack.Room); err != nil {
		return err
	}
	url, err := d.stack.RoomURL()
	if err != nil {
		return err
	}
	if d.room, err = roomAt(url); err == nil {
		d.screen.line("", "Watch it: %s", d.screen.paint(bold, url))
	}
	return err
}

// report is the file with the control room's page as it was at the end.
func (d *demo) report() string { return filepath.Join(d.dir, reportFile) }

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

// kill kills an engine and starts it again after a while, through the control room if there is one.
func (d *demo) kill(ctx context.Context) error {
	name := stack.EngineName(0)
	pid := d.stack.PID(name)
	kill, start := d.stack.Kill, d.startLater
	if d.room != nil {
		kill, start = func(name string) error { return d.room.kill(ctx, name) }, d.awaitStart
	}
	err := kill(name)
	if err == nil {
		d.story.killed(name, pid)
		err = start(ctx, name)
	}
	if err == nil {
		d.story.started(name)
		err = d.stack.WaitReady(ctx, name)
	}
	return unlessInterrupted(ctx, err)
}

func (d *demo) startLater(ctx context.Context, name string) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(awayFor):
		return d.stack.StartProcess(name)
	}
}

// awaitStart waits until the control room has started what it killed.
func (d *demo) awaitStart(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startedWithin, fmt.Errorf("the control room has not started %s within %v", name, startedWithin))
	defer cancel()
	for d.stack.PID(name) == 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func unlessInterrupted(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
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
	if exists(d.dir) {
		fmt.Printf("data    %s\nlogs    %s\nBoth stay until the next demo, or make clean.\n", filepath.Join(d.dir, "data"), filepath.Join(d.dir, "logs"))
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (d *demo) verdict(err error) string {
	if err != nil {
		return d.screen.paint(red, "FAILED")
	}
	return d.screen.paint(green, "passed")
}
