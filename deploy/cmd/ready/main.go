// The ready command asks a service in the same container whether it is ready. It is the
// health check of the containers, which have neither shell nor curl.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/liquida/liquida/platform/settings"
)

const usage = `ready asks URL, such as http://127.0.0.1:9100/readyz. Exit codes: 0 it answered 200 within
3 seconds, 1 it did not (the reason is printed), 2 bad usage.

usage: ready URL
`

func main() {
	if len(os.Args) != 2 || os.Args[1] == "--help" {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(settings.ExitBadUsage)
	}
	client := &http.Client{Timeout: 3 * time.Second}

	response, err := client.Get(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "ready:", err)
		os.Exit(settings.ExitFailure)
	}
	defer response.Body.Close()

	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		fmt.Fprintf(os.Stderr, "ready: %s: %s\n", response.Status, body)
		os.Exit(settings.ExitFailure)
	}
}
