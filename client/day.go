package client

import (
	"context"
	"fmt"
	"io"
	"net/http/httptrace"
	"net/url"
	"regexp"
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
// begins. With nil the statement is whole: it ends as its format does, for behind a proxy a broken
// response may look whole. With an error, to may hold a part of it.
func (c *Client) CopyDay(ctx context.Context, day Day, to io.Writer) error {
	query := url.Values{"format": {day.Format}}
	if day.Until != "" {
		query.Set("until", day.Until)
	}

	retries := c.retries()
	for {
		began, err := c.copyOnce(ctx,
			call{operation: opDay, values: []string{day.Participant, day.Day}, query: query}, to)
		if err == nil || began || !TryAgain(err) || !retries.pause(ctx, err) {
			return err
		}
	}
}

// dayEnds are the ends of whole statements by format.
var dayEnds = map[string]*regexp.Regexp{
	"csv": regexp.MustCompile(`(^|\n)closing,[^\n]*\n$`), "json": regexp.MustCompile(`\]\}\n$`),
	"camt053": regexp.MustCompile(`</Document>\n$`),
}

// dayEndBytesMax is more than a closing row has.
const dayEndBytesMax = 256

// copyOnce copies the body of a response. The request must be sent within Timeout. Then each part
// must come within silence, because the ledger may be slow.
func (c *Client) copyOnce(ctx context.Context, call call, to io.Writer) (began bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(c.Timeout, func() {
		cancel(fmt.Errorf("the request was not sent within %v, or there was no response for %v", c.Timeout, c.silence))
	})
	defer silence.Stop()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
		silence.Reset(c.silence)
	}})

	body, err := c.open(ctx, call)
	if err != nil {
		return false, err
	}
	defer body.Close()
	part := make([]byte, 64<<10)
	var end []byte

	for {
		silence.Reset(c.silence)
		n, readErr := body.Read(part)
		silence.Stop() // the caller may take time

		if _, err := to.Write(part[:n]); err != nil {
			return true, err
		}
		end = append(end, part[:n]...)

		end = append(end[:0], end[max(0, len(end)-dayEndBytesMax):]...)
		if readErr == io.EOF && !dayEnds[call.query.Get("format")].Match(end) {
			return true, &Unanswered{fmt.Errorf("the statement broke off, or it is none: it ends with %.100q", end)}
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
func Unfinished(err error) bool { return problemIn(err).Type == "urn:liquida:problem:unfinished-day" }
