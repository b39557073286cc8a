package answers

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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
	dayMax         = 4 << 30          // of a statement of a day
	askAgain       = time.Second      // as Retry-After says
)

// call is a request to the HTTP API. Without a method it is a GET.
type call struct {
	holder       string // whose key it carries; if there is none, the central bank's
	method, path string
	header       map[string]string
	body         []byte
}

// do sends a request to the next front door.
func (c *Clients) do(ctx context.Context, client *http.Client, call call) (*http.Response, error) {
	door := c.Doors[int(c.turn.Add(1))%len(c.Doors)]

	request, err := http.NewRequestWithContext(ctx, cmp.Or(call.method, http.MethodGet), door+call.path,
		bytes.NewReader(call.body))
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
			c.refuseInCalm("%s %s: %v", request.Method, call.path, err)
		} else if unavailable(response.StatusCode, nil) {
			said, _ := io.ReadAll(io.LimitReader(response.Body, answerMax))
			response.Body = io.NopCloser(bytes.NewReader(said)) // for the caller
			c.refuseInCalm("%s %s: %d: %.300s", request.Method, call.path, response.StatusCode, said)
		}
	}

	return response, err
}

// ask sends a request and reads its whole response. The span is that of the request.
func (c *Clients) ask(ctx context.Context, call call) (status int, text []byte, span Span, err error) {
	return c.askOn(ctx, &c.http, call, answerMax)
}

func (c *Clients) askOn(ctx context.Context, client *http.Client, call call, most int64) (status int, text []byte,
	span Span, err error) {
	span.From = time.Now()

	response, err := c.do(ctx, client, call)
	if err != nil {
		return 0, nil, span, err
	}
	defer response.Body.Close()

	if text, err = io.ReadAll(io.LimitReader(response.Body, most)); err != nil && ctx.Err() == nil {
		c.refuseInCalm("%s: its body breaks off: %v", call.path, err)
	}
	span.To = time.Now()

	return response.StatusCode, text, span, err
}

// get asks for something that must have a status, and decodes it. told reports whether there was an answer, right
// whether it was that.
func (c *Clients) get(ctx context.Context, holder, path string, want int, into any) (span Span, told, right bool) {
	status, text, span, err := c.ask(ctx, call{holder: holder, path: path})
	if unavailable(status, err) {
		return span, false, false
	}

	if err := json.Unmarshal(text, into); status != want || err != nil {
		c.refuse("%s as %s: %d, not %d: %.300s (%v)", path, holder, status, want, text, err)
		return span, true, false
	}

	return span, true, true
}

// followEvents passes the events of a stream to take until that returns false or the stream ends. The error
// says that the stream did not open, broke off, or that what comes is too long.
func (c *Clients) followEvents(ctx context.Context, call call, take func(id, data string) bool) error {
	response, err := c.do(ctx, &c.streams, call)
	if err != nil {
		return err
	}
	defer response.Body.Close()

	if response.StatusCode != http.StatusOK {
		if !unavailable(response.StatusCode, nil) {
			c.refuse("%s: %d", call.path, response.StatusCode)
		}

		return fmt.Errorf("its status is %s", response.Status)
	}

	err = events(response.Body, take)
	if err != nil && ctx.Err() == nil { // a producer that ends a stream itself does so in order
		c.refuseInCalm("%s: the stream breaks off: %v", call.path, err)
	}

	return err
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
