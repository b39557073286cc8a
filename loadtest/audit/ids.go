package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// This file derives every id from "Identity" in docs/reference.md. It shares no code with the
// services, so that an error of theirs cannot hide in it.

// number128 is an id in the ledger.
type number128 struct{ high, low uint64 }

func fromTigerBeetle(v tb.Uint128) number128 {
	b := v.Bytes() // little-endian
	return number128{binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[:8])}
}

func (n number128) toTigerBeetle() tb.Uint128 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], n.low)
	binary.LittleEndian.PutUint64(b[8:], n.high)

	return tb.BytesToUint128(b)
}

func (n number128) compare(m number128) int {
	return cmp.Or(cmp.Compare(n.high, m.high), cmp.Compare(n.low, m.low))
}

// endToEndID is "E", ISPB (8), yyyyMMddHHmm (12) and 11 characters.
type endToEndID [32]byte

func (e endToEndID) String() string { return string(e[:]) }

var epoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

const minutesMax = 1<<26 - 1

// parseAnyID reads the id of a payment or of a return.
func parseAnyID(text string) (id endToEndID, minutes uint64, err error) {
	if strings.HasPrefix(text, "D") {
		return parseIDOf('D', text)
	}

	return parseIDOf('E', text)
}

// parseIDOf reads an id that begins with a letter: E for payments, D for returns. It returns the minutes
// since epoch in it, too.
func parseIDOf(letter byte, text string) (id endToEndID, minutes uint64, err error) {
	if len(text) != len(id) || text[0] != letter {
		return id, 0, fmt.Errorf("EndToEndId %.64q is not an %c and 31 more characters", text, letter)
	}

	if _, err := packISPB(text[1:9]); err != nil {
		return id, 0, fmt.Errorf("EndToEndId %q: %w", text, err)
	}

	at, err := time.Parse("200601021504", text[9:21])
	if err != nil || at.Before(epoch) {
		return id, 0, fmt.Errorf("EndToEndId %q holds no minute since 2020", text)
	}

	minutes = uint64(at.Sub(epoch) / time.Minute)
	if minutes > minutesMax {
		return id, 0, fmt.Errorf("EndToEndId %q is too far in the future", text)
	}

	if strings.Trim(text[21:], base62) != "" {
		return id, 0, fmt.Errorf("EndToEndId %q has a character other than 0-9, A-Z, a-z", text)
	}
	copy(id[:], text)

	return id, minutes, nil
}

const (
	base36 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	base62 = base36 + "abcdefghijklmnopqrstuvwxyz"
)

// packISPB reads 8 digits to the base of 36.
func packISPB(text string) (uint64, error) {
	if len(text) != 8 {
		return 0, fmt.Errorf("ISPB %.64q has not 8 characters", text)
	}

	if strings.Trim(text, base36) != "" {
		return 0, fmt.Errorf("ISPB %q has a character other than 0-9, A-Z", text)
	}

	return packed(text, base36), nil
}

// packed reads digits of an alphabet.
func packed(text, alphabet string) (number uint64) {
	for _, c := range []byte(text) {
		number = number*uint64(len(alphabet)) + uint64(strings.IndexByte(alphabet, c))
	}

	return number
}

// paymentKey is the id of a payment's transfers with role 0: minutes (26 bits), the first 5
// characters of the suffix in base 62 (30), 68 bits of SHA-256, role (4).
func paymentKey(id endToEndID, minutes uint64) number128 {
	return keyWith(id, minutes, sha256.Sum256(id[:]))
}

func keyWith(id endToEndID, minutes uint64, hash [sha256.Size]byte) number128 {
	suffix := packed(string(id[21:26]), base62)

	return number128{
		high: minutes<<38 | suffix<<8 | uint64(hash[0]),
		low:  binary.BigEndian.Uint64(hash[1:9]) &^ 15,
	}
}

// split splits the id of a transfer into the payment's key and the role.
func split(id number128) (key number128, role int) {
	return number128{id.high, id.low &^ 15}, int(id.low & 15)
}

func (n number128) role(role int) number128 { return number128{n.high, n.low | uint64(role)} }

// userData returns what the legs of a payment carry in user_data_128 and user_data_64.
func userData(id endToEndID, minutes uint64) (number128, uint64) {
	return number128{
		high: minutes<<24 | uint64(id[21])<<16 | uint64(id[22])<<8 | uint64(id[23]),
		low:  binary.BigEndian.Uint64(id[24:32]),
	}, binary.BigEndian.Uint64(id[1:9])
}

// reasonNumber packs a reason code as the ledger does: 4 bytes, or 0 for none.
func reasonNumber(code string) (uint32, error) {
	if code == "" {
		return 0, nil
	}

	if len(code) != 4 {
		return 0, fmt.Errorf("reason code %.64q has not 4 characters", code)
	}

	return binary.BigEndian.Uint32([]byte(code)), nil
}

func reasonText(reason uint32) string {
	if reason == 0 {
		return "none"
	}

	return string(binary.BigEndian.AppendUint32(nil, reason))
}
