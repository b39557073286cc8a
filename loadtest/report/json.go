package report

import (
	"encoding/json"
	"os"
	"regexp"
)

// WriteJSON writes a result for programs, if a path is given. A list of numbers and an
// object without objects take one line each, so that people can read and compare the file.
func WriteJSON(path string, result any) error {
	if path == "" {
		return nil
	}

	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}

	for _, innermost := range []*regexp.Regexp{numberList, flatObject} {
		text = innermost.ReplaceAllFunc(text, func(part []byte) []byte {
			return lineEnd.ReplaceAll(afterComma.ReplaceAll(part, []byte(", ")), nil)
		})
	}

	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// What takes one line. Strings in JSON have no line ends.
var (
	numberList = regexp.MustCompile(`\[[-+.\deE,\s]+\]`)
	flatObject = regexp.MustCompile(`\{[^{}]*\}`)
	afterComma = regexp.MustCompile(`,\n\s*`)
	lineEnd    = regexp.MustCompile(`\n\s*`)
)
