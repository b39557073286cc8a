package ledger

import (
	"fmt"
	"strings"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// MarkerID is the id of the transfer that bootstrap writes last: where it exists, all
// accounts exist and are funded. Nothing may be consumed before, since a transfer that
// misses its account burns its id for good. No payment can have this id: slot 15 is
// nobody's.
var MarkerID = tb.ToUint128(15)

// Marker is what the ledger was populated with. It stands in the marker transfer, so that
// nobody goes on with another population on the same ledger.
type Marker struct {
	Banks, Customers                 uint32
	DepositCentavos, ReserveCentavos uint64
}

// Transfer returns the marker transfer: it moves nothing.
func (m Marker) Transfer() tb.Transfer {
	return tb.Transfer{
		ID: MarkerID, DebitAccountID: IssuanceAccount, CreditAccountID: RefusalsAccount,
		UserData128: uint128{high: m.ReserveCentavos, low: m.DepositCentavos}.toTB(),
		UserData64:  uint64(m.Banks)<<32 | uint64(m.Customers),
		Ledger:      Ledger, Code: CodeMarker,
	}
}

// MarkerOf reads back what the ledger was populated with.
func MarkerOf(transfer tb.Transfer) Marker {
	money := fromTB(transfer.UserData128)
	return Marker{
		Banks: uint32(transfer.UserData64 >> 32), Customers: uint32(transfer.UserData64),
		DepositCentavos: money.low, ReserveCentavos: money.high,
	}
}

// Check refuses a ledger whose marker says another population, naming what differs.
func (m Marker) Check(found tb.Transfer) error {
	if found.Code != CodeMarker {
		return fmt.Errorf("the ledger's transfer %s has code %d: a marker has %d; this is not a ledger of this system, use another TIGERBEETLE_CLUSTER_ID or data file", found.ID, found.Code, CodeMarker)
	}
	is := MarkerOf(found)
	var differs []string
	compare := func(name string, is, want uint64) {
		if is != want {
			differs = append(differs, fmt.Sprintf("%s %d (configured: %d)", name, is, want))
		}
	}
	compare("SANDBOX_BANKS", uint64(is.Banks), uint64(m.Banks))
	compare("SANDBOX_CUSTOMERS", uint64(is.Customers), uint64(m.Customers))
	compare("SANDBOX_DEPOSIT_CENTAVOS", is.DepositCentavos, m.DepositCentavos)
	compare("SANDBOX_RESERVE_CENTAVOS", is.ReserveCentavos, m.ReserveCentavos)
	if len(differs) > 0 {
		return fmt.Errorf("the ledger was populated with %s: configure the same, or start with an empty ledger", strings.Join(differs, ", "))
	}
	return nil
}
