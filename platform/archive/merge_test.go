package archive_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/liquida/liquida/platform/archive"
	"github.com/liquida/liquida/platform/archive/store"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
)

// kept writes an archive of three days, of which two are over, and returns the ids of its payments and the last segment
// of each day.
func kept(t testing.TB, into archive.Store, segmentsOfADay,
	payments int) (ids []pix.EndToEndID, ends []archive.Manifest) {
	random := rand.New(rand.NewPCG(1, 2))
	last := archive.Manifest{}

	for day := range 3 {
		for minute := range segmentsOfADay {
			at := time.Date(2026, 2, 10+day, 15, minute, 0, 0, time.UTC)
			s := &archive.Segment{Manifest: archive.Manifest{Ledger: "one",
				Name: archive.NameOf(uint64(at.UnixNano()), 0), From: last.To, To: uint64(at.UnixNano()) + 60e9 - 1}}

			if minute != 1 || segmentsOfADay == 1 { // one has records only
				for i := range payments {
					id := pix.NewEndToEndID("10000001", at, random)
					ids = append(ids, id)
					decided := at.UnixNano() + int64(i+1)*1000
					s.PaymentRows = append(s.PaymentRows, archive.Payment{
						Kind: archive.KindPayment, ID: id.String(), Status: archive.Settled, PayerISPB: "10000001",
						PayerBranch: "0001", PayerNumber: fmt.Sprint(random.IntN(5000)),
						PayeeISPB: "10000002", PayeeBranch: "0001", PayeeNumber: fmt.Sprint(random.IntN(5000)),
						AmountCentavos: 1 + random.Int64N(50_000), HeldAt: decided - 1 - random.Int64N(1e8),
						DecidedAt: decided, HoldSeconds: 60,
					})
				}
			}

			if minute < 2 {
				s.RecordRows = []archive.Record{
					{What: "funding", Credit: "reserve/10000001", At: at.UnixNano(), ID: "a", AmountCentavos: 1e14}}
			}

			if minute == 0 && day != 1 { // a day without a new account
				s.AccountRows = []archive.Account{
					{Name: "reserve/10000001", CreatedAt: at.UnixNano(), ID: fmt.Sprint(day)}}
			}

			if err := s.Seal(last.Chain); err != nil {
				t.Fatal(err)
			}

			if there, err := s.Store(t.Context(), into); err != nil || there != s.Manifest {
				t.Fatal(there, err)
			}
			last = s.Manifest
		}
		ends = append(ends, last)
	}

	return ids, ends
}

func verified(t testing.TB, in archive.Store) archive.Totals {
	t.Helper()

	totals, err := archive.Verify(in, func(archive.Manifest) {}, func(archive.DayEnd) {})
	if err != nil {
		t.Fatal(err)
	}
	totals.Bytes = 0

	return totals
}

// files returns the files of an archive and what they hold.
func files(t testing.TB, in archive.Store) map[string]string {
	t.Helper()
	found := map[string]string{}
	names, err := filepath.Glob(in.String() + "/*/day=*/*")

	hidden, wrong := filepath.Glob(in.String() + "/*/day=*/.*")
	for _, name := range append(names, hidden...) {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimPrefix(name, in.String()+"/")] = string(content)
	}

	if err := errors.Join(err, wrong); err != nil {
		t.Fatal(err)
	}

	return found
}

func mustMerge(t testing.TB, in archive.Store, ends ...archive.Manifest) {
	t.Helper()

	for _, end := range ends {
		if err := archive.Merge(t.Context(), in, end); err != nil {
			t.Fatal(err)
		}
	}
}

// stepping calls before each change of a store.
type stepping struct {
	archive.Store
	before func() error
}

func (s stepping) Put(ctx context.Context, name string, write func(io.Writer) error) (bool, error) {
	if err := s.before(); err != nil {
		return false, err
	}

	return s.Store.Put(ctx, name, write)
}

