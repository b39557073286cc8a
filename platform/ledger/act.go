package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/pix"
)

// ActKind says what an act of administration does. It is the code of the act's transfers.
type ActKind uint16

// The kinds of acts.
const (
	Joined          ActKind = 32 // a participant, by the central bank
	Suspended       ActKind = 33
	Resumed         ActKind = 34
	PaymentCapped   ActKind = 35 // a cap on a single payment
	DayCapped       ActKind = 36 // a cap on outflow in a window of time, by day
	NightCapped     ActKind = 37
	LiquidityIn     ActKind = 38 // issuance → reserve
	LiquidityOut    ActKind = 39 // reserve → issuance
	AccountOpened   ActKind = 40 // a customer's account
	AccountBlocked  ActKind = 41
	AccountClosed   ActKind = 42
	AccountReopened ActKind = 43
	Deposit         ActKind = 44 // transit → customer
	Withdrawal      ActKind = 45 // customer → transit
	KeyNamed        ActKind = 46
	KeyRevoked      ActKind = 47
	SealNamed       ActKind = 48
	SealRevoked     ActKind = 49
	Opening         ActKind = 50 // the mirror of the money that bootstrap brought to a PSP
)

var actNames = [...]string{
	"joined", "suspended", "resumed", "payment capped", "day capped", "night capped", "liquidity in", "liquidity out",
	"account opened", "account blocked", "account closed", "account reopened", "deposit", "withdrawal",
	"key named", "key revoked", "seal named", "seal revoked", "opening",
}

// String returns the kind's name for people.
func (k ActKind) String() string {
	if k.known() {
		return actNames[k-Joined]
	}

	return fmt.Sprintf("act of code %d", uint16(k))
}

func (k ActKind) known() bool { return Joined <= k && k <= Opening }

// MovesMoney reports whether an act of the kind is a chain: the money, and its record.
func (k ActKind) MovesMoney() bool {
	return k == LiquidityIn || k == LiquidityOut || k == Deposit || k == Withdrawal
}

// OfAccount reports whether acts of the kind are about a customer's account.
func (k ActKind) OfAccount() bool { return AccountOpened <= k && k <= Withdrawal }

// Caps reports whether acts of the kind set a cap.
func (k ActKind) Caps() bool { return PaymentCapped <= k && k <= NightCapped }

// HasDigest reports whether acts of the kind are about a key or a seal.
func (k ActKind) HasDigest() bool { return KeyNamed <= k && k <= SealRevoked }

// byCentralBankOnly reports whether no participant may do acts of the kind.
func (k ActKind) byCentralBankOnly() bool { return Joined <= k && k <= LiquidityOut || k == Opening }

// Window is the time of the day of a cap on outflow. One is in force at a time.
type Window uint8

// Day is from 06:00 to 20:00 in São Paulo, by the ledger's clock.
const (
	Day Window = iota
	Night
)

// ActCentavosMax is the most that one act may move, and the highest cap.
const ActCentavosMax = 1_000_000_000_000_000

// The most that acts may bring to the customers of one bank, and to all reserves. Payments among the banks can
// move no more than the reserves, so no balance reaches 2^63-1, also if 200 acts race.
const (
	CustomersCentavosMax = 8_000_000_000_000_000_000
	ReservesCentavosMax  = 1_000_000_000_000_000_000
)

// The window of a cap on outflow is longer than a hold's timeout, so that a void finds the allowance held.
const (
	WindowSecondsMin = 120
	WindowSecondsMax = 86_400
)

const actIDLengthMax = 64

// ActDigest is the first 192 bits of a SHA-256: of a key, or the fingerprint of a seal's secret.
type ActDigest [24]byte

// Act is an act of administration: what the record of it in the ledger says. Its record is a
// transfer between the register and the books of its bank. The order of the records is the
// history of the register.
type Act struct {
	Kind          ActKind
	Bank          pix.ISPB
	Account       pix.Account // of acts about an account
	Centavos      int64       // what moves; of a cap: the cap, 0 lifts it. Below 0 only of an opening
	WindowSeconds uint32      // of a cap on outflow
	Digest        ActDigest   // of acts about a key or a seal
	// ByCentralBank: not by the bank itself. The ledger does not keep it of caps on outflow,
	// which only the central bank sets.
	ByCentralBank bool
}

// CheckActID returns an error that says what is wrong with the id of an act.
func CheckActID(id string) error {
	if len(id) < 1 || len(id) > actIDLengthMax {
		return fmt.Errorf("it has %d characters: it must have 1 to %d", len(id), actIDLengthMax)
	}

	for i := range len(id) {
		switch c := id[i]; {
		case '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', c == '.', c == '_', c == '-':
		default:
			return fmt.Errorf("it has %q at position %d: only 0-9, A-Z, a-z, dot, underscore and hyphen are allowed",
				id[i:i+1], i+1)
		}
	}

	return nil
}

