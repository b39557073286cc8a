package ledger

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/pix"
)

// ClockProbe is what a probe of the ledger's clock found.
type ClockProbe struct {
	ID tb.Uint128 // of the transfer that was written
	// At is the ledger's time of the probe. Whatever the ledger writes later has a later time.
	At time.Time
	// Skew is this clock minus the ledger's, beyond the time that the probe took.
	Skew time.Duration
	// Lacks are those of the known transfers that the ledger does not have.
	Lacks []tb.Uint128
	// Unfunded: bootstrap has not begun, so the accounts of the probe do not exist yet.
	Unfunded bool
}

// ProbeClock writes a transfer of zero and looks it up: the ledger dates it by its own clock.
// It waits as long as the ledger does not answer. now is the clock to compare.
//
// With a timeout the transfer is a hold. The ledger keeps one time in mind: when the next hold
// expires. Whenever that hold is resolved instead, it searches for the next one, in a request of its
// own. Holds of payments are resolved in about their order, so that is nearly each request with posts.
// A hold that nobody resolves, and that expires before all others, saves these searches.
//
// Its ids stand among those of the payments of this instant. known are looked up with it.
func ProbeClock(client tigerbeetle.Client, now func() time.Time, timeoutSeconds uint32,
	known ...tb.Uint128) (ClockProbe, error) {
	before := now()
	id, userData := probeIDs(before)
	_, err := client.CreateTransfers([]tb.Transfer{{
		ID: id, UserData128: userData, DebitAccountID: IssuanceAccount, CreditAccountID: RefusalsAccount,
		Ledger: Ledger, Code: CodeClockProbe,
		Flags: tb.TransferFlags{Pending: timeoutSeconds > 0}.ToUint16(), Timeout: timeoutSeconds,
	}})
	after := now()

	if err != nil {
		return ClockProbe{}, fmt.Errorf("cannot write a probe to the ledger: %w", err)
	}

	found, err := client.LookupTransfers(append([]tb.Uint128{id}, known...))
	if err != nil {
		return ClockProbe{}, fmt.Errorf("cannot look up a probe in the ledger: %w", err)
	}
	var lacks []tb.Uint128

	for _, known := range known {
		if !slices.ContainsFunc(found, func(t tb.Transfer) bool { return t.ID == known }) {
			lacks = append(lacks, known)
		}
	}

	if len(found) == 0 || found[0].ID != id {
		return ClockProbe{Unfunded: true, Lacks: lacks}, nil
	}

	p := ClockProbe{ID: id, At: timeOf(&found[0]), Lacks: lacks}
	switch {
	case p.At.Before(before):
		p.Skew = before.Sub(p.At)
	case p.At.After(after):
		p.Skew = after.Sub(p.At)
	}

	return p, nil
}

// probeIDs returns the id of a probe and its user_data_128. They are where those of a payment of this
// instant would be. The ledger's tables then cover one short time each. With a single id of another place in
// each of them, all would overlap: the ledger would write a tenth more, and search all of them for each id.
func probeIDs(at time.Time) (id, userData tb.Uint128) {
	place := pix.NewEndToEndID("00000000", at, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	return IDsOf(place).role(roleProbe), userData128(place)
}
