package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/liquida/liquida/platform/archive"
	"github.com/liquida/liquida/platform/archive/past"
	"github.com/liquida/liquida/platform/archive/store"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/services/archiver/keep"
)

const archiverName = "archiver-"

// startArchivers starts one archiver or two, which share a folder. Their segments are small, so that there are many.
func (w *world) startArchivers(random *rand.Rand) {
	w.archiverConfig = parsed(w.t, &keep.Config{})
	w.archiverConfig.Folder = w.t.TempDir()
	w.archiverConfig.RowsMax = 10 + random.IntN(200)
	w.archiverConfig.EventsMax = 100 + random.IntN(1000)

	w.archiverConfig.Interval = between(random, time.Second, 20*time.Second)
	for i := range 1 + random.IntN(2) {
		address := fmt.Sprintf("127.0.0.1:%d", 9290+i)
		w.start(archiverName+fmt.Sprint(i), address, nil, func(ctx context.Context, l *life, on host.Host) error {
			config := &keep.Config{}
			*config = *w.archiverConfig
			config.Telemetry.Address = address

			return keep.Run(ctx, config, on, l.ledger)
		})
	}
}

// archivers returns those that there are now.
func (w *world) archivers() []*service {
	return slices.DeleteFunc(w.all(), func(s *service) bool { return !strings.HasPrefix(s.name, archiverName) })
}

// archived returns how many segments the archive has.
func (w *world) archived() int {
	segments, err := archive.Manifests(os.DirFS(w.archiverConfig.Folder))
	if err != nil {
		w.t.Error(err)
	}

	return len(segments)
}

// archiverFaults are those of other services that an archiver notices, and one of its own.
func archiverFaults() []fault {
	faults := slices.DeleteFunc(slices.Concat(serviceFaults, engineFaults), func(f fault) bool {
		return !slices.Contains(
			[]string{"die", "die and come back at once", "restart", "ledger-rolled-back", "ledger-lost",
				"ledger-of-another"}, f.kind)
	})

	return append(faults, fault{"archiver dies while it writes",
		func(w *world, s *service, random *rand.Rand, hold time.Duration) {
			s.kill(hold, "")

			if len(w.archivers()) == 1 { // the other one has read it
				w.unwrite(random)
			}
			time.Sleep(hold)
		}}, fault{"ledger stalls", func(w *world, s *service, random *rand.Rand, hold time.Duration) {
		l := s.now()
		l.ledger.Cut(random.IntN(2) == 0, true)
		time.Sleep(hold)
		l.heal(w)
	}})
}

// unwrite leaves the last segment as if its writer had died at one of its files: the manifest comes last.
func (w *world) unwrite(random *rand.Rand) {
	folder := w.archiverConfig.Folder

	manifests, err := filepath.Glob(filepath.Join(folder, archive.ManifestsFolder, "*", "*.json"))
	if err != nil || len(manifests) == 0 {
		return
	}
	last := manifests[len(manifests)-1]
	name := strings.TrimSuffix(filepath.Base(last), ".json")

	others, err := filepath.Glob(filepath.Join(folder, "*", "*", name+".parquet"))
	if err == nil {
		err = os.Remove(last)
	}

	for i := random.IntN(len(others) + 1); i < len(others) && err == nil; i++ {
		err = os.Rename(others[i], filepath.Join(filepath.Dir(others[i]), ".writing-1"))
	}

	if err != nil {
		w.t.Error(err)
	}
}

// concludeArchive ends the archive where the ledger is now, and returns what is wrong with it.
func (w *world) concludeArchive() (problems []string) {
	complain := func(format string, arguments ...any) {
		problems = append(problems, "archive: "+fmt.Sprintf(format, arguments...))
	}

	for _, s := range w.archivers() {
		s.retire()
	}
	time.Sleep(2 * time.Minute) // the last minute ends with an engine's probe
	folder := w.archiverConfig.Folder

	end, err := w.archiveInto(folder)
	if err != nil {
		complain("%v", err)
	}

	totals, err := archive.Verify(os.DirFS(folder), func(archive.Manifest) {}, func(archive.DayEnd) {})
	if err != nil {
		complain("%v", err)
	}
	w.note("the archive has %d rows in %d segments: %d settled, %d rejected, %d refused, %d expired", totals.Rows,
		totals.Segments, totals.Settled, totals.Rejected, totals.Refused, totals.Expired)

	if w.rebuilt { // a new one lacks what the ledger lost
		return problems
	}

	if again, err := w.archiveInto(w.t.TempDir()); err != nil || again != end {
		complain("one that is made now ends with %+v, %v, and that of this world with %+v", again, err, end)
	}

	return problems
}

// archiveInto archives what is not archived yet, and returns the last manifest.
func (w *world) archiveInto(folder string) (archive.Manifest, error) {
	a, err := past.New(w.ends, w.books().Connect(nil), w.archiverConfig.EventsMax, store.Folder(folder),
		w.archiverConfig.RowsMax)
	for err == nil {
		p, all, wrong := a.Step(w.ends)
		if err = wrong; all {
			return p.Last, err
		}
	}

	return archive.Manifest{}, err
}
