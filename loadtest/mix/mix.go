package mix

import (
	"cmp"
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
	"demo":     "every case, mostly accepted",
	"no-waits": "demo without the cases that last until the deadline (silent, late)",
	"plain":    "accepted payments between banks only",
	"settling": "plain with one in ten inside a bank",
	"hottest":  "plain, all to one payee: give the engines ENGINE_IN_FLIGHT_PSP_SHARE=1 for high rates",
}

// weights are those of the named mixes; without any they are those of the cases.
var weights = map[string]string{
	"plain":    "accepted=1",
	"hottest":  "hottest=1",
	"settling": "accepted=9,same-bank=1",
}

// Parse reads the name of a mix, or weights like "accepted=90,silent=10".
func Parse(text string) (mix Mix, err error) {
	if text == "demo" || text == "no-waits" {
		for _, c := range Cases() {
			if mix[c] = expectations[c].weight; c.Waits() && text == "no-waits" {
				mix[c] = 0
			}
		}

		return mix, nil
	}

	for _, part := range strings.Split(cmp.Or(weights[text], text), ",") {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return mix, fmt.Errorf("mix %q is neither one of %s nor weights like accepted=90,silent=10", text,
				strings.Join(slices.Sorted(maps.Keys(Names)), ", "))
		}

		c := slices.IndexFunc(expectations[:], func(e Expectation) bool { return e.Name == strings.TrimSpace(name) })
		if c < 0 {
			return mix, fmt.Errorf("unknown case %q: the cases are %v", name, Cases())
		}

		weight, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil || weight < 1 || weight > 1_000_000 {
			return mix, fmt.Errorf("mix: the weight of %v is %q: it must be from 1 to 1000000", Case(c), value)
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