func (s stepping) Remove(ctx context.Context, name string) error {
	if err := s.before(); err != nil {
		return err
	}

	return s.Store.Remove(ctx, name)
}

// Whatever step of a merge it is killed before, and if another one merges the whole day there: who reads finds all, and
// in the end the files are those of a merge that nobody disturbed.
func TestAMergeIsKilledOrNotAlone(t *testing.T) {
	t.Parallel()
	undisturbed := store.Folder(t.TempDir())
	_, ends := kept(t, undisturbed, 4, 3)
	totals := verified(t, undisturbed)

	fresh := t.TempDir()
	if err := os.CopyFS(fresh, undisturbed); err != nil {
		t.Fatal(err)
	}
	mustMerge(t, undisturbed, ends[:2]...)

	want := files(t, undisturbed)
	if len(want) != 4+3+10 { // of two merged days, one without accounts; of one that is not over
		t.Fatalf("%d files: %v", len(want), slices.Sorted(maps.Keys(want)))
	}
	killed := errors.New("killed")

	for end := 0; ; end++ {
		alone, two := store.Folder(t.TempDir()), store.Folder(t.TempDir())
		if err := errors.Join(os.CopyFS(alone.String(), os.DirFS(fresh)),
			os.CopyFS(two.String(), os.DirFS(fresh))); err != nil {
			t.Fatal(err)
		}
		steps := 0

		err := archive.Merge(t.Context(), stepping{alone, func() error {
			if steps++; steps > end {
				return killed
			}

			return nil
		}}, ends[0])
		if got := verified(t, alone); !reflect.DeepEqual(got, totals) {
			t.Fatalf("killed before step %d, the archive has %+v, want %+v", end, got, totals)
		}

		half := filepath.Join(alone.String(), "payments", "day="+ends[0].Day, archive.Unfinished+"1")
		if wrong := errors.Join(os.WriteFile(half, []byte("half"), 0o600),
			os.Chtimes(half, time.Time{}, time.Now().Add(-2*time.Hour))); wrong != nil {
			t.Fatal(wrong)
		}
		mustMerge(t, alone, ends[:2]...)

		steps = 0
		mustMerge(t, stepping{two, func() error {
			verified(t, two)

			if steps++; steps == end+1 {
				mustMerge(t, two, ends[0])
			}

			return nil
		}}, ends[:2]...)

		for what, is := range map[string]archive.Store{"killed": alone, "with another": two} {
			if got := files(t, is); !maps.Equal(got, want) {
				t.Fatalf("%s before step %d: the files are %v, want %v", what, end, slices.Sorted(maps.Keys(got)),
					slices.Sorted(maps.Keys(want)))
			}
		}

		if err == nil {
			t.Logf("killed before each of %d steps", end)
			return
		}

		if !errors.Is(err, killed) {
			t.Fatal(err)
		}
	}
}

