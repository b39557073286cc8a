package ledger

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// Identity says which ledger one is. The topics name the identity of their ledger (checkpoints), so that
// nobody goes on with another one. A copy of a ledger's file has its identity: that a copy is older
// shows by what it lacks.
type Identity struct {
	Number uint32 // 1, and one more after each renewal; 0: the ledger has no marker
	// Since is the ledger's time, in nanoseconds, of the transfer that began the identity: the marker, or a
	// renewal. No other ledger has one of the same time.
	Since uint64
}

// NoIdentity is how an identity that there is not is written.
const NoIdentity = "none"

// String returns the identity as people give it to bootstrap, such as 1-1764036655123456789.
func (i Identity) String() string {
	if i == (Identity{}) {
		return NoIdentity
	}

	return fmt.Sprintf("%d-%d", i.Number, i.Since)
}

// ParseIdentity is the inverse of String.
func ParseIdentity(text string) (Identity, error) {
	if text == NoIdentity {
		return Identity{}, nil
	}
	number, since, cut := strings.Cut(text, "-")
	n, badNumber := strconv.ParseUint(number, 10, 32)

	s, badSince := strconv.ParseUint(since, 10, 64)
	if !cut || badNumber != nil || badSince != nil || n == 0 || s == 0 {
		return Identity{}, fmt.Errorf(
			"%q is no identity of a ledger: it must be %s or NUMBER-NANOSECONDS, as bootstrap and engines print it",
			text, NoIdentity)
	}

	return Identity{uint32(n), s}, nil
}

// RenewalsMax bounds how often an identity can be renewed.
const RenewalsMax = 64

// IdentityID returns the id of the transfer that begins the identity with a number: the marker, or
// number - 1 (32 bits), 0 (64), 15 (4). The 64 bits are those that name a log.
func IdentityID(number uint32) tb.Uint128 {
	return uint128{low: uint64(number - 1)}.shiftLeft(64 + roleBits).or(fromTB(MarkerID)).toTB()
}

// Renewal returns the transfer that begins the identity with a number, and says which one was given up
// for it. It moves nothing.
func Renewal(number uint32, givenUp Identity) tb.Transfer {
	transfer := nothing(IdentityID(number), CodeIdentity)
	transfer.UserData128 = uint128{high: uint64(givenUp.Number), low: givenUp.Since}.toTB()
	return transfer
}

// GivenUpBy returns the identity that was given up for a renewal.
func GivenUpBy(renewal tb.Transfer) Identity {
	v := fromTB(renewal.UserData128)
	return Identity{uint32(v.high), v.low}
}

// AppendIdentityIDs appends the ids of all transfers that can begin an identity.
func AppendIdentityIDs(ids []tb.Uint128) []tb.Uint128 {
	for number := range uint32(RenewalsMax + 1) {
		ids = append(ids, IdentityID(number+1))
	}

	return ids
}

// IdentityIn returns the identity that transfers say, among others: the one with the highest number. last
// is the transfer that began it.
func IdentityIn(found []tb.Transfer) (is Identity, last tb.Transfer) {
	for _, t := range found {
		if t.Code != CodeMarker && t.Code != CodeIdentity {
			continue
		}

		id := fromTB(t.ID)
		if number := uint32(id.shiftRight(64+roleBits).low) + 1; t.ID == IdentityID(number) && number > is.Number {
			is, last = Identity{number, t.Timestamp}, t
		}
	}

	return is, last
}

// ReadIdentity asks a ledger who it is.
func ReadIdentity(ctx context.Context, client tigerbeetle.Client) (Identity, error) {
	found, err := Ask(ctx, func() ([]tb.Transfer, error) { return client.LookupTransfers(AppendIdentityIDs(nil)) })
	is, _ := IdentityIn(found)
	return is, err
}
