package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
)

// ofBank makes a request as a bank and does not wait for the end of the response.
func (p *program) ofBank(ctx context.Context, key, method, path string, body io.Reader) *http.Response {
	p.t.Helper()
	return p.by(ctx, http.DefaultClient, "http://", "Bearer "+key, method, path, body)
}

// by makes a request with a client and does not wait for the end of the response.
func (p *program) by(ctx context.Context, client *http.Client, scheme, authorization, method, path string,
	body io.Reader) *http.Response {
	p.t.Helper()

	request, err := http.NewRequestWithContext(ctx, method, scheme+p.HTTP+path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Authorization", authorization)

	response, err := p.do(client, request)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { response.Body.Close() })

	return response
}

// A bank that takes all that it may get of a pool keeps no other bank out of it, and is told
// whose share is taken of which pool.
func TestABankLeavesRoomForTheOthers(t *testing.T) {
	t.Parallel()
	// Without a ledger no key is taken, but certificates.
	p, bank := startCertified(t, "BATCHES_MAX=16", "STREAMS_MAX=40", "STATUS_TIMEOUT=100ms")
	p.asIs = true
	p.AwaitNeed("kafka", false)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	one, other := bank("10000001"), bank("10000002")

	for _, pool := range []struct {
		name, method, path string
		most               int
		batch              bool
		status             int
	}{
		{"batches", "POST", batchPath, 4, true, http.StatusOK},
		{"streams", "GET", "/v1/payments/E%s202611211200abcdefghijk/events", 10, false, http.StatusOK},
	} {
		ask := func(client *http.Client, ispb string) (status int, text string) {
			path, body := pool.path, io.Reader(http.NoBody)
			if strings.Contains(path, "%s") {
				path = fmt.Sprintf(path, ispb)
			}

			if pool.batch { // it never ends
				reader, writer := io.Pipe()
				go func() { _, _ = io.WriteString(writer, "{}\n") }() // so that the response begins
				context.AfterFunc(ctx, func() { writer.Close() })
				body = reader
			}

			response := p.by(ctx, client, "https://", "", pool.method, path, body) //nolint:bodyclose // it closes it
			if response.StatusCode != http.StatusOK {
				problem, err := io.ReadAll(response.Body)
				if err != nil {
					t.Fatal(err)
				}
				text = string(problem)
			}

			return response.StatusCode, text
		}
		for n := 0; ; n++ {
			status, text := ask(one, "10000001")
			if status == pool.status && n < pool.most {
				continue
			}

			if status != http.StatusTooManyRequests || n != pool.most ||
				!strings.Contains(text, fmt.Sprintf("10000001 has %d %s", n, pool.name)) {
				t.Errorf("%s: after %d the bank gets %d %s, want 429 after %d", pool.name, n, status, text, pool.most)
			}

			break
		}

		if status, text := ask(other, "10000002"); status != pool.status {
			t.Errorf("%s: another bank gets %d %s", pool.name, status, text)
		}
	}

	if metrics := p.metrics(); !strings.Contains(metrics, `pix_http_pool_taken{pool="batches"} 5`) ||
		!strings.Contains(metrics, `pix_http_pool_refused_total{pool="streams",why="share"} 1`) {
		t.Error("the metrics do not show what is taken and refused")
	}
}

// A stream of settlements writes every report of its bank. A bank that opens many of them does not
// keep the process busy for itself, and closes no other bank's.
func TestABankHasFewStreamsOfItsSettlements(t *testing.T) {
	t.Parallel()
	r := makeRing(t)
	p := startProgram(t, startBroker(t), aLedger(t), "HTTP_KEYS_FILE="+r.digests)
	p.AwaitNeed("kafka", false)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	follow := func(ctx context.Context, holder, ispb string) int {
		return p.ofBank(ctx, r.of(t, holder), "GET", "/v1/settlements?participant="+ispb, http.NoBody).StatusCode //nolint:bodyclose // ofBank closes it
	}

	ask := func(ctx context.Context, ispb string) int { return follow(ctx, ispb, ispb) }
	for n := range 8 { // the central bank's streams take none of the bank's places
		if status := follow(ctx, keys.CentralBank, "10000001"); status != http.StatusOK {
			t.Fatalf("stream %d of the central bank: %d", n+1, status)
		}
	}

	first, end := context.WithCancel(ctx)
	for n := range 8 {
		of := ctx
		if n == 0 {
			of = first
		}

		if status := ask(of, "10000001"); status != http.StatusOK {
			t.Fatalf("stream %d: %d", n+1, status)
		}
	}

	for _, holder := range []string{"10000001", keys.CentralBank} {
		if status := follow(ctx, holder, "10000001"); status != http.StatusTooManyRequests {
			t.Errorf("a ninth stream of %s gets %d", holder, status)
		}
	}

	for _, holder := range []string{"10000002", keys.CentralBank} {
		if status := follow(ctx, holder, "10000002"); status != http.StatusOK {
			t.Errorf("streams of another bank: %s gets %d", holder, status)
		}
	}

	if metrics := p.metrics(); !strings.Contains(metrics, "pix_producer_settlement_streams 18\n") ||
		!strings.Contains(metrics, "pix_producer_settlement_streams_refused_total 2\n") {
		t.Error("the metrics do not count 18 streams and 2 refusals")
	}
	end()

	for until := time.Now().Add(kit.Patience); ask(ctx,
		"10000001") != http.StatusOK; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the place of a stream that has ended is not free")
		}
	}
}

// Connections without a key close the door to no bank.
func TestConnectionsWithoutAKeyDoNotCloseTheDoor(t *testing.T) {
	t.Parallel()
	r := makeRing(t)
	p := startProgram(t, startBroker(t), aLedger(t), "HTTP_KEYS_FILE="+r.digests, "HTTP_CONNECTIONS_MAX=50",
		"STREAMS_MAX=20", "WAITS_MAX=20", "HTTP_STRANGER_IDLE_TIMEOUT=1m")
	p.AwaitNeed("kafka", false)

	for range 60 {
		client := http.Client{Transport: &http.Transport{}} // a connection of its own, which stays open

		response, err := client.Get("http://" + p.HTTP + "/openapi.json")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		t.Cleanup(client.CloseIdleConnections)
	}

	response := p.ofBank(t.Context(), r.of(t, "10000001"), "POST", "/v1/payments", strings.NewReader(valid)) //nolint:bodyclose // ofBank closes it
	if response.StatusCode != http.StatusAccepted {
		t.Errorf("a bank gets %s", response.Status)
	}
}
