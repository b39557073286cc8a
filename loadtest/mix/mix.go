package mix

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Mix is the weight of each case in a load.
type Mix [caseCount]int

// From everyCaseFrom payments on, every case of the mix comes at least casePaymentsMin
// times, whatever its weight: a case that rounding left out would prove nothing.
const (
	everyCaseFrom   = 1000
	casePaymentsMin = 5
)

// Names are the named mixes, with what is in them.
var Names = map[string]string{
	"demo":      "every case, mostly accepted",
	"no-waits":  "demo without the cases that last until the deadline (silent, late)",
	"plain":     "accepted payments between banks only",
	"settling":  "plain with one in ten inside a bank",
	"hottest":   "plain, all to one payee: give the engines ENGINE_IN_FLIGHT_PSP_SHARE=1 for high rates",
	"bad-input": "six in ten are dead letters of every kind",
}

// Parse reads the name of a mix, or weights like "accepted=90,silent=10".
func Parse(text string) (Mix, error) {
	switch text {
	case "demo", "no-waits":
		var mix Mix
		for c, e := range expectations {
			mix[c] = e.weight
		}
		if text == "no-waits" {
			mix[Silent], mix[Late] = 0, 0
		}
		return mix, nil
	case "plain":
		return Mix{Accepted: 1}, nil
	case "hottest":
		return Mix{Hottest: 1}, nil
	case "settling":
		return Mix{Accepted: 9, SameBank: 1}, nil
	case "bad-input":
		return Mix{Accepted: 4, Undecodable: 4, BadEndToEndID: 4, Future: 1, Oversized: 2, Conflict: 1, ConflictAgain: 1}, nil
	}
	return parseWeights(text)
}

func parseWeights(text string) (Mix, error) {
	var mix Mix
	for _, part := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return mix, fmt.Errorf("mix %q is neither one of %s nor weights like accepted=90,silent=10", text, strings.Join(slices.Sorted(maps.Keys(Names)), ", "))
		}
		c, err := caseNamed(strings.TrimSpace(name))
		if err != nil {
			return mix, err
		}
		weight, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil || weight < 1 || weight > 1_000_000 {
			return mix, fmt.Errorf("mix: the weight of %s is %q: it must be from 1 to 1000000", c, value)
		}
		mix[c] = weight
	}
	return mix, nil
}

// Schedule returns the case of each of n payments: as many of each as its weight says, in
// an order that random decides.
func (m Mix) Schedule(n int, random *rand.Rand) []Case {
	total := 0
	for _, weight := range m {
		total += weight
	}
	counts := [caseCount]int{}
	left, heaviest := n, 0
	for c, weight := range m {
		counts[c] = int(int64(n) * int64(weight) / int64(total))
		if weight > 0 && n >= everyCaseFrom {
			counts[c] = max(counts[c], casePaymentsMin)
		}
		left -= counts[c]
		if weight > m[heaviest] {
			heaviest = c
		}
	}
	counts[heaviest] += left // what rounding left, less what the minimums took
	schedule := make([]Case, 0, n)
	for c, count := range counts {
		for range count {
			schedule = append(schedule, Case(c))
		}
	}
	random.Shuffle(len(schedule), func(i, j int) { schedule[i], schedule[j] = schedule[j], schedule[i] })
	return schedule
}
