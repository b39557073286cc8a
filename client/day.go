package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"
)

// Day names the statement of a participant's day.
type Day struct {
	Participant string
	Day         string // yyyy-MM-dd, in São Paulo's time
	Until       string // for a part of the day: a time as in RFC 3339; empty: all of it
	Format      string // json, csv or camt053
}

// CopyDay writes a statement as the API sends it, which may be long. It retries until the response
// begins. With nil the statement is whole; with an error, to may hold a part of it.
func (c *Client) CopyDay(ctx context.Context, day Day, to io.Writer) error {
	query := url.Values{"format": {day.Format}}
	if day.Until != "" {
		query.Set("until", day.Until)
	}
	retries := c.retries()
	for {
		began, err := c.copyOnce(ctx, call{operation: opDay, values: []string{day.Participant, day.Day}, query: query}, to)
		if err == nil || began || !TryAgain(err) || !retries.pause(ctx, err) {
			return err
		}
	}
}

// copyOnce copies the body of a response. Each part of it must come within Timeout.
func (c *Client) copyOnce(ctx context.Context, call call, to io.Writer) (began bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(c.Timeout, func() { cancel(fmt.Errorf("no response within %v", c.Timeout)) })
	defer silence.Stop()
	body, err := c.open(ctx, call)
	if err != nil {
		return false, err
	}
	defer body.Close()
	part := make([]byte, 64<<10)
	for {
		silence.Reset(c.Timeout)
		n, readErr := body.Read(part)
		silence.Stop() // the caller may take time
		if _, err := to.Write(part[:n]); err != nil {
			return true, err
		}
		if readErr == io.EOF {
			return true, nil
		}
		if readErr != nil {
			return true, &Unanswered{fmt.Errorf("the statement broke off: %w", unanswered(ctx, readErr))}
		}
	}
}

// Unfinished reports whether an error says that a day is not over: ask again later.
func Unfinished(err error) bool {
	problem := new(Problem)
	return errors.As(err, &problem) && problem.Type == "urn:liquida:problem:unfinished-day"
}
