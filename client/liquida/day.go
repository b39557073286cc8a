package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/pix"
)

var dayFormats = []string{"csv", "json", "camt053"}

// dayFlags are the flags that name a day of a participant.
type dayFlags struct{ participant, day, until string }

func (d *dayFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&d.participant, "participant", "", "ISPB of the bank")
	flags.StringVar(&d.day, "day", "", "day in São Paulo's time, yyyy-MM-dd")
	flags.StringVar(&d.until, "until", "",
		"only what came before this time of the day, RFC 3339, which must be past; empty: the whole day, which must be over")
}

func (d *dayFlags) check() error {
	if _, err := pix.ParseISPB(d.participant); err != nil {
		return fmt.Errorf("--participant %q: %w", d.participant, err)
	}

	if _, err := pix.ParseDay(d.day); err != nil {
		return fmt.Errorf("--day: %w", err)
	}

	if _, err := time.Parse(time.RFC3339Nano, d.until); d.until != "" && err != nil {
		return fmt.Errorf("--until %q: it must be a time as in RFC 3339", d.until)
	}

	return nil
}

// printDay writes the statement of a day to standard output or to a file, which is whole or not
// there.
func (o *options) printDay(ctx context.Context, d dayFlags, format, output string) error {
	to := newProgress(o.out, "statement of "+d.day)
	var file *os.File

	if output != "" {
		var err error
		if file, err = os.CreateTemp(filepath.Dir(output), filepath.Base(output)+".*"); err != nil {
			return fmt.Errorf("--output: %w", err)
		}
		defer os.Remove(file.Name()) // unless it was renamed
		defer file.Close()
		to.to = file
	}
	o.started = true

	err := o.api.CopyDay(ctx, client.Day{Participant: d.participant, Day: d.day, Until: d.until, Format: format}, to)
	if client.Unfinished(err) {
		return &openOutcome{err}
	}

	if err != nil || file == nil {
		return err
	}

	if err := file.Close(); err != nil {
		return err
	}

	return os.Rename(file.Name(), output)
}

func checkFormat(format string) error {
	if !slices.Contains(dayFormats, format) {
		return fmt.Errorf("--format is %q: it must be one of %s", format, strings.Join(dayFormats, ", "))
	}

	return nil
}

// progress counts the lines of what is written, and says now and then how many there are.
type progress struct {
	to    io.Writer
	what  string
	last  time.Time
	lines int
	bytes int64
}

const progressEvery = 5 * time.Second

func newProgress(to io.Writer, what string) *progress {
	return &progress{to: to, what: what, last: time.Now()}
}

func (p *progress) Write(text []byte) (int, error) {
	p.lines += bytes.Count(text, []byte{'\n'})

	p.bytes += int64(len(text))
	if now := time.Now(); now.Sub(p.last) >= progressEvery {
		p.last = now
		fmt.Fprintf(os.Stderr, "%s: %d lines, %d MB\n", p.what, p.lines, p.bytes>>20)
	}

	return p.to.Write(text)
}
