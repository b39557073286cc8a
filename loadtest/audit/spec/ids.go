// Package spec says what the documents say of ids, accounts, money, orders and transfers. It derives all of it anew: it
// shares only the messages and the TigerBeetle client with the services, so that an error of theirs cannot hide in it.
package spec

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// Number is an id in the ledger.
type Number struct{ High, Low uint64 }

// NumberOf reads an id of the ledger.
func NumberOf(v tb.Uint128) Number {
	b := v.Bytes() // little-endian
	return Number{binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[:8])}
}

// TigerBeetle returns it as the ledger has it.
func (n Number) TigerBeetle() tb.Uint128 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], n.Low)
	binary.LittleEndian.PutUint64(b[8:], n.High)

	return tb.BytesToUint128(b)
}

// Compare orders ids.
func (n Number) Compare(m Number) int {
	return cmp.Or(cmp.Compare(n.High, m.High), cmp.Compare(n.Low, m.Low))
}

// ID is "E", ISPB (8), yyyyMMddHHmm (12) and 11 characters.
type ID [32]byte

func (e ID) String() string { return string(e[:]) }

// Epoch is the time from which ids count minutes.
var Epoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

const minutesMax = 1<<26 - 1

// ParseID reads the id of a payment or of a return.
func ParseID(text string) (id ID, minutes uint64, err error) {
	if strings.HasPrefix(text, "D") {
		return parseIDOf('D', text)
	}

	return parseIDOf('E', text)
}

// parseIDOf reads an id that begins with a letter: E for payments, D for returns. It returns the minutes
// since epoch in it, too.
func parseIDOf(letter byte, text string) (id ID, minutes uint64, err error) {
	if len(text) != len(id) || text[0] != letter {
		return id, 0, fmt.Errorf("EndToEndId %.64q is not an %c and 31 more characters", text, letter)
	}

	if _, err := packISPB(text[1:9]); err != nil {
		return id, 0, fmt.Errorf("EndToEndId %q: %w", text, err)
	}

	at, err := time.Parse("200601021504", text[9:21])
	if err != nil || at.Before(Epoch) {
		return id, 0, fmt.Errorf("EndToEndId %q holds no minute since 2020", text)
	}

	minutes = uint64(at.Sub(Epoch) / time.Minute)
	if minutes > minutesMax {
		return id, 0, fmt.Errorf("EndToEndId %q is too far in the future", text)
	}

	if strings.Trim(text[21:], base62) != "" {
		return id, 0, fmt.Errorf("EndToEndId %q has a character other than 0-9, A-Z, a-z", text)
	}
	copy(id[:], text)

	return id, minutes, nil
}

// The digits of ids.
const (
	Base36 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	base62 = Base36 + "abcdefghijklmnopqrstuvwxyz"
)

// packISPB reads 8 digits to the base of 36.
func packISPB(text string) (uint64, error) {
	if len(text) != 8 {
		return 0, fmt.Errorf("ISPB %.64q has not 8 characters", text)
	}

	if strings.Trim(text, Base36) != "" {
		return 0, fmt.Errorf("ISPB %q has a character other than 0-9, A-Z", text)
	}

	return packed(text, Base36), nil
}

// packed reads digits of an alphabet.
func packed(text, alphabet string) (number uint64) {
	for _, c := range []byte(text) {
		number = number*uint64(len(alphabet)) + uint64(strings.IndexByte(alphabet, c))
	}

	return number
}

// PaymentKey is the id of a payment's transfers with role 0: minutes (26 bits), the first 5
// characters of the suffix in base 62 (30), 68 bits of SHA-256, role (4).
func PaymentKey(id ID, minutes uint64) Number {
	return keyWith(id, minutes, sha256.Sum256(id[:]))
}

func keyWith(id ID, minutes uint64, hash [sha256.Size]byte) Number {
	suffix := packed(string(id[21:26]), base62)

	return Number{
		High: minutes<<38 | suffix<<8 | uint64(hash[0]),
		Low:  binary.BigEndian.Uint64(hash[1:9]) &^ 15,
	}
}

// Split splits the id of a transfer into the payment's key and the role.
func Split(id Number) (key Number, role int) {
	return Number{id.High, id.Low &^ 15}, int(id.Low & 15)
}

// Role returns the id of the transfer with a role.
func (n Number) Role(role int) Number { return Number{n.High, n.Low | uint64(role)} }

// UserData returns what the legs of a payment carry in user_data_128 and user_data_64.
func UserData(id ID, minutes uint64) (Number, uint64) {
	return Number{
		High: minutes<<24 | uint64(id[21])<<16 | uint64(id[22])<<8 | uint64(id[23]),
		Low:  binary.BigEndian.Uint64(id[24:32]),
	}, binary.BigEndian.Uint64(id[1:9])
}

// ReasonNumber packs a reason code as the ledger does: 4 bytes, or 0 for none.
func ReasonNumber(code string) (uint32, error) {
	if code == "" {
		return 0, nil
	}

	if len(code) != 4 {
		return 0, fmt.Errorf("reason code %.64q has not 4 characters", code)
	}

	return binary.BigEndian.Uint32([]byte(code)), nil
}

// ReasonText returns the reason code that a number packs.
func ReasonText(reason uint32) string {
	if reason == 0 {
		return "none"
	}

	return string(binary.BigEndian.AppendUint32(nil, reason))
}
