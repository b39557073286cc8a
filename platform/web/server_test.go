package web

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
)

const patience = time.Minute // for a condition; no test waits that long unless it fails

// startServer serves a handler that reads one JSON object, on loopback.
func startServer(t *testing.T, change func(*Config)) string {
	t.Helper()
	config := Config{Address: "127.0.0.1:0", ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: patience,
		BodyBytesMax: 1024, ConnectionsMax: 100}
	change(&config)

	s, err := Serve(config, host.System().Listen, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Text string `json:"text"`
		}
		if problem := ReadJSON(r.Body, &body); problem != nil {
			problem.Write(w)
			return
		}
		WriteJSON(w, http.StatusOK, len(body.Text))
	}), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)

	return s.Address()
}

func object(bytes int) string {
	const frame = `{"text": ""}`
	return `{"text": "` + strings.Repeat("x", bytes-len(frame)) + `"}`
}

// A body above the limit gets a problem that names the limit, however it is sent.
func TestABodyPastTheLimitIsRefused(t *testing.T) {
	address := startServer(t, func(c *Config) { c.LargerBodies = map[string]int64{"/large": 4096} })
	for _, c := range []struct {
		path          string
		bytes, status int
		says          string
	}{
		{"/", 1024, 200, "1012"},
		{"/", 1025, 413, "1024 bytes"},
		{"/", 64 << 10, 413, "1024 bytes"},
		{"/large", 4096, 200, "4084"},
		{"/large", 4097, 413, "4096 bytes"},
		{"/large/", 4096, 413, "1024 bytes"},
	} {
		for _, chunked := range []bool{false, true} {
			var body io.Reader = strings.NewReader(object(c.bytes))
			if chunked {
				body = io.MultiReader(body) // its length is not known
			}
			client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}

			response, err := client.Post("http://"+address+c.path, "application/json", body)
			if err != nil {
				t.Fatalf("%s with %d bytes: %v", c.path, c.bytes, err)
			}
			text, err := io.ReadAll(response.Body)
			response.Body.Close()

			if err != nil || response.StatusCode != c.status || !bytes.Contains(text, []byte(c.says)) {
				t.Errorf("%s with %d bytes, chunked %v: %s %s %v, want %d", c.path, c.bytes, chunked, response.Status,
					text, err, c.status)
			}

			var problem Problem
			if c.status != 200 && (json.Unmarshal(text, &problem) != nil || problem.Status != c.status ||
				problem.Type != Kind("too-large") ||
				response.Header.Get("Content-Type") != "application/problem+json") {
				t.Errorf("%s with %d bytes: %s is not a problem document", c.path, c.bytes, text)
			}
		}
	}
}

// raw opens a connection and writes to it.
func raw(t *testing.T, address, text string) net.Conn {
	t.Helper()

	connection, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })

	if _, err := io.WriteString(connection, text); err != nil {
		t.Fatal(err)
	}

	return connection
}

// answered reads one response.
func answered(connection net.Conn, within time.Duration) (status int, err error) {
	_ = connection.SetReadDeadline(time.Now().Add(within))

	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)

	return response.StatusCode, err
}

const good = "POST / HTTP/1.1\r\nHost: liquida\r\nContent-Length: 2\r\n\r\n{}"

func TestAHeaderPastTheLimitIsRefused(t *testing.T) {
	address := startServer(t, func(*Config) {})

	header := fmt.Sprintf("POST / HTTP/1.1\r\nHost: liquida\r\nX-Long: %s\r\nContent-Length: 2\r\n\r\n{}",
		strings.Repeat("x", 2*headerBytesMax))
	if status, err := answered(raw(t, address, header), patience); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%d %v", status, err)
	}
}

// A client that does not complete its request loses the connection.
func TestARequestThatDoesNotComeEndsTheConnection(t *testing.T) {
	address := startServer(t, func(c *Config) { c.ReadTimeout = 200 * time.Millisecond })
	for name, begun := range map[string]string{
		"nothing":         "",
		"half a header":   "POST / HTTP/1.1\r\nHost: liq",
		"half of a body":  "POST / HTTP/1.1\r\nHost: liquida\r\nContent-Length: 100\r\n\r\n{",
		"a chunk at most": "POST / HTTP/1.1\r\nHost: liquida\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
	} {
		connection := raw(t, address, begun)
		_ = connection.SetReadDeadline(time.Now().Add(patience))

		text, err := io.ReadAll(connection) // to the end of the connection
		if err != nil || bytes.Contains(text, []byte("200 OK")) {
			t.Errorf("%s: %q %v", name, text, err)
		}
	}
}

// A connection above the limit waits until another one ends, and is then served.
func TestConnectionsPastTheLimitWait(t *testing.T) {
	address := startServer(t, func(c *Config) { c.ConnectionsMax = 2 })
	var open []net.Conn

	for range 2 {
		connection := raw(t, address, good)
		if status, err := answered(connection, patience); status != http.StatusOK {
			t.Fatal(status, err)
		}
		open = append(open, connection) // kept alive
	}

	third := raw(t, address, good)
	if status, err := answered(third, 300*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a third connection is answered %d %v", status, err)
	}
	open[0].Close()

	if status, err := answered(third, patience); status != http.StatusOK {
		t.Errorf("after one of them has ended: %d %v", status, err)
	}
}

func TestLoopback(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:80": true, "127.9.9.9:80": true, "localhost:80": true,
		"[::1]:80":   true,
		"0.0.0.0:80": false, ":80": false, "[::]:80": false, "10.0.0.1:80": false, "bank.example:80": false,
		"127.0.0.1": false} {
		if got := (Config{Address: address}).Loopback(); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}
