package pix

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// EndToEndID is the identity of a payment: "E", the payer's ISPB (8), yyyyMMddHHmm in UTC
// (12) and a suffix of 11 characters of [0-9A-Za-z]. 32 characters in all.
//
// It is an array, because a map with such keys needs no allocation.
type EndToEndID [endToEndIDLength]byte

const (
	endToEndIDLength = 32
	suffixLength     = 11
	suffixStart      = endToEndIDLength - suffixLength
	minuteStart      = 1 + ispbLength
)

// Epoch is minute 0 of transfer ids. No PIX payment is older: PIX began in 2020-11.
var Epoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// minuteBits is the size of the minute in a transfer id: enough until the year 2147.
const minuteBits = 26

// ParseEndToEndID reads an EndToEndId. Its error says what is wrong with the text.
func ParseEndToEndID(text string) (EndToEndID, error) { return parseID("EndToEndId", 'E', text) }

// parseID reads an EndToEndId or RtrId. They differ in their first letter only.
func parseID(kind string, letter byte, text string) (EndToEndID, error) {
	var id EndToEndID
	if len(text) != endToEndIDLength {
		return id, fmt.Errorf("%s %s has %d characters: it must have %d", kind, quote(text), len(text),
			endToEndIDLength)
	}

	if text[0] != letter {
		return id, fmt.Errorf("%s %s begins with %s: it must begin with %q", kind, quote(text), quote(text[:1]),
			string(letter))
	}

	if _, err := ParseISPB(text[1:minuteStart]); err != nil {
		return id, fmt.Errorf("%s %s: %w", kind, quote(text), err)
	}

	for i := minuteStart; i < suffixStart; i++ {
		if text[i] < '0' || text[i] > '9' {
			return id, fmt.Errorf("%s %s has %s at position %d: the time must be digits, yyyyMMddHHmm", kind,
				quote(text), quote(text[i:i+1]), i+1)
		}
	}

	for i := suffixStart; i < endToEndIDLength; i++ {
		if _, ok := base62(text[i]); !ok {
			return id, fmt.Errorf("%s %s has %s at position %d: only 0-9, A-Z and a-z are allowed", kind, quote(text),
				quote(text[i:i+1]), i+1)
		}
	}
	copy(id[:], text)
	year, month, day, hour, minute := id.moment()

	t := id.Time()
	if y, m, d := t.Date(); y != year || m != month || d != day || t.Hour() != hour || t.Minute() != minute {
		return EndToEndID{}, fmt.Errorf("%s %s holds the time %s, which does not exist", kind, quote(text),
			quote(text[minuteStart:suffixStart]))
	}

	if t.Before(Epoch) {
		return EndToEndID{}, fmt.Errorf("%s %s holds the time %s: it must not be before %s", kind, quote(text),
			quote(text[minuteStart:suffixStart]), Epoch.Format(minuteLayout))
	}

	if minutesSinceEpoch(t) >= 1<<minuteBits {
		return EndToEndID{}, fmt.Errorf("%s %s holds the time %s: it is too far in the future", kind, quote(text),
			quote(text[minuteStart:suffixStart]))
	}

	return id, nil
}

// NewEndToEndID makes an EndToEndId for a payer's PSP at an instant. The suffix begins
// with the microseconds within the minute: the ledger is faster if later ids are greater.
// The other 6 characters are random.
func NewEndToEndID(payer ISPB, at time.Time, random *rand.Rand) EndToEndID {
	return newID('E', payer, at, random)
}

func newID(letter byte, psp ISPB, at time.Time, random *rand.Rand) EndToEndID {
	at = at.UTC()
	var id EndToEndID
	id[0] = letter
	copy(id[1:minuteStart], psp)
	at.AppendFormat(id[minuteStart:minuteStart:suffixStart], minuteLayout)

	microseconds := uint64(at.Second())*1_000_000 + uint64(at.Nanosecond())/1_000
	for i := suffixStart + orderedSuffixLength - 1; i >= suffixStart; i-- {
		id[i] = base62Digits[microseconds%62]
		microseconds /= 62
	}

	for i := suffixStart + orderedSuffixLength; i < endToEndIDLength; i++ {
		id[i] = base62Digits[random.IntN(62)]
	}

	return id
}

const (
	minuteLayout = "200601021504"
	base62Digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	// orderedSuffixLength is the part of the suffix that decides the order of ids: 5 digits
	// of base 62 hold the 60,000,000 microseconds of a minute, and fit 30 bits.
	orderedSuffixLength = 5
)

func (id EndToEndID) String() string { return string(id[:]) }

// Payer returns the ISPB inside the id.
func (id EndToEndID) Payer() ISPB { return ISPB(id[1:minuteStart]) }

// Time returns the minute inside the id, in UTC.
func (id EndToEndID) Time() time.Time {
	year, month, day, hour, minute := id.moment()
	return time.Date(year, month, day, hour, minute, 0, 0, time.UTC)
}

// moment reads the digits of the time. Such a time may not exist.
func (id *EndToEndID) moment() (year int, month time.Month, day, hour, minute int) {
	number := func(from, to int) (n int) {
		for _, c := range id[from:to] {
			n = n*10 + int(c-'0')
		}

		return n
	}

	return number(9, 13), time.Month(number(13, 15)), number(15, 17), number(17, 19), number(19, 21)
}

// Minute returns the minutes from Epoch to the id's time, below 2^26.
func (id EndToEndID) Minute() uint64 { return minutesSinceEpoch(id.Time()) }

// OrderedSuffix returns the first 5 characters of the suffix as a number below 2^30, in
// the order of the characters.
func (id EndToEndID) OrderedSuffix() uint64 {
	var packed uint64

	for _, c := range id[suffixStart : suffixStart+orderedSuffixLength] {
		digit, _ := base62(c)
		packed = packed*62 + digit
	}

	return packed
}

// Suffix returns the 11 characters after the time.
func (id EndToEndID) Suffix() [suffixLength]byte { return [suffixLength]byte(id[suffixStart:]) }

// JoinEndToEndID makes an id from the parts that the ledger keeps.
func JoinEndToEndID(payer [ispbLength]byte, minute uint64, suffix [suffixLength]byte) (EndToEndID, error) {
	return joinID("EndToEndId", 'E', payer, minute, suffix)
}

func joinID(kind string, letter byte, psp [ispbLength]byte, minute uint64,
	suffix [suffixLength]byte) (EndToEndID, error) {
	if minute >= 1<<minuteBits {
		// and could overflow below
		return EndToEndID{}, fmt.Errorf("minute %d of an %s does not fit %d bits", minute, kind, minuteBits)
	}
	at := Epoch.Add(time.Duration(minute) * time.Minute)

	return parseID(kind, letter, string(letter)+string(psp[:])+at.Format(minuteLayout)+string(suffix[:]))
}

func minutesSinceEpoch(t time.Time) uint64 { return uint64(t.Unix()-Epoch.Unix()) / 60 }

func base62(c byte) (uint64, bool) {
	if c >= 'a' && c <= 'z' {
		return uint64(c-'a') + 36, true
	}

	return base36(c)
}