// Who reads while days are merged reads on. Who is behind and stores what is merged already changes nothing.
func TestAnArchiveIsReadWhileItIsMerged(t *testing.T) {
	t.Parallel()
	in := store.Folder(t.TempDir())
	_, ends := kept(t, in, 4, 3)
	before, totals := files(t, in), verified(t, in)
	segments := 0

	for s, err := range archive.Segments(in, 0) {
		if err != nil {
			t.Fatal(err)
		}

		if segments++; segments == 2 {
			mustMerge(t, in, ends[:2]...)
		}

		if there, err := s.Store(t.Context(), in); err != nil || there != s.Manifest {
			t.Fatalf("stored again: %+v, %v", there, err)
		}
	}

	if segments != 12 {
		t.Errorf("%d segments", segments)
	}

	if days, err := archive.DayEnds(in); err != nil || !slices.Equal(days, ends) {
		t.Errorf("days end with %+v, %v", days, err)
	}

	if got := files(t, in); len(got) != 17 {
		t.Errorf("the files are %v", slices.Sorted(maps.Keys(got)))
	}

	// A copy has the manifests of before the merge, and the files of after it.
	for name, content := range before {
		if strings.HasPrefix(name, "manifests/day="+ends[1].Day) {
			if err := os.WriteFile(filepath.Join(in.String(), name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}

	if err := os.Remove(filepath.Join(in.String(), "manifests", "day="+ends[1].Day, "day.json")); err != nil {
		t.Fatal(err)
	}

	if got := verified(t, in); !reflect.DeepEqual(got, totals) {
		t.Errorf("a copy has %+v, want %+v", got, totals)
	}
	mustMerge(t, in, ends[1])
	verified(t, in)

	// A copy in the wrong order has the files of before, and the manifests of after: nothing is removed.
	day := filepath.Join(in.String(), "payments", "day="+ends[0].Day)
	if err := errors.Join(os.Remove(filepath.Join(day, "day.parquet")),
		os.WriteFile(filepath.Join(day, "20260210T1500Z-000.parquet"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}

	if err := archive.Merge(t.Context(), in, ends[0]); err == nil ||
		!strings.Contains(err.Error(), "a copy from two times") {
		t.Errorf("a copy in the wrong order: %v", err)
	}

	if _, err := os.Stat(filepath.Join(day, "20260210T1500Z-000.parquet")); err != nil {
		t.Error(err)
	}

	if err := archive.Merge(t.Context(), in, ends[2]); err == nil || !strings.Contains(err.Error(), "not over") {
		t.Errorf("a day that is not over: %v", err)
	}
}

// A row of a merged day has the proof that it had before.
func TestAMergedDayProvesItsRows(t *testing.T) {
	t.Parallel()
	in := store.Folder(t.TempDir())
	ids, ends := kept(t, in, 3, 5)
	prove := func(id pix.EndToEndID) []archive.Proof {
		proofs, err := archive.Prove(in, id)
		if err != nil || len(proofs) != 1 {
			t.Fatal(proofs, err)
		}

		return proofs
	}

	var want [][]archive.Proof
	for _, id := range ids {
		want = append(want, prove(id))
	}
	mustMerge(t, in, ends[:2]...)

	for i, id := range ids {
		got := prove(id)
		if !reflect.DeepEqual(got, want[i]) {
			t.Fatalf("the proof of %v is %+v, want %+v", id, got, want[i])
		}

		if row, err := got[0].Check(); err != nil || row.ID != id.String() {
			t.Fatal(row, err)
		}
	}

	if proofs, err := archive.Prove(in,
		pix.NewEndToEndID("10000001", ids[0].Time(), rand.New(rand.NewPCG(3, 4)))); err != nil || len(proofs) > 0 {
		t.Errorf("of a payment that was none: %v %v", proofs, err)
	}
}

// Whatever is done to the files of a merged day is found.
func TestADamagedDayIsFound(t *testing.T) {
	t.Parallel()
	in := store.Folder(t.TempDir())
	_, ends := kept(t, in, 4, 3)
	mustMerge(t, in, ends[:2]...)
	whole := files(t, in)
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(in.String(), name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	day := "payments/day=" + ends[0].Day + "/day.parquet"
	other := "payments/day=" + ends[1].Day + "/day.parquet"
	manifests := "manifests/day=" + ends[0].Day + "/day.json"
	rows := func(change func([]archive.Payment) []archive.Payment) {
		all, err := parquet.Read[archive.Payment](strings.NewReader(whole[day]), int64(len(whole[day])))
		if err != nil || len(all) != 9 {
			t.Fatal(len(all), err)
		}

		var changed strings.Builder
		if err := parquet.Write(&changed, change(all)); err != nil {
			t.Fatal(err)
		}
		write(day, changed.String())
	}

	for what, damage := range map[string]func(){
		"": func() { rows(func(all []archive.Payment) []archive.Payment { return all }) },
		"its manifests say 9: rows were left out or added": func() {
			rows(func(all []archive.Payment) []archive.Payment { return all[:8] })
		},
		"has 10 rows, and its manifests say 9: rows were left out or adde": func() {
			rows(func(all []archive.Payment) []archive.Payment { return append(all, all[8]) })
		},
		"segment 20260210T1502Z-000: the root of its rows": func() {
			rows(func(all []archive.Payment) []archive.Payment { all[4].AmountCentavos++; return all })
		},
		"segment 20260210T1500Z-000: the root of its rows": func() {
			rows(func(all []archive.Payment) []archive.Payment { all[2], all[3] = all[3], all[2]; return all })
		},
		"the root of its rows": func() { write(day, whole[other]) },
		"damaged":              func() { write(day, whole[day][:len(whole[day])/2]) },
		"file does not exist":  func() { os.Remove(filepath.Join(in.String(), day)) },
		"files were moved":     func() { write(manifests, whole["manifests/day="+ends[1].Day+"/day.json"]) },
		"its manifests say 6": func() {
			_, rest, _ := strings.Cut(whole[manifests], "\n")
			write(manifests, rest)
		},
		"its manifest was changed: ": func() {
			write(manifests, strings.Replace(whole[manifests], `"open_since":0`, `"open_since":1`, 1))
		},
		"day.json is damaged": func() { write(manifests, whole[manifests][:len(whole[manifests])-20]) },
	} {
		damage()

		_, err := archive.Verify(in, func(archive.Manifest) {}, func(archive.DayEnd) {})
		if err == nil && what != "" || err != nil &&
			(what == "" || !strings.Contains(
				strings.ReplaceAll(err.Error(), "no such file or directory", "file does not exist"), what)) {
			t.Errorf("%q: found %v", what, err)
		}

		for name, content := range whole {
			write(name, content)
		}
	}
}

// A day is not merged if it does not lead to its roots: its segments' files stay.
func TestADamagedSegmentIsNotMerged(t *testing.T) {
	t.Parallel()
	in := store.Folder(t.TempDir())
	_, ends := kept(t, in, 3, 2)
	whole := files(t, in)
	name := "payments/day=" + ends[0].Day + "/20260210T1502Z-000.parquet"
	write := func(content string) {
		if err := os.WriteFile(filepath.Join(in.String(), name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(whole[strings.Replace(name, "1502Z", "1500Z", 1)]) // as many rows of another segment

	if err := archive.Merge(t.Context(), in, ends[0]); err == nil ||
		!strings.Contains(err.Error(), "nothing was removed: segment 20260210T1502Z-000") {
		t.Errorf("merged: %v", err)
	}

	for name := range whole {
		if _, err := os.Stat(filepath.Join(in.String(), name)); err != nil {
			t.Error(err)
		}
	}
	write(whole[name])

	if err := os.Remove(filepath.Join(in.String(), "payments", "day="+ends[0].Day, "day.parquet")); err != nil {
		t.Fatal(err)
	}
	mustMerge(t, in, ends[0])
	verified(t, in)

	if wrong := os.Remove(filepath.Join(in.String(), ends[1].File(archive.ManifestsFolder))); wrong != nil {
		t.Fatal(wrong)
	}

	if err := archive.Merge(t.Context(), in, ends[1]); err == nil ||
		!strings.Contains(err.Error(), "does not end with") {
		t.Errorf("a day without its last segment: %v", err)
	}
}

// In a bucket it is as in a folder: the first one stays, what is killed goes on, and the files are the same.
func TestAnArchiveInABucket(t *testing.T) {
	server := kit.StartS3(t)

	in, err := store.Open(t.Context(), server.URL("of/one"))
	if err != nil {
		t.Fatal(err)
	}
	beside := store.Folder(t.TempDir())
	ids, ends := kept(t, in, 4, 3)
	kept(t, beside, 4, 3)
	totals := verified(t, beside)
	mustMerge(t, beside, ends[:2]...)
	want := files(t, beside)

	killed := errors.New("killed")

	for steps := 0; ; steps = 0 { // it takes one more step each time
		err := archive.Merge(t.Context(), stepping{in, func() error {
			if steps++; steps > 1 {
				return killed
			}

			return nil
		}}, ends[0])
		if got := verified(t, in); !reflect.DeepEqual(got, totals) {
			t.Fatalf("the archive has %+v, want %+v", got, totals)
		}

		if err == nil {
			break
		}

		if !errors.Is(err, killed) {
			t.Fatal(err)
		}
	}
	mustMerge(t, stepping{in, func() error { mustMerge(t, in, ends[1]); return nil }}, ends[1])

	for name, content := range want {
		if got, err := fs.ReadFile(in, name); err != nil || string(got) != content {
			t.Errorf("%s: %d bytes, want %d: %v", name, len(got), len(content), err)
		}
	}
	count := 0

	for _, folder := range []string{"payments", "records", "accounts", "manifests"} {
		days, err := fs.ReadDir(in, folder)
		for _, day := range days {
			found, wrong := fs.ReadDir(in, folder+"/"+day.Name())
			err = errors.Join(err, wrong)
			count += len(found)
		}

		if err != nil {
			t.Fatal(err)
		}
	}

	if count != len(want) {
		t.Errorf("%d files, want %d", count, len(want))
	}

	if proofs, err := archive.Prove(in, ids[0]); err != nil || len(proofs) != 1 {
		t.Error(proofs, err)
	}

	for name, size := range map[string]int{"x/whole": 5 << 20, "x/in-parts": 20 << 20} {
		for i, content := range []string{"a", "b"} {
			half := errors.New("half")

			write := func(file io.Writer) error {
				_, err := io.WriteString(file, strings.Repeat(content, size))
				return err
			}
			if _, err := in.Put(t.Context(), "x/half", func(file io.Writer) error {
				return errors.Join(write(file), half)
			}); !errors.Is(err, half) {
				t.Error(err)
			}

			created, err := in.Put(t.Context(), name, write)
			if got, wrong := fs.ReadFile(in, name); err != nil || wrong != nil || created != (i == 0) ||
				len(got) != size || got[size-1] != 'a' {
				t.Errorf("%s: put %d: %v %v %v", name, i, created, err, wrong)
			}
		}
	}

	if found, err := fs.ReadDir(in, "x"); err != nil || len(found) != 2 {
		t.Error(found, err)
	}

	server.Kill()

	if days, err := archive.DayEnds(in); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a bucket that is away: %v %v", days, err)
	}

	if _, err := fs.Stat(in, ends[0].File("payments")); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a bucket that is away: %v", err)
	}
}

// What a day's file brings, of quiet minutes and of busy ones.
func TestAMergedDayIsSmall(t *testing.T) {
	archive.SetGroupRows(wholeGroup)
	defer archive.SetGroupRows(smallGroup)

	for _, payments := range []int{10, 2000} {
		in := store.Folder(t.TempDir())
		_, ends := kept(t, in, 20, payments)
		before := files(t, in)
		mustMerge(t, in, ends[0])
		after := files(t, in)

		for _, folder := range []string{"payments", "manifests"} {
			weigh := func(of map[string]string) (bytes int) {
				for name, content := range of {
					if strings.HasPrefix(name, folder+"/day="+ends[0].Day) {
						bytes += len(content)
					}
				}

				return bytes
			}
			if b, a := weigh(before), weigh(after); a > b {
				t.Errorf("%s: %d bytes, and %d before", folder, a, b)
			} else {
				t.Logf("%d payments a segment, 20 segments: %s have %d bytes, and had %d", payments, folder, a, b)
			}
		}
	}
}

// Days have several row groups in most of these tests.
const smallGroup = 5

var wholeGroup = archive.SetGroupRows(smallGroup)
