package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"
)

// controlRoom is the control room of the demo's stack, asked as its page asks it.
type controlRoom struct{ address, token string }

const (
	answerMax  = 64 << 20
	askTimeout = 30 * time.Second
	reportMode = 0o644 // a report can be sent to anybody
)

// roomAt returns the room with a URL like http://127.0.0.1:8090/#token=….
func roomAt(text string) (*controlRoom, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	inside, err := url.ParseQuery(u.Fragment)
	return &controlRoom{"http://" + u.Host, inside.Get("token")}, err
}

// kill kills a process. The room starts it again after a while.
func (c *controlRoom) kill(ctx context.Context, name string) error {
	act, err := json.Marshal(map[string]string{"act": "kill", "target": name})
	if err != nil {
		return err
	}
	_, err = c.ask(ctx, http.MethodPost, "/api/acts", act, http.StatusAccepted)
	return err
}

// saveReport writes the page with all that it shows now, as one file that opens without the room.
func (c *controlRoom) saveReport(ctx context.Context, file string) error {
	html, err := c.ask(ctx, http.MethodGet, "/api/report", nil, http.StatusOK)
	if err != nil {
		return err
	}
	return os.WriteFile(file, html, reportMode)
}

func (c *controlRoom) ask(ctx context.Context, method, path string, body []byte, status int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.address+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, answerMax+1))
	switch {
	case err != nil:
	case response.StatusCode != status:
		err = fmt.Errorf("%s %s: the control room responds %d: %.500s", method, path, response.StatusCode, bytes.TrimSpace(answer))
	case len(answer) > answerMax:
		err = fmt.Errorf("%s %s: the control room responds more than %d bytes", method, path, answerMax)
	}
	return answer, err
}
