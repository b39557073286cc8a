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
	said := fmt.Sprintf("%s (%s)", r.worlds(), r.Who())
	if r.Sure != nil {
		said += ", " + r.sure()
	}
	switch {
	case r.Silent == r.Worlds && (r.Sure == nil || !r.Sure.Caught):
		return "NO VERDICT: " + said + ": " + r.Says
	case r.ByLuck() && r.Caught > 0:
		return "BY LUCK: " + said
	case r.ByLuck():
		return "SURVIVES: " + said
	}
	return said
}

// worlds says in how many worlds the bug was found.
func (r Row) worlds() string {
	said := fmt.Sprintf("%d of %d", r.Caught, r.Worlds)
	if r.Silent > 0 {
		said += fmt.Sprintf(", no verdict in %d", r.Silent)
	}
	return said
}

// sure says whether the sure test found the bug.
func (r Row) sure() string {
	switch {
	case r.Sure == nil:
		return "–"
	case r.Sure.Caught:
		return fmt.Sprintf("`%s` in %.1f s", r.Sure.Test, r.Sure.Took)
	}
	return fmt.Sprintf("missed by `%s`", r.Sure.Test)
}

// Write prints the rows in Markdown.
func Write(w io.Writer, rows []Row) {
	fmt.Fprintln(w, "| planted bug | lived in | caught in worlds | by, in worlds | seconds until then | by a sure test | first finding |\n|---|---|---|---|---|---|---|")
	for _, r := range rows {
		says := r.Says
		if r.Caught == 0 && r.Sure != nil {
			says = r.Sure.Says
		}
		says = strings.ReplaceAll(says, "|", "/")
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
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s |\n", r.Bug, lived, r.worlds(), r.Who(), took, r.sure(), says)
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
