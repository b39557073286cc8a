package ledger

import (
	"encoding/binary"
	"fmt"
	"strings"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/pix"
)

// MarkerID is the id of bootstrap's last transfer. When it exists, all accounts exist and
// are funded. An engine consumes nothing before that, because a transfer whose account is
// missing burns its id forever. No payment can have this id: role 15 is reserved.
var MarkerID = tb.ToUint128(15)

// Marker is the population of a ledger. Bootstrap writes it into the first account and the
// last transfer, so that it refuses another population on the same ledger, also if the
// first run was never finished.
type Marker struct {
	Banks, Customers                 uint32
	DepositCentavos, ReserveCentavos uint64
}

// Issuance returns the account to create before all others.
func (m Marker) Issuance() tb.Account {
	account := NewAccount(IssuanceAccount)
	account.UserData128, account.UserData64 = m.userData()
	return account
}

// Transfer returns the marker transfer: it moves nothing.
func (m Marker) Transfer() tb.Transfer {
	transfer := tb.Transfer{
		ID: MarkerID, DebitAccountID: IssuanceAccount, CreditAccountID: RefusalsAccount,
		Ledger: Ledger, Code: CodeMarker,
	}
	transfer.UserData128, transfer.UserData64 = m.userData()

	return transfer
}

func (m Marker) userData() (tb.Uint128, uint64) {
	return uint128{high: m.ReserveCentavos, low: m.DepositCentavos}.toTB(), uint64(m.Banks)<<32 | uint64(m.Customers)
}

// MarkerOf reads the population from the user_data of the marker transfer or of the
// issuance account.
func MarkerOf(userData128 tb.Uint128, userData64 uint64) Marker {
	money := fromTB(userData128)

	return Marker{
		Banks: uint32(userData64 >> 32), Customers: uint32(userData64),
		DepositCentavos: money.low, ReserveCentavos: money.high,
	}
}

// Check returns an error that names the settings in which a ledger's population differs.
func (m Marker) Check(is Marker) error {
	var differs []string
	compare := func(name string, is, want uint64) {
		if is != want {
			differs = append(differs, fmt.Sprintf("%s is %d there and %d here", name, is, want))
		}
	}
	compare("SANDBOX_BANKS", uint64(is.Banks), uint64(m.Banks))
	compare("SANDBOX_CUSTOMERS", uint64(is.Customers), uint64(m.Customers))
	compare("SANDBOX_DEPOSIT_CENTAVOS", is.DepositCentavos, m.DepositCentavos)
	compare("SANDBOX_RESERVE_CENTAVOS", is.ReserveCentavos, m.ReserveCentavos)

	if len(differs) > 0 {
		return fmt.Errorf("the ledger holds another population: %s; configure the same, or start with an empty ledger",
			strings.Join(differs, ", "))
	}

	return nil
}

// Rebuilt returns the transfer that ends a rebuild: the past is whole, and so is what was reported since. It says in
// which ledger's place this one is. Only then the marker may follow. It moves nothing.
func Rebuilt(lost Identity) tb.Transfer {
	transfer := nothing(RebuiltID, CodeRebuilt)
	transfer.UserData128 = uint128{high: uint64(lost.Number), low: lost.Since}.toTB()
	return transfer
}

// RebuiltID is the id of the transfer that ends a rebuild. No payment has role 13.
var RebuiltID = tb.ToUint128(13)

// ToldBegins returns the transfer behind which a rebuild writes again what was reported after the time at which its
// past ends; ToldEnds the one behind the last of these. They move nothing, and a rebuild of the rebuilt ledger brings
// both.
func ToldBegins(pastEnds uint64) tb.Transfer { return nothing(told(pastEnds, 2), CodeTold) }

// ToldEnds returns the transfer that ends what ToldBegins begins.
func ToldEnds(pastEnds uint64) tb.Transfer { return nothing(told(pastEnds, 3), CodeTold) }

// told is the time in the high half, and 2 or 3 above role 13.
func told(pastEnds, place uint64) tb.Uint128 {
	return uint128{high: pastEnds, low: place<<roleBits | 13}.toTB()
}

// Confirmed returns the transfer that says that what a rebuild lost of the acts was done again. Before it nothing is
// cleared: a lost revocation would revive a stolen key. It moves nothing.
func Confirmed() tb.Transfer { return nothing(ConfirmedID, CodeConfirmed) }

// ConfirmedID is its id: 1 above role 13.
var ConfirmedID = tb.ToUint128(1<<roleBits | 13)

// Archived returns the transfer that says how the archive of a day ends: the first 192 bits of its hash. The first one
// of a day stays, so no other archive can be that of this ledger. It moves nothing.
func Archived(day pix.Day, hash [32]byte) tb.Transfer {
	transfer := nothing(ArchivedID(day), CodeArchived)
	transfer.UserData128 = uint128{high: binary.BigEndian.Uint64(hash[:8]),
		low: binary.BigEndian.Uint64(hash[8:16])}.toTB()
	transfer.UserData64, transfer.UserData32 = binary.BigEndian.Uint64(hash[16:24]), day.Number()

	return transfer
}

// ArchivedID is its id: the number of the day above role 13. The days that share the ids of a rebuild's end were long
// before the first payment.
func ArchivedID(day pix.Day) tb.Uint128 { return tb.ToUint128(uint64(day.Number())<<roleBits | 13) }
