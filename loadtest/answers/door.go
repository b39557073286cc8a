package answers

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/keys"
)

const (
	requestTimeout = 10 * time.Second // longer than the producer's timeouts
	answerMax      = 1 << 20          // bytes
	askAgain       = 200 * time.Millisecond
)

// call is a request to the HTTP API.
type call struct {
	holder       string // whose key it carries; if there is none, the central bank's
	method, path string
	header       map[string]string
	body         []byte
}

// do sends a request to the next front door.
func (c *Clients) do(ctx context.Context, client *http.Client, call call) (*http.Response, error) {
	door := c.Doors[int(c.turn.Add(1))%len(c.Doors)]
	request, err := http.NewRequestWithContext(ctx, call.method, door+call.path, bytes.NewReader(call.body))
	if err != nil {
		return nil, err
	}
	for name, value := range call.header {
		request.Header.Set(name, value)
	}
	if key := cmp.Or(c.Keys[call.holder], c.Keys[keys.CentralBank]); key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := client.Do(request)
	if ctx.Err() == nil {
		if err != nil {
			c.refuseInCalm("%s %s: %v", call.method, call.path, err)
		} else if unavailable(response.StatusCode, nil) {
			said, _ := io.ReadAll(io.LimitReader(response.Body, answerMax))
			response.Body = io.NopCloser(bytes.NewReader(said)) // for the caller
			c.refuseInCalm("%s %s: %d: %.300s", call.method, call.path, response.StatusCode, said)
		}
	}
	return response, err
}

// ask sends a request and reads its whole response.
func (c *Clients) ask(ctx context.Context, call call) (status int, text []byte, err error) {
	response, err := c.do(ctx, &c.http, call)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	if text, err = io.ReadAll(io.LimitReader(response.Body, answerMax)); err != nil && ctx.Err() == nil {
		c.refuseInCalm("%s %s: its body breaks off: %v", call.method, call.path, err)
	}
	return response.StatusCode, text, err
}

// unavailable reports whether there was no answer, for which faults are an explanation.
func unavailable(status int, err error) bool {
	return err != nil || status/100 == 5 || status == http.StatusTooManyRequests
}

// refuse notes an answer that no fault explains.
func (c *Clients) refuse(format string, arguments ...any) {
	c.refused.Add(1)
	detail := fmt.Sprintf(format, arguments...)
	c.detail.CompareAndSwap(nil, &detail)
}

// refuseInCalm notes an answer that a fault explains, if there is none any more.
func (c *Clients) refuseInCalm(format string, arguments ...any) {
	if c.calm.Load() {
		c.refuse("without any fault: "+format, arguments...)
	}
}

// again waits before the next try. It reports whether there is one.
func again(ctx context.Context) bool {
	return host.Sleep(ctx, askAgain)
}

// events passes the events of a stream to take until it returns false or the stream ends. The error
// says that it broke off, or that what comes is too long. Without data, an event only moves the id.
func events(from io.Reader, take func(id, data string) bool) error {
	id, data := "", ""
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		if text, found := strings.CutPrefix(lines.Text(), "id: "); found {
			id = text
		} else if text, found := strings.CutPrefix(lines.Text(), "data: "); found {
			data = text
		} else if lines.Text() == "" { // an empty line ends an event
			if (id != "" || data != "") && !take(id, data) {
				return nil
			}
			id, data = "", ""
		}
	}
	return lines.Err()
}
