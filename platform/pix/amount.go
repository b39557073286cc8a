package pix

import "strconv"

// Thousands writes 1000000 as 1,000,000.
func Thousands[N int | int64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}

	return text
}

// Reais writes -123456 centavos as -BRL 1,234.56.
func Reais(centavos int64) string {
	sign, rest := "", centavos%100
	if centavos < 0 {
		sign, rest = "-", -rest
	}

	whole := Thousands(centavos / 100)
	if centavos/100 < 0 {
		whole = whole[1:]
	}

	return sign + "BRL " + whole + "." + strconv.FormatInt(100+rest, 10)[1:]
}
