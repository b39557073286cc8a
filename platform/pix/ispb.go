// Package pix has the terms of the payment system: participants (ISPB), accounts, the ids of
// payments and returns (EndToEndId, RtrId), reason codes, and which orders are valid. It is
// pure: no clock, no I/O, standard library only.
package pix

import "fmt"

// ISPB identifies a participant (PSP): 8 digits today; upper-case letters are allowed.
type ISPB string

// ispbLength is the number of characters of an ISPB.
const ispbLength = 8

// ParseISPB reads an ISPB. Its error says what is wrong with the text.
func ParseISPB(text string) (ISPB, error) {
	if len(text) != ispbLength {
		return "", fmt.Errorf("ISPB %s has %d characters: it must have %d", quote(text), len(text), ispbLength)
	}

	for i := range len(text) {
		if _, ok := base36(text[i]); !ok {
			return "", fmt.Errorf("ISPB %s has %s at position %d: only 0-9 and A-Z are allowed", quote(text), quote(text[i:i+1]), i+1)
		}
	}

	return ISPB(text), nil
}

// Pack returns the ISPB as a number below 2^42, in the order of its characters.
func (i ISPB) Pack() uint64 {
	var packed uint64

	for k := range len(i) {
		digit, _ := base36(i[k])
		packed = packed*36 + digit
	}

	return packed
}

// UnpackISPB is the inverse of Pack.
func UnpackISPB(packed uint64) ISPB {
	var text [ispbLength]byte
	for k := ispbLength - 1; k >= 0; k-- {
		text[k] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[packed%36]
		packed /= 36
	}

	return ISPB(text[:])
}

// base36 returns the value of a digit of base 36.
func base36(c byte) (uint64, bool) {
	if value, ok := base62(c); ok && value < 36 {
		return value, true
	}

	return 0, false
}

// quote formats a value for an error: escaped, and cut so that hostile input cannot flood
// a log.
func quote(text string) string {
	const most = 64
	if len(text) > most {
		return fmt.Sprintf("%q…", text[:most])
	}

	return fmt.Sprintf("%q", text)
}
