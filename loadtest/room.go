package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/live"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/loadtest/room"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/web"
)

// roomEnvironment is what the room looks at, and where it is served.
type roomEnvironment struct {
	Stream       stream.Config
	Ledger       ledger.Config
	Reads        ledger.ReadShare
	Population   sandbox.Population
	Address      string   `env:"ROOM_ADDRESS" envDefault:"127.0.0.1:8090" help:"where the control room is served, host:port"`
	TokenFile    string   `env:"ROOM_TOKEN_FILE" envDefault:".stack/room-token" help:"file with the token of the room's URL; it is made if it is not there"`
	Hosts        []string `env:"ROOM_HOSTS" help:"other names by which browsers reach the room, host:port, comma-separated; with any name that is not listed a request is refused"`
	SimulatorURL string   `env:"SIMULATOR_URL" help:"the bank simulator; empty: the room does not show how banks behave"`
	KeysDir      string   `env:"CLIENT_KEYS_DIR" help:"folder with the API keys, by holder; the central bank's changes how banks behave"`
	LoadUser     string   `env:"LOAD_KAFKA_SASL_USER" help:"Kafka user that sends the room's load, when KAFKA_SASL_USER may only read; empty: the same user"`
	LoadPassword string   `env:"LOAD_KAFKA_SASL_PASSWORD_FILE" help:"file with the password of LOAD_KAFKA_SASL_USER"`
}

// Validate names the variable and the value that is wrong.
func (e *roomEnvironment) Validate() error {
	if (e.LoadUser == "") != (e.LoadPassword == "") {
		return fmt.Errorf("LOAD_KAFKA_SASL_USER is %q and LOAD_KAFKA_SASL_PASSWORD_FILE %q: give both or none",
			e.LoadUser, e.LoadPassword)
	}

	if u, err := url.Parse(e.SimulatorURL); err != nil || e.SimulatorURL != "" &&
		(u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		return fmt.Errorf("SIMULATOR_URL is %q: it must be a URL like http://127.0.0.1:8081", e.SimulatorURL)
	}

	return errors.Join(e.Stream.Validate(), e.Ledger.Validate(), e.Reads.Validate(), e.Population.Validate(),
		web.Config{Address: e.Address}.Validate(), settings.NotEmpty("ROOM_TOKEN_FILE", []string{e.TokenFile}))
}

func roomCommand() *cobra.Command {
	var dir string
	environment := &roomEnvironment{}
	command := &cobra.Command{
		Use:   "room",
		Short: "Serves the control room: a page to watch the money, break things and see them heal",
		Args:  cobra.NoArgs,
		Long: `Serves one page that shows payments as they flow between banks, whether the money is right, and
every process. With --dir it has buttons that kill, freeze and start the processes of that stack,
and a slider for the load. make up and make demo start it; its URL holds a token, without which
nobody looks or acts. Without --dir it only shows.

The light is a live audit with ids and laws of its own. It takes at most its part of
the time of the ledger that is for reads (LEDGER_READ_SHARE).
It is red once money was wrong, amber while it does not know, and green otherwise.`,
		Example: "  loadtest room --dir .stack\n  loadtest room    # shows, and has no buttons",
	}
	command.Long += "\n\nEnvironment:\n" + environmentHelp(environment)
	command.Flags().StringVar(&dir, "dir", "",
		"the `folder` of the stack whose processes it shows and breaks; empty: none")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := settings.Parse(environment); err != nil {
			return err
		}
		started = true

		var processes room.Processes
		if dir != "" {
			processes = stack.Attach(dir)
		}

		return serveRoom(command.Context(), environment, processes)
	}

	return command
}

// serveRoom serves until ctx ends. Without processes the room only shows.
func serveRoom(ctx context.Context, environment *roomEnvironment, processes room.Processes) error {
	log := func(format string, arguments ...any) { fmt.Fprintf(os.Stderr, "room: "+format+"\n", arguments...) }

	token, err := room.TokenOf(environment.TokenFile)
	if err != nil {
		return err
	}

	kafka, err := reach(ctx, environment.Stream)
	if err != nil {
		return err
	}

	client, err := ledger.Connect(environment.Ledger)
	if err != nil {
		return err
	}

	audit := live.New(live.Config{Kafka: kafka, Ledger: client, Share: environment.Reads.Own(),
		Behind: environment.Stream.Behind, Log: log})

	config := room.Config{
		Stream: environment.Stream, Ledger: client, Light: audit.Light, Population: environment.Population,
		Stack: processes, Log: log,
	}
	if processes != nil {
		if config.Load, err = environment.load(); err != nil {
			return err
		}
	}

	if environment.SimulatorURL != "" && environment.KeysDir != "" {
		key, err := keys.Read(environment.KeysDir, keys.CentralBank)
		if err != nil {
			return fmt.Errorf("CLIENT_KEYS_DIR: %w", err)
		}
		config.Banks = load.NewCallers(environment.SimulatorURL, map[string]string{keys.CentralBank: key})
		defer config.Banks.Close()
	}

	r, err := room.Open(ctx, config)
	if err != nil {
		return err
	}
	defer r.Close()
	limits := web.Config{
		Address: environment.Address, ReadTimeout: 5 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute,
		BodyBytesMax: 4 << 10, ConnectionsMax: 64,
		// Whoever has no token gives way to whoever has it.
		Pools: web.NewPools(web.PoolsConfig{ConnectionsShareMax: 1, StrangerIdleTimeout: 3 * time.Second},
			prometheus.NewRegistry()),
	}

	listener, err := net.Listen("tcp", environment.Address)
	if err != nil {
		return fmt.Errorf("cannot serve on ROOM_ADDRESS %s: %w", environment.Address, err)
	}
	hosts := append(room.Hosts(listener.Addr().String()), environment.Hosts...)

	server, err := web.Serve(limits, func(string, string) (net.Listener, error) { return listener, nil },
		r.Handler(token, hosts), zap.NewNop())
	if err != nil {
		return err
	}
	defer server.Close()
	fmt.Printf("control room: %s\n", room.URL(server.Address(), token))
	var both sync.WaitGroup
	both.Go(func() {
		if err := audit.Run(ctx); err != nil && ctx.Err() == nil {
			log("%v", err)
		}
	})
	err = r.Run(ctx)
	both.Wait()

	return err
}

// load is how the room sends: payments of every kind that a bank answers at once, because others would
// hide in the latencies what faults do, and none that end with a reason that a fault has, too.
func (e *roomEnvironment) load() (load.Config, error) {
	weights, err := mix.Parse("no-waits")
	if err != nil {
		return load.Config{}, err
	}
	weights[mix.TooOld] = 0 // they end with LQ13, as those that an outage makes late

	connection := e.Stream
	if e.LoadUser != "" {
		connection.SASLUser, connection.SASLPasswordFile = e.LoadUser, e.LoadPassword
	}

	return load.Config{Stream: connection, Population: e.Population, Mix: weights, MixName: "no-waits",
		Allowed: []pix.Reason{pix.ReasonPayeePSPSilent, pix.ReasonPayeePSPBusy, pix.ReasonTooLate,
			pix.ReasonPastDeadline, pix.ReasonTooManyReturns}}, nil
}
