package mutants

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// saysMax keeps a row of the table on one line.
const saysMax = 150

// Who names the judges that found the bug, the most frequent first.
func (r Row) Who() string {
	names := slices.SortedFunc(maps.Keys(r.Judges), func(a, b string) int {
		if r.Judges[a] != r.Judges[b] {
			return r.Judges[b] - r.Judges[a]
		}
		return strings.Compare(a, b)
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, r.Judges[name])
	}
	return strings.Join(names, ", ")
}

func (r Row) verdict() string {
	switch {
	case r.Caught == 0:
		return "SURVIVES"
	case r.ByLuck():
		return fmt.Sprintf("BY LUCK: %d of %d worlds (%s)", r.Caught, r.Worlds, r.Who())
	}
	return fmt.Sprintf("%d of %d worlds (%s)", r.Caught, r.Worlds, r.Who())
}

// Write prints the rows in Markdown.
func Write(w io.Writer, rows []Row) {
	fmt.Fprintln(w, "| planted bug | lived in | caught in worlds | by, in worlds | seconds until then | first finding |\n|---|---|---|---|---|---|")
	for _, r := range rows {
		says := strings.ReplaceAll(r.Says, "|", "/")
		if cut := []rune(says); len(cut) > saysMax {
			says = string(cut[:saysMax]) + "…"
		}
		took := fmt.Sprintf("%.1f", r.Took)
		if r.Caught == 0 {
			took = "–"
		}
		lived := "any world"
		if r.Test != anyWorld {
			lived = "`" + r.Test + "`"
		}
		fmt.Fprintf(w, "| %s | %s | %d of %d | %s | %s | %s |\n", r.Bug, lived, r.Caught, r.Worlds, r.Who(), took, says)
	}
}

// Survivors returns the names of the mutants that no judge caught, or only by luck.
func Survivors(rows []Row) []string {
	var names []string
	for _, r := range rows {
		if r.ByLuck() {
			names = append(names, r.Name)
		}
	}
	return names
}
