package web

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
)

// startDoorway serves requests whose caller is their header Caller: 200 for a known one, 401
// without one.
func startDoorway(t *testing.T, connections int, strangerIdle time.Duration, change ...func(*Config)) string {
	t.Helper()
	pools := NewPools(PoolsConfig{ConnectionsShareMax: 0.25, StrangerIdleTimeout: strangerIdle},
		prometheus.NewRegistry())

	config := Config{Address: "127.0.0.1:0", ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: patience,
		BodyBytesMax: 1024, ConnectionsMax: connections, Pools: pools}
	for _, change := range change {
		change(&config)
	}

	s, err := Serve(config, host.System().Listen, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := r.Header.Get("Caller")
		if caller == "" {
			(&Problem{Status: http.StatusUnauthorized}).Write(w)
		} else if problem := Known(w, r, caller); problem != nil {
			problem.Write(w)
		}
	}), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)

	return s.Address()
}

const asNobody = "GET / HTTP/1.1\r\nHost: liquida\r\n\r\n"

func as(caller string) string {
	return strings.Replace(asNobody, "\r\n\r\n", "\r\nCaller: "+caller+"\r\n\r\n", 1)
}

// from opens a connection from an address of this machine.
func from(t *testing.T, address, server, text string) net.Conn {
	t.Helper()
	dialer := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}

	connection, err := dialer.DialContext(t.Context(), "tcp", server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })

	if _, err := io.WriteString(connection, text); err != nil {
		t.Fatal(err)
	}

	return connection
}

// Connections without a key, silent or not, from one address or from many, close the door to
// nobody: not even to a caller at the same address.
func TestStrangersDoNotCloseTheDoor(t *testing.T) {
	for name, text := range map[string]string{"silent": "", "half a request": "GET / HT", "refused": asNobody} {
		for _, addresses := range []int{1, 100} {
			server := startDoorway(t, 20, patience)
			for i := range 100 {
				from(t, fmt.Sprintf("127.0.0.%d", 1+i%addresses), server, text)
			}

			for _, address := range []string{"127.0.0.1", "127.0.1.1"} {
				if status, err := answered(from(t, address, server, as("10000001")),
					patience); status != http.StatusOK {
					t.Errorf("%s, from %d addresses: a bank at %s gets %d %v", name, addresses, address, status, err)
				}
			}
		}
	}
}

// A bank keeps its connections while strangers come, and cannot take those of the others.
func TestABankHasAShareOfTheConnections(t *testing.T) {
	server := startDoorway(t, 20, patience)
	var open []net.Conn

	for range 5 {
		connection := from(t, "127.0.0.1", server, as("10000001"))
		if status, err := answered(connection, patience); status != http.StatusOK {
			t.Fatal(status, err)
		}
		open = append(open, connection)
	}
	sixth := from(t, "127.0.0.1", server, as("10000001"))

	text, err := io.ReadAll(sixth) // to its end: it is closed
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 429 ") ||
		!strings.Contains(string(text), "10000001 has 5 connections") {
		t.Errorf("past its share: %s %v", text, err)
	}

	if status, err := answered(from(t, "127.0.0.1", server, as("10000002")), patience); status != http.StatusOK {
		t.Errorf("another bank: %d %v", status, err)
	}

	for range 50 {
		from(t, "127.0.0.1", server, "")
	}

	for i, connection := range open {
		if _, err := io.WriteString(connection, as("10000001")); err != nil {
			t.Fatal(err)
		}

		if status, err := answered(connection, patience); status != http.StatusOK {
			t.Errorf("connection %d of the bank after strangers came: %d %v", i, status, err)
		}
	}
	open[0].Close() // the other bank has one, so it may have one less
	open[1].Close()

	for { // once the server has seen it
		again := from(t, "127.0.0.1", server, as("10000001"))
		if status, err := answered(again, patience); status == http.StatusOK {
			return
		} else if status != http.StatusTooManyRequests {
			t.Fatal(status, err)
		}
	}
}

