package room

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/live"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/stream"
)

// Bounds of what the room keeps.
const (
	historyMax  = 600 // samples, one a second
	storyMax    = 200 // lines
	lettersMax  = 100
	reasonsMax  = 50               // of one pair in one second; the others count as "others"
	lookEvery   = time.Second      // while somebody pays or watches
	restMax     = 4 * time.Second  // between two looks while nobody pays or watches; from 5 s on the page draws a gap
	watchedFor  = 10 * time.Second // after a picture was asked for, or an act
	membersMost = 2 * time.Second  // between two looks at the group of the engines
)

// Config says what the room looks at, and what it may break.
type Config struct {
	Stream stream.Config
	Ledger tigerbeetle.Client
	// Light returns what the live audit says.
	Light func() live.Light
	// Stack are the processes that the room shows and breaks; nil: it only shows the payments, and has no buttons.
	Stack Processes
	// Banks calls the simulator with the key of the central bank; nil: nobody changes how banks behave.
	Banks *load.Callers
	// Load is how the room sends load: connection, population and mix; only with a Stack.
	Load load.Config
	// Population says which banks there are at the start.
	Population sandbox.Population
	// Log is called with what went wrong, seldom.
	Log func(format string, arguments ...any)
}

// Room gathers a picture each second, and does what people ask for.
type Room struct {
	config Config
	kafka  *kgo.Client
	admin  *kadm.Client

	flows   *flows
	machine *machine
	story   *story
	banks   *banks
	sender  *sender
	acting  sync.WaitGroup // acts under way
	ended   chan struct{}  // closed when Run ends
	living  sync.Mutex     // of the one who reads a payment's life

	mu      sync.Mutex
	red     bool      // the light was
	movedAt time.Time // when something ended last, or nothing waited
	askedAt time.Time // for a picture, or an act
	picture Picture   // without History and Story
	history []Sample
}

// Open connects the room. It reads the topics from now on.
func Open(ctx context.Context, config Config) (*Room, error) {
	client, err := config.Stream.Client(kgo.ClientID("room"), stream.Patiently())
	if err != nil {
		return nil, err
	}

	r := &Room{config: config, movedAt: time.Now(), kafka: client, admin: kadm.NewClient(client),
		ended: make(chan struct{})}
	if r.flows, err = readFlows(ctx, client, r.admin); err != nil {
		client.Close()
		return nil, err
	}
	r.machine, r.story = newMachine(config.Stack, r.admin), &story{}
	r.banks, r.sender = newBanks(&config), &sender{config: config.Load, log: config.Log}

	return r, nil
}

// Close ends the connections. Run must have returned.
func (r *Room) Close() { r.kafka.Close() }

// Run looks once a second until ctx ends, and more seldom while nobody pays or watches.
func (r *Room) Run(ctx context.Context) error {
	var reading sync.WaitGroup
	reading.Go(func() { r.flows.run(ctx) })
	reading.Go(func() { stream.FollowAdded(ctx, r.kafka, r.flows.reads) })
	defer reading.Wait()
	defer r.acting.Wait()
	defer close(r.ended)
	defer func() { _ = r.sender.set(0) }() // nobody waits for the last outcomes

	for looking := true; looking; looking = host.Sleep(ctx, host.Next(lookEvery)) {
		if !r.rests(time.Now()) {
			r.look(ctx)
		}
	}

	return nil
}

// rests reports whether no look is due: nobody watches, nobody pays, and the last look is not old. A look asks every
// process, so it costs them more than all else that they do while nobody pays.
func (r *Room) rests(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.picture.State == stateIdle && now.Sub(r.picture.At) < restMax-lookEvery/2 &&
		now.Sub(r.askedAt) > watchedFor && !r.flows.move()
}

// look takes one picture.
func (r *Room) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	processes := r.machine.look(ctx)

	flows, figures := r.flows.take(time.Now())
	figures.Open, figures.Untaken = r.flows.left(ctx, r.admin)
	r.banks.look(ctx, flows)
	now := time.Now().UTC()

	light := r.config.Light()
	if light.Colour == live.Red && !r.red {
		r.red = true
		r.story.tell(kindBroken, "the light is red: the money is wrong")
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, Sample{At: now, Figures: figures})
	r.history = r.history[max(0, len(r.history)-historyMax):]

	r.picture = Picture{
		At: now, ReadOnly: r.readOnly(), Banks: r.banks.all(), Flows: flows, Figures: figures, Light: light,
		Processes: processes, Load: r.sender.now(),
	}
	if figures.Open != nil && *figures.Open == 0 || len(flows) > 0 {
		r.movedAt = now
	}
	r.picture.State = stateOf(figures, len(flows) > 0, now.Sub(r.movedAt))
	r.picture.Headline = headline(&r.picture, now.Sub(r.movedAt))
}

// readOnly says why the room has no buttons; empty: it has them.
func (r *Room) readOnly() string {
	if r.config.Stack == nil {
		return "this room only shows: start it with --dir for buttons"
	}

	return ""
}

// Picture returns the last picture.
func (r *Room) Picture(withHistory bool) Picture {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.askedAt = time.Now()
	p := r.picture

	p.Story = r.story.lines()
	if withHistory {
		p.History = slices.Clone(r.history)
	}

	return p
}

// What the system does.
const (
	stateIdle    = "idle"    // nobody pays
	stateFlowing = "flowing" // payments end
	stateStopped = "stopped" // payments wait, and none ends
)

// stoppedAfter is how long nothing ends while payments wait, before that is an outage.
const stoppedAfter = 2 * time.Second

func stateOf(now Figures, flows bool, still time.Duration) string {
	switch {
	case flows || now.Open != nil && *now.Open > 0 && still < stoppedAfter:
		return stateFlowing
	case still >= stoppedAfter:
		return stateStopped
	}

	return stateIdle
}

// headline is the sentence on top.
func headline(p *Picture, still time.Duration) string {
	if p.Light.Colour == live.Red {
		return fmt.Sprintf("The money is not right; findings: %d", len(p.Light.Findings))
	}

	rate := fmt.Sprintf("%s payments a second among %d banks", pix.Thousands(int64(p.Figures.SettledPerSecond+0.5)),
		len(p.Banks))
	if p.State == stateIdle {
		rate = fmt.Sprintf("No payment now among %d banks", len(p.Banks))
	}

	switch {
	case p.State == stateStopped && p.Figures.Open == nil:
		return fmt.Sprintf("Nothing has moved for %.0f s, and the broker does not say what waits", still.Seconds())
	case p.State == stateStopped:
		return fmt.Sprintf("Nothing has moved for %.0f s: %s", still.Seconds(), waiting(*p.Figures.Open))
	case p.Figures.Untaken != nil && float64(*p.Figures.Untaken) > 2*p.Figures.SettledPerSecond+manyUntaken:
		return fmt.Sprintf("%s; %s for an engine", rate, waiting(*p.Figures.Untaken))
	}

	if p.Light.Colour != live.Green { // it says itself what it knows
		return rate
	}

	return rate + fmt.Sprintf("; %s checked since %s UTC, none lost, none twice", pix.Thousands(p.Light.Checked),
		p.Light.Since.UTC().Format("15:04"))
}

// manyUntaken is how many orders may come between two looks at the broker.
const manyUntaken = 100

func waiting(n int64) string {
	if n == 1 {
		return "1 payment waits"
	}

	return pix.Thousands(n) + " payments wait"
}
