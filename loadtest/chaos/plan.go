package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/liquida/liquida/platform/settings"
)

// PlannedFault is a fault and the time of its beginning.
type PlannedFault struct {
	At   time.Duration // since the first payment
	Kind string
	// Roll decides everything random inside the fault: its target, its duration, its step. The
	// same plan does the same again.
	Roll uint64
}

const (
	// spacing is the mean time between two faults. Faults last longer, so they overlap.
	spacing     = 5 * time.Second
	plannedMax  = 10_000
	quietBefore = 5 * time.Second // to see the load run well first
	quietAfter  = 5 * time.Second // to see it run well again
)

// Plan deals faults over the time of the load like cards: every kind comes once before any
// comes again. It is a function of its arguments.
func Plan(seed uint64, duration time.Duration, kinds []string) []PlannedFault {
	random := rand.New(rand.NewPCG(seed, 1))
	var plan []PlannedFault

	var deck []string
	for at := quietBefore; at < duration-quietAfter && len(plan) < plannedMax; {
		if len(deck) == 0 {
			deck = slices.Clone(kinds)
			random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		plan = append(plan, PlannedFault{at, deck[0], random.Uint64()})
		deck = deck[1:]
		at += spacing/2 + time.Duration(random.Int64N(int64(spacing)))
	}

	return plan
}

// ParseScript reads faults at given times, like "12s kill-engine", separated by
// commas. The seed decides everything random inside them.
func ParseScript(text string, seed uint64) ([]PlannedFault, error) {
	random := rand.New(rand.NewPCG(seed, 1))
	var plan []PlannedFault

	for line := range strings.SplitSeq(text, ",") {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			return nil, fmt.Errorf("script: %q must be a time and a fault, like \"12s kill-engine\"", line)
		}

		at, err := time.ParseDuration(fields[0])
		if err != nil || at < 0 {
			return nil, fmt.Errorf("script: %q begins with %q: it must be a time like 12s", line, fields[0])
		}

		if _, err := parseKind(fields[1]); err != nil {
			return nil, fmt.Errorf("script: %w", err)
		}
		plan = append(plan, PlannedFault{at, fields[1], random.Uint64()})
	}

	if len(plan) == 0 || len(plan) > plannedMax {
		return nil, fmt.Errorf("script: it has %d faults, it must have 1 to %d", len(plan), plannedMax)
	}
	slices.SortStableFunc(plan, func(a, b PlannedFault) int { return cmp.Compare(a.At, b.At) })

	return plan, nil
}

// HourScript is the script that HourPlan stands for.
const HourScript = "hour"

// hour is what HourPlan injects: an engine is killed by turns to restart and to be taken over. Between two of these a
// bank floods with reads, another with orders, operators act, a replica of the ledger is lost, services are killed. The
// broker is killed early: the embedded one reads all it keeps before it serves. Half a million payments took 12 s.
var hour = []string{
	"kill-engine", "kill-broker", "kill-engine-takeover", "acts",
	"kill-engine", "read-flood", "kill-engine-takeover", "flood",
	"kill-engine", loseReplica, "kill-engine-takeover", "acts",
	"kill-engine", "read-flood", "kill-engine-takeover", "kill-producer",
	"kill-engine", "kill-bank", "kill-engine-takeover", "kill-archiver",
	"kill-engine",
}

// HourPlan injects a fault in every twenty-fourth of the time but the first two and the last.
func HourPlan(seed uint64, duration time.Duration) (plan []PlannedFault) {
	random := rand.New(rand.NewPCG(seed, 1))
	for i, kind := range hour {
		plan = append(plan, PlannedFault{duration * time.Duration(i+2) / 24, kind, random.Uint64()})
	}

	return plan
}

// ParseKinds reads names of faults separated by commas, or "all" that the config can have and a ledger of one server
// recovers from.
func (c *Config) ParseKinds(text string) (names []string, err error) {
	if text != "all" {
		names = strings.Split(text, ",")
		for _, name := range names {
			if _, err := parseKind(name); err != nil {
				return nil, err
			}
		}

		return names, nil
	}

	for _, k := range kinds {
		if k.needs == nothing || k.needs == plainKafka && !c.Bare() {
			names = append(names, k.name)
		}
	}

	return names, nil
}

// CheckPlan returns an error that names a fault that the config cannot have.
func (c *Config) CheckPlan() error {
	for _, planned := range c.Plan {
		if c.Bare() && kindNamed(planned.Kind).needs == plainKafka {
			return fmt.Errorf("fault %q needs one broker without --kafka-locks", planned.Kind)
		}
	}

	return nil
}

func parseKind(name string) (kind, error) {
	var all []string

	for _, k := range kinds {
		if k.name == name {
			return k, nil
		}
		all = append(all, k.name)
	}

	return kind{}, fmt.Errorf("unknown fault %q: the faults are %s", name, strings.Join(all, ", "))
}

// kindNamed returns a kind of a plan, which parseKind has checked.
func kindNamed(name string) kind {
	k, err := parseKind(name)
	if err != nil {
		panic(err) // never
	}

	return k
}

// Kinds describes every fault, for --help. A star marks those that a secured Kafka cannot have.
func Kinds() string {
	var text strings.Builder

	for _, k := range kinds {
		star := ""
		if k.needs == plainKafka {
			star = " *"
		}
		text.WriteString(settings.Beside(fmt.Sprintf("  %-22s ", k.name), k.meaning+star))
	}

	return text.String()
}
