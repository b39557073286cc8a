package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/live"
	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/loadtest/room"
)

const roomPart = "room"

// How the room's page asks, as in loadtest/room/page/room.js.
const (
	pictureEvery  = time.Second
	historyEvery  = 15 * time.Second
	pictureWithin = 5 * time.Second
)

// Bounds of waiting for the light. At a maximum it lags, because it keeps to its share of the ledger's time.
const (
	lightWithin   = 2 * time.Minute
	catchUpWithin = 15 * time.Minute
)

// Room is what the control room showed to one page while payments settled.
type Room struct {
	Pictures      int     // that the page read
	LagMedian     float64 // of the light, in seconds, by the pictures of the run
	LagMost       float64
	CaughtUpAfter float64 // seconds from the last outcome until the light was green and had checked it
	Checked       int64   // payments, by the light
	BeganAgain    int     // how often the light lost its place; what it had not checked by then it never checks
	CPUMicros     float64 // of the room until then, for each payment
}

// watcher reads the room's picture as its page does.
type watcher struct {
	base, token string
	historyAt   time.Time // when it last asked for the history
	lags        []float64 // seconds
	since       time.Time // from when on the light has checked all
	beganAgain  int
	ended       chan struct{}
	endedAt     time.Time
	failed      chan error // what watch returned
}

// look asks for one picture. A red light is an error: the money would be wrong.
func (w *watcher) look(ctx context.Context) (light live.Light, err error) {
	ctx, cancel := context.WithTimeout(ctx, pictureWithin)
	defer cancel()
	url := w.base + "/api/picture"
	if time.Since(w.historyAt) > historyEvery {
		w.historyAt = time.Now()
	} else {
		url += "?history=no"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return light, err
	}
	request.Header.Set("Authorization", "Bearer "+w.token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return light, fmt.Errorf("the room did not answer: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return light, fmt.Errorf("the room's answer ended early: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return light, fmt.Errorf("the room answered %s: %.500s", response.Status, body)
	}
	var picture room.Picture
	if err := json.Unmarshal(body, &picture); err != nil {
		return light, fmt.Errorf("the room's answer is not a picture: %w", err)
	}
	if picture.Light.Colour == live.Red {
		return light, fmt.Errorf("the light is red: %s", picture.Light.Text)
	}
	if picture.Light.Since.After(w.since) {
		w.since = picture.Light.Since
		w.beganAgain++
	}
	return picture.Light, nil
}

// watch looks once a second until end is called, and once more.
func (w *watcher) watch(ctx context.Context) error {
	tick := time.NewTicker(pictureEvery)
	defer tick.Stop()
	for last := false; ; {
		light, err := w.look(ctx)
		if err != nil {
			return err
		}
		w.lags = append(w.lags, light.BehindSeconds)
		if last {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.ended:
			last = true
		case <-tick.C:
		}
	}
}

// await looks until the light is green and has checked all that happened before an instant.
func (w *watcher) await(ctx context.Context, to time.Time, within time.Duration) (light live.Light, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("not green within %v", within))
	defer cancel()
	tick := time.NewTicker(pictureEvery)
	defer tick.Stop()
	for {
		latest, err := w.look(ctx)
		if err == nil {
			light = latest
		}
		if err == nil && light.Colour == live.Green && light.CheckedTo.After(to) {
			return light, nil
		}
		if err != nil && ctx.Err() == nil {
			return light, err
		}
		select {
		case <-ctx.Done():
			return light, fmt.Errorf("the light is %s: %s: %w", light.Colour, light.Text, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// openPage waits until the room's light is green, then watches until end is called.
func openPage(ctx context.Context, s *stack.Stack) (*watcher, error) {
	if err := s.WaitReady(ctx, stack.Room); err != nil {
		return nil, err
	}
	address, err := s.RoomURL()
	if err != nil {
		return nil, err
	}
	w := &watcher{}
	w.base, w.token, _ = strings.Cut(address, "/#token=")
	if _, err := w.await(ctx, time.Now(), lightWithin); err != nil {
		return nil, err
	}
	w.open(ctx)
	return w, nil
}

// open begins to watch. What the light did until now does not count.
func (w *watcher) open(ctx context.Context) {
	w.beganAgain = 0
	w.ended, w.failed = make(chan struct{}), make(chan error, 1)
	go func() { w.failed <- w.watch(ctx) }()
}

// end takes the last picture of the run, after the last outcome. It is called once.
func (w *watcher) end() error {
	w.endedAt = time.Now()
	close(w.ended)
	if err := <-w.failed; err != nil {
		return fmt.Errorf("the run is not valid: %w", err)
	}
	return nil
}

// catchUp waits until the light has checked all that happened before end, and returns what the page saw.
func (w *watcher) catchUp(ctx context.Context) (*Room, error) {
	light, err := w.await(ctx, w.endedAt, catchUpWithin)
	if err == nil && light.Checked == 0 {
		err = errors.New("the room's light has checked no payment")
	}
	if err != nil {
		return nil, fmt.Errorf("the run is not valid: %w", err)
	}
	lags := slices.Sorted(slices.Values(w.lags))
	return &Room{Pictures: len(lags), LagMedian: lags[len(lags)/2], LagMost: lags[len(lags)-1],
		CaughtUpAfter: time.Since(w.endedAt).Seconds(), Checked: light.Checked, BeganAgain: w.beganAgain}, nil
}

// roomMicros is the CPU of the room since a sample, for each payment.
func roomMicros(processes []meter.Process, data string, since meter.Sample, payments int) (float64, error) {
	now, err := meter.Read(processes, data)
	if err != nil {
		return 0, err
	}
	for _, cost := range meter.Costs(processes, since, now, payments) {
		if cost.Process == stack.Room {
			return cost.CPUMicroseconds, nil
		}
	}
	return 0, errors.New("the room does not run")
}

// roomTable shows what the control room costs, and how well its light follows.
func (r *Result) roomTable() report.Table {
	table := report.Table{Title: "The maximum beside the control room, and a page that reads its picture each second",
		Head: []string{"", "settled/s", "least", "most", "of that without", "room CPU µs", "until caught up", "lag p50 s", "lag max s", "caught up after s", "checked", "began again"},
		Note: "medians of the runs; CPU of the room for each payment, until the last outcome and until its light had checked all; lag of the light while payments settled; checked: share of the payments; less than all if the light lagged so far that it began again"}
	without := 0.0
	for _, row := range r.Rows {
		if row.Part != roomPart || len(row.Verdicts) == 0 {
			continue
		}
		settled := perSecond.spread(row)
		cells := []string{row.Name, fmt.Sprintf("%.0f", settled.median), fmt.Sprintf("%.0f", settled.min), fmt.Sprintf("%.0f", settled.max)}
		if row.Figures[roomFigures] == nil {
			without = settled.median
			table.Add(append(cells, "", "", "", "", "", "", "", "")...)
			continue
		}
		share := ""
		if without > 0 {
			share = percent(settled.median / without)
		}
		of := func(name string) float64 { return row.spread(roomFigures, name).median }
		table.Add(append(cells, share, ms(row.spread(cpuFigures, stack.Room).median), ms(of("cpu_us_until_caught_up")),
			ms(of("lag_p50_s")), ms(of("lag_max_s")), ms(of("caught_up_after_s")), percent(of("checked_share")), fmt.Sprintf("%.0f", of("began_again")))...)
	}
	return table
}
