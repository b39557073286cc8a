package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/ports"
)

// Events come through nginx as they happen: with its defaults, with gzip, and with the settings of
// docs/api.md. make test-proxy runs this with Debian's nginx.
func TestEventsComeThroughNginx(t *testing.T) {
	t.Parallel()

	program := os.Getenv("PROXY_NGINX")
	if program == "" {
		t.Skip("PROXY_NGINX does not name the program: make test-proxy does")
	}
	l, client := sharedLedger(t)
	openBooks(t, client, content)
	// its streams are silent for 15 s: nginx would fill no buffer before the test gives up
	p := startProgram(t, startBroker(t), l)
	p.AwaitNeed("kafka", false)
	p.AwaitNeed("ledger", false)
	p.awaitSettlements()

	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}

	documented := regexp.MustCompile("(?s)```nginx\n(.*?)```").FindStringSubmatch(string(text))
	if documented == nil || !strings.Contains(documented[1], "http://127.0.0.1:8080;") {
		t.Fatal("docs/api.md has no settings of nginx for 127.0.0.1:8080")
	}
	defaults := "location / { proxy_pass http://" + p.HTTP + "; }\n"

	gzip := "gzip on; gzip_proxied any; gzip_min_length 1; gzip_types text/event-stream application/x-ndjson;\n"
	for name, settings := range map[string]string{
		"defaults": defaults, "gzip": gzip + defaults,
		"documented":       strings.ReplaceAll(documented[1], "127.0.0.1:8080", p.HTTP),
		"documented, gzip": gzip + strings.ReplaceAll(documented[1], "127.0.0.1:8080", p.HTTP),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			through := "http://" + startNginx(t, program, settings)
			ask := func(method, path string, body io.Reader) *http.Response {
				ctx, stop := context.WithCancel(t.Context())
				t.Cleanup(stop)
				late := time.AfterFunc(kit.Patience, stop) // until its first part was read

				request, err := http.NewRequestWithContext(ctx, method, through+path, body)
				if err != nil {
					t.Fatal(err)
				}

				response, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				t.Cleanup(func() { response.Body.Close() })

				if _, err := bufio.NewReader(response.Body).Peek(1); err != nil {
					t.Fatalf("%s: %s: nothing came: %v", path, response.Status, err)
				}
				late.Stop()

				return response
			}

			unknown := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
			for _, path := range []string{"/v1/settlements?participant=10000001",
				"/v1/payments/" + unknown.String() + "/events"} {
				response := ask("GET", path, http.NoBody) //nolint:bodyclose // it closes it
				if response.StatusCode != 200 || response.Uncompressed != strings.Contains(name, "gzip") {
					t.Errorf("%s: %s, unpacked: %v", path, response.Status, response.Uncompressed)
				}
			}

			day := ask("GET", fmt.Sprintf("/v1/participants/10000001/statements/%v", pix.DayOf(time.Now())), http.NoBody) //nolint:bodyclose // it closes it
			if works := day.StatusCode == http.StatusConflict; works != strings.HasPrefix(name, "documented") {
				t.Errorf("a statement of a day: %s", day.Status)
			}
		})
	}
}

// startNginx starts an nginx that writes nothing outside of the test's folder, and returns where it listens.
func startNginx(t *testing.T, program, settings string) (address string) {
	t.Helper()
	folder := t.TempDir()
	address = ports.Free()

	var temporary strings.Builder
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temporary, "%s_temp_path %s/%s;\n", kind, folder, kind)
	}
	file := filepath.Join(folder, "nginx.conf")

	text := fmt.Sprintf("daemon off; worker_processes 1; pid %s/pid; events {}\nhttp { access_log off;\n%s server { listen %s;\n%s}}\n",
		folder, temporary.String(), address, settings)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, "-e", "stderr", "-p", folder, "-c", file)

	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		_ = command.Wait()
	})
	kit.Await(t, "nginx", func() (bool, string) {
		response, err := http.Get("http://" + address + "/openapi.json")
		if err != nil {
			return false, err.Error()
		}
		defer response.Body.Close()

		return response.StatusCode == http.StatusOK, response.Status
	})

	return address
}
