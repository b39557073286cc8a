package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// quitMax is how long a program may take to print its goroutines.
const quitMax = 10 * time.Second

// runProgram runs a Go program that calls endWithParent, and returns what it printed. After the time
// within, the program prints its goroutines and ends, and the error says so.
func runProgram(ctx context.Context, program *exec.Cmd, within time.Duration) (output []byte, err error) {
	late := fmt.Errorf("it did not end within %v of real time: it was stopped, and printed its goroutines", within)
	ctx, cancel := context.WithTimeoutCause(ctx, within, late)
	defer cancel()
	command := exec.CommandContext(ctx, program.Path, program.Args[1:]...)
	command.Dir, command.Env = program.Dir, program.Env
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGQUIT) }
	command.WaitDelay = quitMax
	hold, err := command.StdinPipe() // the kernel closes it when this process ends, however it ends
	if err != nil {
		return nil, err
	}
	defer hold.Close()
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	err = command.Run()
	program.ProcessState = command.ProcessState
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return said.Bytes(), err
}

// endWithParent ends this program, which runProgram has started, when its parent ends.
func endWithParent() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
}
