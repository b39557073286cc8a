// Package form finds texts of judges that say the same about different payments.
package form

// Of returns a detail with # in the place of every word that holds a digit: what is wrong in
// the same way has the same form.
func Of(detail string) string {
	form, word, digit := make([]byte, 0, len(detail)), 0, false
	isWord := func(c byte) bool {
		return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '/' || c == '.' || c == '+' || c == '-'
	}
	for i := 0; i <= len(detail); i++ {
		if i < len(detail) && isWord(detail[i]) {
			digit = digit || detail[i] >= '0' && detail[i] <= '9' && !reasonIn(detail[word:])
			continue
		}
		if digit {
			form = append(form, '#')
		} else {
			form = append(form, detail[word:i]...)
		}
		if i < len(detail) {
			form = append(form, detail[i])
		}
		word, digit = i+1, false
	}
	return string(form)
}

// reasonIn reports whether a text begins with a reason code, such as AB03: findings about
// different reasons are different.
func reasonIn(text string) bool {
	letter := func(i int) bool { return text[i] >= 'A' && text[i] <= 'Z' }
	return len(text) >= 4 && letter(0) && letter(1) && (len(text) == 4 || text[4] == ' ' || text[4] == ',' || text[4] == ';' || text[4] == ':' || text[4] == ')')
}
