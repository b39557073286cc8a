package conform

import (
	"fmt"
	"io"
)

// wrongMax bounds the lines about one check: the first ones tell what is wrong.
const wrongMax = 3

// Write prints a line for each check, and below it what was wrong. It reports whether nothing was.
func Write(w io.Writer, lines []Line) (passed bool) {
	passed = true

	for _, line := range lines {
		switch {
		case line.Skipped != "":
			fmt.Fprintf(w, "skipped  %s\n%8s %s\n", line.Check, "", line.Skipped)
			continue
		case len(line.Wrong) == 0:
			fmt.Fprintf(w, "passed   %s\n", line.Check)
			continue
		}
		passed = false
		fmt.Fprintf(w, "WRONG    %s\n", line.Check)

		for _, wrong := range line.Wrong[:min(len(line.Wrong), wrongMax)] {
			fmt.Fprintf(w, "%8s %s\n", "", wrong)
		}

		if n := len(line.Wrong) - wrongMax; n > 0 {
			fmt.Fprintf(w, "%8s and %d more\n", "", n)
		}
		fmt.Fprintf(w, "%8s see docs/participant.md#%s\n", "", line.Section)
	}

	return passed
}
