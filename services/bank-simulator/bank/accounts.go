package bank

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/telemetry"
)

// AccountsConfig says whom the banks ask for the states of their accounts.
type AccountsConfig struct {
	URL     string `env:"SIMULATOR_API_URL" help:"front door, which each bank asks for the states of its accounts, such as http://127.0.0.1:8080; empty: all accounts are open"`
	KeysDir string `env:"SIMULATOR_API_KEYS_DIR" help:"folder with each bank's key in a file named by its ISPB, as bootstrap writes it; read once a second"`
}

// Validate names the variable that is wrong.
func (c AccountsConfig) Validate() error {
	if (c.URL == "") != (c.KeysDir == "") {
		return fmt.Errorf("SIMULATOR_API_URL is %q and SIMULATOR_API_KEYS_DIR %q: give both or none", c.URL, c.KeysDir)
	}

	if _, err := client.New(cmp.Or(c.URL, client.DefaultURL), ""); err != nil {
		return fmt.Errorf("SIMULATOR_API_URL: %w", err)
	}

	return nil
}

const (
	// askInterval is while payments come, restInterval while nobody pays one of the banks.
	askInterval  = time.Second
	restInterval = 5 * time.Second
	// firstInterval is that until all was read once: so long the first payments after the front door's start wait.
	firstInterval = 50 * time.Millisecond
	askTimeout    = 2 * time.Second
)

// accounts are those accounts of the banks that are not open. The banks follow their acts at the
// front door: the simulator has no access to the ledger. While the front door is away the banks
// go by what they have read.
type accounts struct {
	config  AccountsConfig
	t       *telemetry.Telemetry
	banks   map[string]*bankAccounts // by the name of the key's file
	states  sync.Map                 // client.Account → the code of the reason why nothing is taken in
	read    chan struct{}            // closed once all that was there has been read
	needed  chan struct{}            // holds a token if a payment came since the acts were asked for
	hasRead bool                     // read is closed
	failing bool
}

// bankAccounts is where a bank is in the history of its acts.
type bankAccounts struct {
	key, cursor string
	refused     bool // the key
	read        bool // all that was there, once
	api         *client.Client
}

func newAccounts(config AccountsConfig, t *telemetry.Telemetry) *accounts {
	a := &accounts{config: config, t: t, banks: map[string]*bankAccounts{}, read: make(chan struct{}),
		needed: make(chan struct{}, 1)}
	if config.URL == "" {
		a.ready()
	}

	return a
}

func (a *accounts) ready() {
	a.hasRead = true
	close(a.read)
	a.t.Health.Report(accountsNeed, nil)
}

// refusal returns why a bank takes nothing in for an account, or "".
func (a *accounts) refusal(ispb, branch, number string) string {
	select {
	case a.needed <- struct{}{}:
	default:
	}
	code, _ := a.states.Load(client.Account{ISPB: ispb, Branch: branch, Number: number})
	text, _ := code.(string)

	return text
}

// follow reads the acts of all banks until ctx ends.
func (a *accounts) follow(ctx context.Context) {
	if a.config.URL == "" {
		return
	}

	interval := firstInterval

	for ctx.Err() == nil {
		err := a.readAll(ctx)
		if a.hasRead {
			interval = askInterval
		} else {
			a.t.Health.Report(accountsNeed, err)
		}

		if failing := err != nil; failing != a.failing && ctx.Err() == nil {
			a.failing = failing
			a.t.Log.Info("asked for the states of accounts", zap.Error(err))
		}

		if !host.Sleep(ctx, interval) || err != nil {
			continue
		}

		select {
		case <-ctx.Done():
		case <-a.needed:
		case <-time.After(host.Next(restInterval)):
		}
	}
}

// readAll asks for all banks. They are ready once each was read, not all in one go: a front door that is busy answers
// some of the time.
func (a *accounts) readAll(ctx context.Context) error {
	files, err := os.ReadDir(a.config.KeysDir)
	if err != nil {
		return fmt.Errorf("SIMULATOR_API_KEYS_DIR: %w", err)
	}
	var failed error
	all := true

	for _, file := range files {
		if _, err := pix.ParseISPB(file.Name()); err != nil {
			continue
		}

		if a.banks[file.Name()] == nil {
			a.banks[file.Name()] = &bankAccounts{}
		}
		b := a.banks[file.Name()]

		if err := a.readBank(ctx, b, file.Name()); err != nil {
			failed = cmp.Or(failed, err)
		} else {
			b.read = true
		}
		all = all && b.read
	}

	if all && !a.hasRead {
		a.ready()
	}

	return failed
}

// readBank takes in what a bank has done since the last time.
func (a *accounts) readBank(ctx context.Context, b *bankAccounts, ispb string) error {
	key, err := client.ReadKey(filepath.Join(a.config.KeysDir, ispb))
	if err != nil {
		return err
	}

	if key != b.key {
		if b.api, err = client.New(a.config.URL, key); err != nil {
			return err
		}
		b.key, b.refused, b.api.Timeout, b.api.RetryFor = key, false, askTimeout, 0
	}

	for page, err := range b.api.Acts(ctx, ispb, b.cursor) {
		if client.NotFound(err) { // it has not joined yet
			return nil
		}
		// A key that was revoked keeps no other bank from answering.
		if problem := new(client.Problem); errors.As(err, &problem) && problem.Status == http.StatusUnauthorized {
			if !b.refused {
				b.refused = true
				a.t.Log.Warn("a bank's key is not in use: the states of its accounts stay as they were read",
					zap.String("ispb", ispb), zap.Error(err))
			}

			return nil
		}

		if err != nil {
			return fmt.Errorf("%s asks for its acts: %w", ispb, err)
		}

		for _, act := range page.Acts {
			if act.Account != nil {
				a.apply(*act.Account, act.Act)
			}
		}
		b.cursor = page.NextCursor
	}

	return nil
}

// apply takes in an act. Of acts on one account the last one counts.
func (a *accounts) apply(account client.Account, act string) {
	switch act {
	case client.Block:
		a.states.Store(account, pix.ReasonPayeeBlocked.String())
	case client.Close:
		a.states.Store(account, pix.ReasonPayeeClosed.String())
	case client.Reopen:
		a.states.Delete(account)
	}
}
