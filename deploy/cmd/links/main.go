// The links command carries the connections of the local stack's engines and producer to broker and
// ledger, so that the control room can cut them.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/liquida/liquida/deploy/link"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/settings"
)

type configuration struct {
	Address   string `env:"LINKS_ADDRESS" envDefault:"127.0.0.1:8092" help:"IP and port on which links are opened and cut"`
	TokenFile string `env:"LINKS_TOKEN_FILE" envDefault:"links-token" help:"file with the token of those who may"`
}

func main() {
	config := &configuration{}
	settings.Load("links", "connections of the local stack that can be cut", config)
	if err := serve(config); err != nil {
		fmt.Fprintf(os.Stderr, "links: %v\n", err)
		os.Exit(settings.ExitFailure)
	}
}

func serve(config *configuration) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	token, err := keys.ReadPassword(config.TokenFile)
	if err != nil {
		return fmt.Errorf("LINKS_TOKEN_FILE: %w", err)
	}
	board := &link.Board{Token: token}
	defer board.Close()
	server := &http.Server{Addr: config.Address, Handler: board.Handler(), ReadTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}
	context.AfterFunc(ctx, func() { server.Close() })
	fmt.Fprintf(os.Stderr, "links: serving %s\n", config.Address)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
