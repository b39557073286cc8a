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

	minutes, exists := id.minutes()
	wrong := ""

	switch {
	case !exists:
		wrong = ", which does not exist"
	case minutes < 0:
		wrong = ": it must not be before " + Epoch.Format(minuteLayout)
	case minutes >= 1<<minuteBits:
		wrong = ": it is too far in the future"
	}

	if wrong != "" {
		return EndToEndID{}, fmt.Errorf("%s %s holds the time %s%s", kind, quote(text),
			quote(text[minuteStart:suffixStart]), wrong)
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
func (id EndToEndID) Time() time.Time { return Epoch.Add(time.Duration(id.Minute()) * time.Minute) }

// Minute returns the minutes from Epoch to the id's time, below 2^26.
func (id EndToEndID) Minute() uint64 {
	minutes, _ := id.minutes()
	return uint64(minutes)
}

// minutes returns the minutes from Epoch to the id's time, negative before it, and whether that time
// exists. Each payment needs it several times in each process, so it does without time.Date.
func (id *EndToEndID) minutes() (minutes int, exists bool) {
	number := func(from, to int) (n int) {
		for _, c := range id[from:to] {
			n = n*10 + int(c-'0')
		}

		return n
	}
	year, month, day, hour, minute := number(9, 13), number(13, 15), number(15, 17), number(17, 19), number(19, 21)

	if month < 1 || month > 12 || hour > 23 || minute > 59 {
		return 0, false
	}

	last := lastDays[month-1]
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		last++
	}

	if day < 1 || day > last {
		return 0, false
	}

	return ((daysTo(year, month, day)-epochDays)*24+hour)*60 + minute, true
}

var (
	lastDays  = [12]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}
	epochDays = daysTo(Epoch.Year(), int(Epoch.Month()), Epoch.Day())
)

// daysTo counts days. Its years begin in March, so that a leap day is the last of its year, and each five months
// have 153 days.
func daysTo(year, month, day int) int {
	if month < 3 {
		year, month = year-1, month+12
	}

	return 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day
}

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

// base62 returns the value of a digit of base 62.
func base62(c byte) (uint64, bool) {
	value := base62Values[c]
	if value < 0 {
		return 0, false
	}

	return uint64(value), true
}

// base62Values has the value of each character, negative if it is no digit. To compare a character with three ranges
// takes longer: which of them a random suffix has next cannot be predicted.
var base62Values = func() (values [256]int8) {
	for i := range values {
		values[i] = -1
	}

	for value, digit := range []byte(base62Digits) {
		values[digit] = int8(value)
	}

	return values
}()