// Validate returns an error that names the field that is wrong, its value and the rule.
func (a Act) Validate() error {
	if !a.Kind.known() {
		return fmt.Errorf("kind is %d: it must be %d to %d", a.Kind, Joined, Opening)
	}

	if _, err := pix.ParseISPB(string(a.Bank)); err != nil {
		return err
	}

	if a.Kind.byCentralBankOnly() && !a.ByCentralBank {
		return fmt.Errorf("%s: only the central bank may do it", a.Kind)
	}

	switch {
	case a.Kind == Opening:
		if a.Centavos < -1<<62 || a.Centavos > 1<<62 {
			return fmt.Errorf("an opening is %d centavos: it must be at most 2^62", a.Centavos)
		}
	case a.Kind.MovesMoney():
		if a.Centavos < 1 || a.Centavos > ActCentavosMax {
			return fmt.Errorf("amount is %d centavos: it must be 1 to %d", a.Centavos, int64(ActCentavosMax))
		}
	case a.Kind.Caps():
		if a.Centavos < 0 || a.Centavos > ActCentavosMax {
			return fmt.Errorf("cap is %d centavos: it must be 0 to %d", a.Centavos, int64(ActCentavosMax))
		}
	case a.Centavos != 0:
		return fmt.Errorf("%s with %d centavos: it moves no money", a.Kind, a.Centavos)
	}

	if outflow := a.Kind == DayCapped || a.Kind == NightCapped; outflow &&
		(a.WindowSeconds < WindowSecondsMin || a.WindowSeconds > WindowSecondsMax) {
		return fmt.Errorf("window is %d s: it must be %d to %d", a.WindowSeconds, WindowSecondsMin, WindowSecondsMax)
	} else if !outflow && a.WindowSeconds != 0 {
		return fmt.Errorf("%s with a window of %d s: it has none", a.Kind, a.WindowSeconds)
	}

	if a.Kind.OfAccount() {
		if err := a.Account.Validate(); err != nil {
			return err
		}

		if a.Account.ISPB != a.Bank {
			return fmt.Errorf("account %s is not one of bank %s", a.Account, a.Bank)
		}
	} else if a.Account != (pix.Account{}) {
		return fmt.Errorf("%s with account %s: it is not about an account", a.Kind, a.Account)
	}

	if a.Kind.HasDigest() != (a.Digest != ActDigest{}) {
		return fmt.Errorf("%s with digest %x: a key or seal has one, other acts have none", a.Kind, a.Digest)
	}

	return nil
}

// ActRecordID returns the id of an act's record. Who acts (an ISPB, or keys.CentralBank) is a part of
// it, so nobody can take or burn the ids of others.
func ActRecordID(holder, id string) tb.Uint128 { return actID(holder, id, roleRecord) }

// ActMoneyID returns the id of the transfer that moves an act's money.
func ActMoneyID(holder, id string) tb.Uint128 { return actID(holder, id, roleMoney) }

// actID is 124 bits of a SHA-256, and the role. No payment has these roles.
func actID(holder, id string, role uint64) tb.Uint128 {
	sum := sha256.Sum256([]byte("liquida act\x00" + holder + "\x00" + id))
	return uint128{high: binary.BigEndian.Uint64(sum[:8]),
		low: binary.BigEndian.Uint64(sum[8:16])&^(1<<roleBits-1) | role}.toTB()
}

// OpeningID returns the id of a PSP's opening: that of the account, as with fundings.
func OpeningID(psp pix.ISPB) tb.Uint128 { return BooksAccount(psp) }

// AppendAct appends an act: its money, if it moves some, and behind it its record. holder is who acts.
// The act must be valid. An opening has its one id, whatever the holder and the id.
func AppendAct(chain []tb.Transfer, holder, id string, act Act) []tb.Transfer {
	record := act.record()
	if record.ID = ActRecordID(holder, id); act.Kind == Opening {
		record.ID = OpeningID(act.Bank)
	}

	if act.Kind.MovesMoney() {
		money := record
		money.ID, money.Ledger, money.Flags = ActMoneyID(holder, id), Ledger, tb.TransferFlags{Linked: true}.ToUint16()
		money.DebitAccountID, money.CreditAccountID = act.moves()
		chain = append(chain, money)
	}

	return append(chain, record)
}

