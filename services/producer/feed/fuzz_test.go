package feed

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

// Every go test runs the inputs in testdata/fuzz, which are named for what they show; make
// fuzz looks for more.

func FuzzCursor(f *testing.F) {
	f.Add(position{}.cursor())
	f.Add(position{1, 2, 3, 1 << 62}.cursor())
	f.Add("AQ")
	f.Add("////")
	f.Fuzz(func(t *testing.T, text string) {
		for partitions := range 5 {
			if at, err := positionOf(text, partitions); err == nil {
				if again, err := positionOf(at.cursor(), partitions); err != nil || !slices.Equal(again, at) ||
					len(at) != partitions {
					t.Fatalf("%v is read again as %v %v", at, again, err)
				}

				for _, offset := range at {
					if offset < 0 {
						t.Fatal(at)
					}
				}
			}
		}
	})
}

func FuzzPrefer(f *testing.F) {
	for _, text := range []string{"wait=10", `respond-async; a="b,c", wait="7"`, ",,=;", "wait=18446744073709551616"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		wait, problem := PreferredWait(http.Header{"Prefer": {text}}, 30*time.Second)
		if wait < 0 || wait > 30*time.Second || wait%time.Second != 0 || problem != nil &&
			(wait != 0 || problem.Status != 400 || problem.Field != "Prefer" || problem.Value == "" ||
				problem.Rule == "") {
			t.Fatalf("%v %v", wait, problem)
		}
	})
}
