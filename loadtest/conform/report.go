package conform

import (
	"fmt"
	"io"
)

// wrongMax bounds the lines about one check: the first ones tell what is wrong.
const wrongMax = 3

// Write prints a line for each check, and below it what was wrong.
func (r *Report) Write(w io.Writer) {
	for _, line := range r.Lines {
		result := "passed"

		switch {
		case line.Skipped != "":
			result = "skipped"
		case len(line.Wrong) > 0:
			result = "WRONG"
		}
		fmt.Fprintf(w, "%-8s %s\n", result, line.Check)

		if line.Skipped != "" {
			fmt.Fprintf(w, "%8s %s\n", "", line.Skipped)
		}

		for _, wrong := range line.Wrong[:min(len(line.Wrong), wrongMax)] {
			fmt.Fprintf(w, "%8s %s\n", "", wrong)
		}

		if n := len(line.Wrong) - wrongMax; n > 0 {
			fmt.Fprintf(w, "%8s and %d more\n", "", n)
		}

		if len(line.Wrong) > 0 {
			fmt.Fprintf(w, "%8s see docs/participant.md#%s\n", "", line.Section)
		}
	}
	fmt.Fprintf(w, "%d questions, %d responses\n", r.Questions, r.Responses)
}