// moves returns the accounts between which the act's money moves.
func (a Act) moves() (debit, credit AccountID) {
	switch a.Kind {
	case LiquidityIn:
		return IssuanceAccount, ReserveAccount(a.Bank)
	case LiquidityOut:
		return ReserveAccount(a.Bank), IssuanceAccount
	case Deposit:
		return TransitAccount(a.Bank), CustomerAccount(a.Account)
	case Withdrawal:
		return CustomerAccount(a.Account), TransitAccount(a.Bank)
	default:
		panic("broken law: " + a.Kind.String() + " moves no money")
	}
}

// lowersBooks reports whether the act takes from what a PSP's reserve and transit add up to. A
// deposit does: the bank owes it to its customer from then on.
func (a Act) lowersBooks() bool {
	return a.Kind == LiquidityOut || a.Kind == Deposit || a.Kind == Opening && a.Centavos < 0
}

// record returns the record of an act, without its id.
func (a Act) record() tb.Transfer {
	record := tb.Transfer{DebitAccountID: RegisterAccount, CreditAccountID: BooksAccount(a.Bank), Ledger: Books,
		Code: uint16(a.Kind)}
	if a.lowersBooks() {
		record.DebitAccountID, record.CreditAccountID = record.CreditAccountID, record.DebitAccountID
	}

	if a.Kind.MovesMoney() || a.Kind == Opening {
		record.Amount = tb.ToUint128(uint64(max(a.Centavos, -a.Centavos)))
	}

	if a.ByCentralBank {
		record.UserData32 = 1
	}

	switch {
	case a.Kind.OfAccount():
		record.UserData128 = CustomerAccount(a.Account)
	case a.Kind.Caps():
		record.UserData64 = uint64(a.Centavos)
		if a.Kind != PaymentCapped {
			record.UserData32 = a.WindowSeconds
		}
	case a.Kind.HasDigest():
		record.UserData128 = uint128{high: binary.BigEndian.Uint64(a.Digest[:8]),
			low: binary.BigEndian.Uint64(a.Digest[8:16])}.toTB()
		record.UserData64 = binary.BigEndian.Uint64(a.Digest[16:])
	}

	return record
}

// BooksOf returns the account of the books that an act's record is about.
func BooksOf(record tb.Transfer) AccountID {
	if record.CreditAccountID == RegisterAccount {
		return record.DebitAccountID
	}

	return record.CreditAccountID
}

// ActOf reads an act back from its record, and returns the ledger's time of it. Its error says
// that the transfer is no record of an act that this version knows.
func ActOf(record tb.Transfer) (Act, time.Time, error) {
	act, at := Act{Kind: ActKind(record.Code)}, timeOf(&record)
	if !act.Kind.known() {
		return act, at, fmt.Errorf("transfer %s is no act: its code is %d", record.ID, record.Code)
	}
	books := BooksOf(record)
	_, owner := UnpackAccount(books)
	act.Bank = owner.ISPB

	centavos := fromTB(record.Amount)
	if centavos.high != 0 || centavos.low > 1<<62 {
		return act, at, fmt.Errorf("transfer %s is no act: its amount is %s", record.ID, record.Amount)
	}

	act.Centavos, act.ByCentralBank = int64(centavos.low), record.UserData32 == 1
	if act.Kind == Opening && record.DebitAccountID == books {
		act.Centavos = -act.Centavos
	}

	switch {
	case act.Kind.OfAccount():
		_, act.Account = UnpackAccount(record.UserData128)
	case act.Kind.Caps():
		act.Centavos = int64(min(record.UserData64, 1<<62))
		if act.Kind != PaymentCapped {
			act.ByCentralBank, act.WindowSeconds = true, record.UserData32
		}
	case act.Kind.HasDigest():
		v := fromTB(record.UserData128)
		binary.BigEndian.PutUint64(act.Digest[:8], v.high)
		binary.BigEndian.PutUint64(act.Digest[8:16], v.low)
		binary.BigEndian.PutUint64(act.Digest[16:], record.UserData64)
	}

	if err := act.Validate(); err != nil {
		return act, at, fmt.Errorf("transfer %s is no act: %w", record.ID, err)
	}

	if act.record() != recordOf(record) {
		return act, at, errors.New(
			"transfer " + record.ID.String() + " is no act: its fields are not those of " + act.Kind.String())
	}

	return act, at, nil
}

// recordOf leaves out what the ledger, a chain or an import adds to a record.
func recordOf(record tb.Transfer) tb.Transfer {
	record.ID, record.Timestamp = tb.Uint128{}, 0
	record.Flags &^= tb.TransferFlags{Linked: true, Imported: true}.ToUint16()
	return record
}
