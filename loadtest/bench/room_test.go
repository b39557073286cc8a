package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/live"
	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/loadtest/room"
	"github.com/liquida/liquida/loadtest/room/page"
)

// The ratio is of the room alone only if nothing else differs.
func TestRowsOfTheRoomDifferByTheRoom(t *testing.T) {
	config := everything
	config.Parts = []string{roomPart}
	rows := config.rows()
	if len(rows) != 2 || rows[0].room || !rows[1].room {
		t.Fatalf("the rows are %+v: one without the room, then one with it", rows)
	}
	with := rows[1]
	if !strings.Contains(with.differs(), "control room") || rows[0].differs() != "" {
		t.Errorf("%q and %q are said to differ", rows[0].differs(), with.differs())
	}
	with.name, with.room = rows[0].name, false
	if !reflect.DeepEqual(with, rows[0]) {
		t.Errorf("%+v and %+v differ by more than the room", rows[0], with)
	}
}

// A page that asked less often would make the room look cheaper than it is.
func TestWatcherAsksAsOftenAsThePage(t *testing.T) {
	script, err := page.Files.ReadFile("room.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("const pollMilliseconds = %d;", pictureEvery.Milliseconds()),
		fmt.Sprintf("started - history.at > %d;", historyEvery.Milliseconds()),
		fmt.Sprintf("AbortSignal.timeout(body ? 30000 : %d)", pictureWithin.Milliseconds()),
		"api/picture${all ? '' : '?history=no'}",
	} {
		if !bytes.Contains(script, []byte(want)) {
			t.Errorf("room.js has no %q", want)
		}
	}
}

// lightsOf serves pictures with these lights, the last one again and again.
func lightsOf(t *testing.T, lights ...live.Light) (w *watcher, asked *[]string) {
	t.Helper()
	asked = &[]string{}
	var served atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer a-token" {
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		*asked = append(*asked, r.URL.String()) // the watcher asks once at a time
		n := min(int(served.Add(1)), len(lights))
		_ = json.NewEncoder(w).Encode(room.Picture{Light: lights[n-1]}) // what is missing shows below
	}))
	t.Cleanup(server.Close)
	return &watcher{base: server.URL, token: "a-token"}, asked
}

func TestWatcherSeesTheLightLagAndCatchUp(t *testing.T) {
	far := time.Now().Add(time.Hour)
	before, anew := far.Add(-2*time.Hour), time.Now()
	w, asked := lightsOf(t,
		live.Light{Colour: live.Green, Since: before, CheckedTo: far}, // before the payments
		live.Light{Colour: live.Amber, Since: before, BehindSeconds: 3, Checked: 5},
		live.Light{Colour: live.Amber, Since: before, BehindSeconds: 7, Checked: 40},
		live.Light{Colour: live.Green, Since: anew, BehindSeconds: 1, Checked: 90, CheckedTo: anew}, // not yet past the end
		live.Light{Colour: live.Green, Since: anew, Checked: 100, CheckedTo: far})
	if _, err := w.await(t.Context(), time.Now(), time.Minute); err != nil {
		t.Fatal(err)
	}
	w.open(t.Context())
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	seen, err := w.catchUp(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if seen.Pictures < 2 || seen.LagMost != 7 || seen.Checked != 100 || seen.BeganAgain != 1 {
		t.Errorf("the page saw %+v", seen)
	}
	if want := []string{"/api/picture", "/api/picture?history=no"}; !slices.Equal((*asked)[:2], want) {
		t.Errorf("it asked for %q first, not for %q", (*asked)[:2], want)
	}
}

// A run beside a room that is away, or that saw wrong money, gives no figure.
func TestWatcherTakesNoOtherAnswer(t *testing.T) {
	red, _ := lightsOf(t, live.Light{Colour: live.Red, Text: "E1: paid twice"})
	stranger, _ := lightsOf(t, live.Light{Colour: live.Green})
	stranger.token = "another"
	for w, want := range map[*watcher]string{
		red:      "the light is red: E1: paid twice",
		stranger: "401",
		{base: "http://127.0.0.1:1", token: "a-token"}: "did not answer",
	} {
		w.open(t.Context())
		if err := w.end(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "not valid") {
			t.Errorf("the error is %v: it must say %q", err, want)
		}
	}
	blind, _ := lightsOf(t, live.Light{Colour: live.Green, CheckedTo: time.Now().Add(time.Hour)})
	if _, err := blind.catchUp(t.Context()); err == nil || !strings.Contains(err.Error(), "checked no payment") {
		t.Errorf("a light that checks nothing: %v", err)
	}
	amber, _ := lightsOf(t, live.Light{Colour: live.Amber, Text: "blind"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := amber.await(ctx, time.Now(), time.Hour); err == nil {
		t.Error("an amber light is taken for green")
	}
}

func TestRoomTableShowsTheRatioAndTheCost(t *testing.T) {
	without, with := Row{Part: roomPart, Name: "no room"}, Row{Part: roomPart, Name: "room and page"}
	for _, rate := range []float64{20_000, 19_000, 21_000} {
		without.add(Run{Payments: 1000, PerSecond: rate})
		with.add(Run{Payments: 1000, PerSecond: rate * 0.97, Costs: []meter.Cost{{Process: stack.Room, CPUMicroseconds: 4.5}},
			Room: &Room{Pictures: 10, LagMedian: 1.5, LagMost: 3.5, CaughtUpAfter: 6.5, Checked: 1000, BeganAgain: 2, CPUMicros: 5.5}})
	}
	for _, test := range []struct {
		rows  []Row
		share string
	}{{[]Row{without, with}, "97.0 %"}, {[]Row{with}, ""}} {
		table := (&Result{Rows: test.rows}).roomTable()
		want := []string{"room and page", "19400", "18430", "20370", test.share, "4.5", "5.5", "1.5", "3.5", "6.5", "100.0 %", "2"}
		if got := table.Rows[len(table.Rows)-1]; !slices.Equal(got, want) {
			t.Errorf("the row is %q, not %q", got, want)
		}
		for _, row := range table.Rows {
			if len(row) != len(table.Head) {
				t.Errorf("%q has not the columns of %q", row, table.Head)
			}
		}
	}
}