// Over TLS a connection is found, too.
func TestABankHasAShareOfTheConnectionsOverTLS(t *testing.T) {
	certified := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	defer certified.Close()
	server := startDoorway(t, 20, patience, func(c *Config) {
		c.TLS = &tls.Config{Certificates: certified.TLS.Certificates}
	})

	for n, want := range []int{200, 200, 200, 200, 200, 429} {
		trusted := certified.Client().Transport.(*http.Transport).Clone() // a connection of its own
		defer trusted.CloseIdleConnections()

		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+server, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Caller", "10000001")

		response, err := trusted.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()

		if response.StatusCode != want {
			t.Errorf("connection %d: %s, want %d", n+1, response.Status, want)
		}
	}
}

// Where nobody needs a key, the callers are addresses.
func TestAnAddressIsToldItsShare(t *testing.T) {
	server := startDoorway(t, 8, patience)
	for range 2 {
		if status, err := answered(from(t, "127.0.0.1", server, as("127.0.0.1")), patience); status != http.StatusOK {
			t.Fatal(status, err)
		}
	}
	third := from(t, "127.0.0.1", server, as("127.0.0.1"))
	text, err := io.ReadAll(third)
	_, body, _ := strings.Cut(string(text), "\r\n\r\n")

	var problem Problem
	if err != nil || json.Unmarshal([]byte(body), &problem) != nil || problem.Status != http.StatusTooManyRequests ||
		!strings.Contains(problem.Detail, "127.0.0.1 has 2 connections") {
		t.Errorf("%q %v", text, err)
	}
}

// When every permit is that of a known caller, a connection waits for one.
func TestAConnectionWaitsWhereAllAreKnown(t *testing.T) {
	server := startDoorway(t, 2, patience)

	first := from(t, "127.0.0.1", server, as("10000001"))
	for caller, connection := range map[string]net.Conn{"10000001": first,
		"10000002": from(t, "127.0.0.2", server, as("10000002"))} {
		if status, err := answered(connection, patience); status != http.StatusOK {
			t.Fatal(caller, status, err)
		}
	}

	third := from(t, "127.0.0.3", server, as("10000003"))
	if status, err := answered(third, 300*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a third connection is answered %d %v", status, err)
	}
	first.Close()

	if status, err := answered(third, patience); status != http.StatusOK {
		t.Errorf("after one of them has ended: %d %v", status, err)
	}
}

// A stranger loses an unused connection soon, a known caller after HTTP_IDLE_TIMEOUT.
func TestAnUnusedConnectionOfAStrangerEnds(t *testing.T) {
	server := startDoorway(t, 20, 200*time.Millisecond)

	known, stranger, silent := from(t, "127.0.0.1", server, as("10000001")), from(t, "127.0.0.1", server, asNobody),
		from(t, "127.0.0.1", server, "")
	if status, err := answered(known, patience); status != http.StatusOK {
		t.Fatal(status, err)
	}

	for name, connection := range map[string]net.Conn{"refused": stranger, "silent": silent} {
		_ = connection.SetReadDeadline(time.Now().Add(patience / 2)) // less than HTTP_IDLE_TIMEOUT
		if text, err := io.ReadAll(connection); err != nil {
			t.Errorf("%s: the connection of a stranger stays open: %q %v", name, text, err)
		}
	}

	if _, err := io.WriteString(known, as("10000001")); err != nil {
		t.Fatal(err)
	}

	if status, err := answered(known, patience); status != http.StatusOK {
		t.Errorf("the unused connection of a bank: %d %v", status, err)
	}
}

func TestWhatAnAddressCountsAs(t *testing.T) {
	for remote, want := range map[string]string{"10.1.2.3:4": "10.1.2.3", "[::ffff:10.1.2.3]:4": "10.1.2.3",
		"[2001:db8:1:2:3::4]:5":   "2001:db8:1:2::/64",
		"[2001:db8:1:2:ffff::]:5": "2001:db8:1:2::/64", "[fe80::1%eth0]:5": "fe80::/64", "pipe": "pipe"} {
		if got := AddressOf(remote); got != want {
			t.Errorf("%s counts as %s, want %s", remote, got, want)
		}
	}
}
