//go:build browser

package room_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/live"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/room"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

var (
	rate   = flag.Int("rate", 20_000, "payments a second of much load")
	strict = flag.Bool("strict", false,
		"the light must be green all along, and red within two seconds: for a quiet machine")
)

// redWithin is how long a planted bug may stay unseen, with -strict.
const redWithin = 2 * time.Second

// house is a clearing house with a control room.
type house struct {
	*stack.Stack
	t     *testing.T
	base  string // http://host:port
	token string
	asks  *load.Callers // as the room's owner
}

func openHouse(t *testing.T) *house {
	t.Helper()
	binaries := t.TempDir()
	root, err := stack.RepoRoot()
	kit.Must(t, err)
	kit.Must(t, stack.Build(t.Context(), root, binaries))
	folder, err := os.MkdirTemp("", "liquida-room-") //nolint:usetesting // the logs of a failed test must stay
	kit.Must(t, err)

	s, err := stack.Start(t.Context(), stack.Config{
		Dir: folder, BinDir: binaries, Ports: stack.FreePorts, Engines: 2, CacheGrid: "256MiB", Room: true, Cuts: true,
		ReadyWithin: 5 * time.Minute,
		Env: map[string][]string{
			stack.Engine: {"ENGINE_DEADLINE=8s", "ENGINE_PENDING_TIMEOUT=14s", "SHUTDOWN_TIMEOUT=4s"},
		},
	})
	if err != nil {
		t.Fatalf("%v; logs are in %s", err, folder)
	}
	t.Cleanup(func() {
		stopped := s.Stop(context.Background())

		if t.Failed() {
			t.Logf("logs are in %s", filepath.Join(folder, "logs"))
			return
		}
		kit.Must(t, errors.Join(stopped, os.RemoveAll(folder)))
	})
	address, err := s.RoomURL()
	kit.Must(t, err)

	base, token, found := strings.Cut(address, "/#token=")
	if !found || token == "" {
		t.Fatalf("the room's URL is %q: it must have a token in its fragment", address)
	}
	h := &house{s, t, base, token, load.NewCallers(base, map[string]string{stack.Room: token})}
	h.see("the room", func(room.Picture) bool { return true })

	return h
}

// waitMax is twice as long as a recovery may take.
const waitMax = 2 * time.Minute

// look returns the room's picture, without its history.
func (h *house) look() (picture room.Picture, err error) {
	answer, err := h.asks.Ask(h.t.Context(), http.MethodGet, "/api/picture?history=no", stack.Room, nil, http.StatusOK)
	if err == nil {
		err = json.Unmarshal(answer, &picture)
	}

	return picture, err
}

func (h *house) act(body string) {
	h.t.Helper()
	_, err := h.asks.Ask(h.t.Context(), http.MethodPost, "/api/acts", stack.Room, []byte(body), http.StatusAccepted)
	kit.Must(h.t, err)
}

// see waits until the picture meets a condition.
func (h *house) see(what string, met func(room.Picture) bool) room.Picture {
	h.t.Helper()
	var last room.Picture
	kit.AwaitWithin(h.t, waitMax, what, func() (bool, string) {
		picture, err := h.look()
		if err != nil {
			return false, err.Error()
		}
		last = picture
		text, _ := json.Marshal(picture)

		return met(picture), string(text)
	})

	return last
}

func settles(p room.Picture) bool {
	return p.Figures.SettledPerSecond > 0
}

func state(p room.Picture, name string) string {
	for _, process := range p.Processes {
		if process.Name == name {
			return process.State
		}
	}

	return ""
}

func allReady(p room.Picture) bool {
	return state(p, stack.EngineName(0)) == "ready" && state(p, stack.EngineName(1)) == "ready" && settles(p)
}

// tab is a page in a browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	mistakes []string // errors and exceptions of the page
	requests []string
}

// openBrowser starts a browser with a fresh profile. It ends with the test.
func openBrowser(t *testing.T) context.Context {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true))
	allocator, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	browser, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)

	if err := chromedp.Run(browser); err != nil {
		t.Fatalf("Chromium does not start: %v", err)
	}

	return browser
}

func openTab(t *testing.T, browser context.Context, address string, width, height int64,
	actions ...chromedp.Action) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, func(event any) {
		p.mu.Lock()
		defer p.mu.Unlock()

		switch event := event.(type) {
		case *runtime.EventExceptionThrown:
			p.mistakes = append(p.mistakes, event.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			// A room that was killed is no mistake of the page.
			if event.Entry.Level == log.LevelError && event.Entry.Source != log.SourceNetwork {
				p.mistakes = append(p.mistakes, event.Entry.Text)
			}
		case *network.EventRequestWillBeSent:
			p.requests = append(p.requests, event.Request.URL)
		}
	})
	actions = append([]chromedp.Action{network.Enable(), chromedp.EmulateViewport(width, height)}, actions...)
	kit.Must(t, chromedp.Run(ctx, append(actions, chromedp.Navigate(address))...))

	return p
}

// read evaluates an expression in the page. It fails if the page does not answer.
func read[T any](p *tab, expression string) (value T) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()

	if err := chromedp.Run(ctx, chromedp.Evaluate(expression, &value)); err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}

	return value
}

// shows waits until an expression in the page is true.
func (p *tab) shows(expression string) {
	p.t.Helper()
	kit.AwaitWithin(p.t, waitMax, expression, func() (bool, string) {
		return read[bool](p, expression), read[string](p, `document.body.innerText.slice(0, 3000)`)
	})
}

// press clicks an element as soon as it is there and enabled.
func (p *tab) press(selector string) {
	p.t.Helper()
	quoted, _ := json.Marshal(selector)
	p.shows(fmt.Sprintf(`(() => { const e = document.querySelector(%s); return !!e && !e.disabled && e.checkVisibility() })()`,
		quoted))
	// A click hits a place. While the page grows, as it does when it has just been opened, another element may
	// have moved there: then nothing was pressed.
	const triesMax = 10
	for range triesMax {
		read[bool](p, fmt.Sprintf(`(() => {
			window.pressed = false;
			document.querySelector(%s).addEventListener('click', () => { window.pressed = true; }, {once: true, capture: true});
			return true;
		})()`, quoted))
		kit.Must(p.t, chromedp.Run(p.ctx, chromedp.ScrollIntoView(selector, chromedp.ByQuery),
			chromedp.Click(selector, chromedp.ByQuery)))

		if read[bool](p, `window.pressed`) {
			return
		}
	}
	p.t.Fatalf("%d clicks did not press %s", triesMax, selector)
}

// life asks for a payment's life until the page shows what it must. On a busy machine the room may not read all of it
// in its time. Then it says so, and is asked again.
func (p *tab) life(ask func(), expression string) {
	p.t.Helper()
	kit.AwaitWithin(p.t, waitMax, expression, func() (bool, string) {
		ask()
		p.shows(`!/^Reading/.test(document.getElementById('life-result').innerText)`)

		return read[bool](p, expression), read[string](p, `document.getElementById('life-result').innerText`)
	})
}

func (p *tab) right() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()

	if len(p.mistakes) > 0 {
		p.t.Errorf("the page made mistakes: %q", p.mistakes)
	}
}

// One clearing house serves all parts, in the order of a visitor's minutes.
func TestTheControlRoom(t *testing.T) {
	h := openHouse(t)
	browser := openBrowser(t)
	part := func(name string, run func(*house, context.Context)) {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			run(&house{h.Stack, t, h.base, h.token, h.asks}, browser)
			t.Logf("%.0f s", time.Since(began).Seconds())
		})
	}
	part("strangers are refused", refusals)
	part("an engine dies by a button", firstMinute)
	part("an engine freezes, is cut off, and one more comes", linksAndEngines)
	part("the load follows its slider", slider)
	part("a bank is silent", silentBank)
	part("a payment's life", oneLife)
	part("hostile bytes are text", hostileBytes)
	part("the report opens offline", offlineReport)
	part("much load", muchLoad)
	part("the room dies", roomDies)
	part("a planted bug", plantedBug)
}

func refusals(h *house, browser context.Context) {
	t := h.t
	for _, body := range []string{`{"act":"kill","target":"../../1"}`, `{"act":"kill","target":"room"}`,
		`{"act":"load","ratePerSecond":30001}`} { // TestDoor has the others
		_, err := h.asks.Ask(t.Context(), http.MethodPost, "/api/acts", stack.Room, []byte(body), http.StatusBadRequest)
		kit.Must(t, err)
	}

	host := strings.TrimPrefix(h.base, "http://")
	for range 100 { // more than all connections of the room: they give way to whoever has the token
		connection, err := net.Dial("tcp", host)
		kit.Must(t, err)
		defer connection.Close()
		// then it may be unused for a minute
		fmt.Fprintf(connection, "GET /favicon.svg HTTP/1.1\r\nHost: %s\r\n\r\n", host)
	}
	h.asks.Close()

	if _, err := h.look(); err != nil {
		t.Errorf("beside 100 connections without a token its owner gets %v", err)
	}

	if info, err := os.Stat(h.Log(stack.Room)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the room's log, which holds its token, has the mode %v, %v: it must be of its owner only",
			info.Mode(), err)
	}
	stranger := openTab(t, browser, h.base+"/", 1000, 800)
	stranger.shows(`!document.getElementById('key').hidden && document.getElementById('main').hidden`)
	stranger.right()
}

func (h *house) open(browser context.Context) *tab {
	h.t.Helper()
	p := openTab(h.t, browser, h.base+"/#token="+h.token, 1400, 1000)
	p.shows(`!document.getElementById('main').hidden`)

	if address := read[string](p, `location.href`); strings.Contains(address, h.token) {
		h.t.Errorf("the token stays in the address bar: %s", address)
	}

	return p
}

func firstMinute(h *house, browser context.Context) {
	p := h.open(browser)
	p.shows(`document.getElementById('offer')?.textContent === 'Start 200 a second'`)
	// nothing is red
	p.shows(`document.body.dataset.state === 'idle' && document.querySelector('#settled .line.bad').getAttribute('d') === ''`)
	p.press(`#offer`)
	p.shows(`Number(document.getElementById('flows').dataset.settled) > 0`)
	p.shows(`document.getElementById('light').dataset.colour === 'green'`)
	p.shows(`document.getElementById('offer')?.textContent === 'Kill the engine'`)
	read[bool](p, `(() => {
		const light = document.getElementById('light');
		const said = () => light.dataset.colour + ': ' + document.getElementById('light-text').textContent;
		window.colours = new Map([[light.dataset.colour, said()]]);
		new MutationObserver(() => setTimeout(() => window.colours.set(light.dataset.colour, said()))).observe(light, {attributes: true});
		return true;
	})()`)
	p.press(`#offer`)
	p.shows(`!!document.querySelector('.process[data-state=dead]')`)
	p.shows(`!document.querySelector('.process[data-state=dead]')`)

	p.shows(`/engine-\d is back, ready after/.test(document.getElementById('lines').textContent)`)
	h.see("settlements", settles)
	p.shows(`document.querySelectorAll('#settled .mark.broken').length > 0`)
	p.shows(`document.getElementById('light').dataset.colour === 'green'`)
	// The light was not red. On a busy machine it may lag: then it is amber, and says so.
	for _, light := range read[[]string](p, `[...window.colours.values()]`) {
		if !strings.HasPrefix(light, "green") && (*strict || !strings.HasPrefix(light, "amber")) {
			h.t.Errorf("during a kill the light was %s", light)
		}
	}

	small := openTab(h.t, browser, h.base+"/#token="+h.token, 400, 850, emulation.SetEmulatedMedia().WithFeatures(
		[]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
	small.shows(`Number(document.getElementById('flows').dataset.settled) > 0`)

	if over := read[int](small, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
		h.t.Errorf("at 400 pixels the page is %d pixels too wide", over)
	}
	small.right()
	p.right()
}

// card is where the page shows a process.
func card(name string) string { return fmt.Sprintf(`.process[data-process="%s"]`, name) }

// linksAndEngines freezes an engine, cuts it from the broker and from the ledger, and adds an engine.
func linksAndEngines(h *house, browser context.Context) {
	p := h.open(browser)
	h.see("both engines", allReady)
	p.press(card("engine-1") + ` [data-key=freeze]`)
	p.shows(fmt.Sprintf(`document.querySelector('%s').dataset.state === 'frozen'`, card("engine-1")))
	p.press(card("engine-1") + ` [data-key=thaw]`)
	h.see("both engines thawed", allReady)

	for _, peer := range []string{stack.FromBroker, stack.FromLedger} {
		button := fmt.Sprintf(`%s [data-key=cut-%s]`, card("engine-1"), peer)
		p.press(button)
		p.shows(fmt.Sprintf(`document.querySelector('%s').getAttribute('aria-pressed') === 'true'`, button))
		h.see("the cut", func(p room.Picture) bool {
			return slices.ContainsFunc(p.Processes, func(process room.Process) bool {
				return process.Name == "engine-1" && slices.Equal(process.Cut, []string{peer})
			})
		})
		p.shows(fmt.Sprintf(`document.querySelector('%s').dataset.state !== 'ready'`, card("engine-1")))
		p.press(button)
		p.shows(fmt.Sprintf(`document.querySelector('%s').getAttribute('aria-pressed') === 'false'`, button))
		h.see("both engines after the cut from the "+peer, allReady)
	}
	// An outage does not look idle.
	for _, name := range []string{"engine-0", "engine-1"} {
		h.act(fmt.Sprintf(`{"act":"cut","target":"%s","peer":"broker"}`, name))
	}
	p.shows(`document.body.dataset.state === 'stopped' && /^Nothing has moved for [3-9] s: [\d,]+ payments wait$/.test(document.getElementById('headline').textContent)`)
	p.shows(`/cut from the broker.*waits in Kafka/.test(document.getElementById('next').textContent) && !document.getElementById('offer')`)

	for _, name := range []string{"engine-0", "engine-1"} {
		h.act(fmt.Sprintf(`{"act":"mend","target":"%s","peer":"broker"}`, name))
	}
	h.see("both engines after the outage", allReady)
	p.press(`#add`)
	p.shows(fmt.Sprintf(`document.querySelector('%s')?.dataset.state === 'ready'`, card("engine-2")))
	// A third of the partitions is its own, and it is an engine as the others: it can be cut, too.
	p.shows(fmt.Sprintf(`document.querySelectorAll('%s .partitions span').length > 0`, card("engine-2")))
	p.shows(fmt.Sprintf(`!document.querySelector('%s [data-key=cut-broker]').disabled`, card("engine-2")))

	for _, line := range []string{"engine-1 cut from the broker", "engine-1 reaches the ledger again",
		"one more engine, ready after"} {
		p.shows(fmt.Sprintf(`document.getElementById('lines').textContent.includes('%s')`, line))
	}
	h.see("settlements", settles)
	p.right()
}

// slider moves the load with the keys of a keyboard.
func slider(h *house, browser context.Context) {
	p := h.open(browser)
	before := h.see("the load", func(p room.Picture) bool { return p.Load.Running }).Load.RatePerSecond
	kit.Must(h.t, chromedp.Run(p.ctx, chromedp.ScrollIntoView(`#rate`, chromedp.ByQuery),
		chromedp.SendKeys(`#rate`, kb.PageUp, chromedp.ByQuery)))
	more := h.see("more load", func(p room.Picture) bool {
		return p.Load.Running && p.Load.RatePerSecond > before
	}).Load.RatePerSecond
	p.shows(fmt.Sprintf(`document.getElementById('rate').getAttribute('aria-valuetext') === '%.0f payments a second'`,
		more))
	p.press(`#load-stop`)
	h.see("no load", func(p room.Picture) bool { return !p.Load.Running })
	// left alone, it goes back
	p.shows(`document.getElementById('rate').getAttribute('aria-valuetext') === '200 payments a second'`)
	p.press(`#load-start`)
	h.see("200 a second", func(p room.Picture) bool { return p.Load.Running && p.Load.RatePerSecond == 200 })
	p.right()
}

func silentBank(h *house, browser context.Context) {
	p := h.open(browser)
	bank := string(sandbox.Population{Banks: 5, Customers: 5000}.Bank(2))
	row := fmt.Sprintf(`.bank[aria-label="bank %s"]`, bank)
	p.press(row + ` [data-key=silent]`)
	p.shows(fmt.Sprintf(`document.querySelector('%s [data-key=silent]').getAttribute('aria-pressed') === 'true'`, row))
	p.shows(`/AB03/.test(document.getElementById('reasons').textContent)`)
	p.press(row + ` [data-key=normal]`)
	p.shows(fmt.Sprintf(`document.querySelector('%s [data-key=normal]').getAttribute('aria-pressed') === 'true'`, row))
	p.right()
}

// settled returns a return, or a payment between banks, that was ordered and settled from now on. What was ordered
// before a room's start it does not judge.
func (h *house) settled(aReturn bool) *pixv1.SettlementReport {
	h.t.Helper()
	client := h.kafka(kgo.ConsumeTopics(stream.Payments, stream.Settlements),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	ctx, cancel := context.WithTimeout(h.t.Context(), waitMax)
	defer cancel()
	ordered := map[string]bool{}

	for ctx.Err() == nil {
		for _, record := range client.PollFetches(ctx).Records() {
			report := &pixv1.SettlementReport{}
			switch {
			case record.Topic == stream.Payments:
				ordered[string(record.Key)] = true
			case proto.Unmarshal(record.Value, report) == nil && ordered[string(record.Key)] &&
				report.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC &&
				aReturn == (report.OriginalEndToEndId != "") && report.Payer.Ispb != report.Payee.Ispb:
				return report
			}
		}
	}
	h.t.Fatal("no payment settles")

	return nil
}

func (h *house) kafka(options ...kgo.Opt) *kgo.Client {
	h.t.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(h.KafkaAddress()))...)
	kit.Must(h.t, err)
	h.t.Cleanup(client.Close)

	return client
}

func oneLife(h *house, browser context.Context) {
	p := h.open(browser)
	shows := func(report *pixv1.SettlementReport, kinds ...string) {
		h.t.Helper()
		wanted, _ := json.Marshal(kinds)
		p.life(func() {
			read[bool](p, `(() => { document.getElementById('life-id').value = ''; return true })()`)
			kit.Must(h.t, chromedp.Run(p.ctx, chromedp.SendKeys(`#life-id`, report.EndToEndId+"\r", chromedp.ByQuery)))
		}, fmt.Sprintf(`%s.every((kind) => !!document.querySelector('#life-result [data-kind="' + kind + '"]'))`, wanted))

		for _, topic := range []string{stream.Payments, stream.AuthorizationRequests, stream.AuthorizationResponses,
			stream.Settlements} {
			p.shows(fmt.Sprintf(`[...document.querySelectorAll('#life-result .place')].some((e) => /^%s \[\d+\] @ [\d ]+$/.test(e.textContent))`,
				strings.ReplaceAll(topic, ".", `\.`)))
		}
		p.shows(`/^settled/.test(document.querySelector('#life-result .verdict').textContent)`)
	}
	back := h.settled(true)
	shows(back, "return", "hold", "question", "answer", "verdict", "post", "report")
	p.shows(fmt.Sprintf(`/a return of the payment %s/.test(document.querySelector('#life-result .verdict').textContent)`,
		back.OriginalEndToEndId))
	shows(h.settled(false), "order", "hold", "question", "answer", "post", "report")
	p.right()
}

func hostileBytes(h *house, browser context.Context) {
	p := h.open(browser)
	hostile := "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>\u202e\x1b[31m"
	record := &kgo.Record{Topic: stream.Payments, Key: []byte(hostile), Value: []byte(hostile)}
	kit.Must(h.t, h.kafka().ProduceSync(h.t.Context(), record).FirstErr())
	kit.Must(h.t, chromedp.Run(p.ctx, chromedp.ScrollIntoView(`#letters`, chromedp.ByQuery)))
	p.press(`#letter-list summary`)
	p.shows(`[...document.querySelectorAll('#letter-list details')].some((d) => { d.open = true; return /onerror/.test(d.textContent) })`)

	if read[bool](p, `!!window.hacked || !!document.querySelector('main img, main script')`) {
		h.t.Error("bytes of a message became markup")
	}

	if read[bool](p, `/[\u202e\u001b]/.test(document.getElementById('letter-list').textContent)`) {
		h.t.Error("control characters of a message are not made visible")
	}
	p.right()
}

func offlineReport(h *house, browser context.Context) {
	h.see("settlements", settles)

	html, err := h.asks.Ask(h.t.Context(), http.MethodGet, "/api/report", stack.Room, nil, http.StatusOK)
	kit.Must(h.t, err)

	if bytes.Contains(html, []byte(h.token)) {
		h.t.Error("the report holds the room's token")
	}
	path := filepath.Join(h.t.TempDir(), "report.html")
	kit.Must(h.t, os.WriteFile(path, html, 0o600))
	p := openTab(h.t, browser, "file://"+path, 1400, 1000)
	p.shows(`document.body.classList.contains('frozen') && document.getElementById('headline').textContent !== ''`)
	p.shows(`document.querySelectorAll('#settled path.line')[0].getAttribute('d').length > 100 && document.querySelectorAll('#settled .mark').length > 0`)
	p.shows(`document.querySelectorAll('#lines li').length > 0 && !document.querySelector('#lines button')`)
	p.right()
	p.mu.Lock()
	defer p.mu.Unlock()

	for _, request := range p.requests {
		if request != "file://"+path {
			h.t.Errorf("the report loads %s", request)
		}
	}
}

func roomDies(h *house, browser context.Context) {
	p := h.open(browser)
	kit.Must(h.t, h.Kill(stack.Room))
	p.shows(`document.body.classList.contains('stale') && /^No answer from the room for \d+ s/.test(document.getElementById('lost').textContent)`)
	kit.Must(h.t, h.StartProcess(stack.Room))
	p.shows(`!document.body.classList.contains('stale') && document.getElementById('lost').hidden`)
	p.right()
}

func muchLoad(h *house, browser context.Context) {
	p := h.open(browser)
	h.act(fmt.Sprintf(`{"act":"load","ratePerSecond":%d}`, *rate))
	p.shows(`Number(document.getElementById('flows').dataset.settled) > 500`)
	most, behind := 0.0, 0.0

	for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(500 * time.Millisecond) {
		picture, err := h.look()
		if err != nil {
			continue
		}

		most = max(most, picture.Figures.SettledPerSecond)
		late := picture.At.Sub(picture.Light.CheckedTo).Seconds()
		behind = max(behind, late)
		if picture.Light.Colour == "red" {
			h.t.Fatalf("the light is red: %+v", picture.Light)
		}

		if picture.Light.Colour == "amber" && !strings.Contains(picture.Light.Text, "behind") &&
			!strings.Contains(picture.Light.Text, "nothing is checked") {
			h.t.Errorf("the light is %.0f s behind and says %q", late, picture.Light.Text)
		}
	}
	h.t.Logf("up to %.0f settled a second; the light was up to %.1f s behind", most, behind)
	h.act(`{"act":"load","ratePerSecond":500}`)
	h.see("the light catches up", func(p room.Picture) bool { return p.Light.Colour == "green" })
	p.right()
}

// plantedBug writes what no clearing house may write. The tests of the live audit plant the others. The room has just
// been started again, and follows from its start.
func plantedBug(h *house, browser context.Context) {
	t := h.t
	h.act(`{"act":"load","ratePerSecond":500}`)
	p := h.open(browser)
	h.see("the light before", func(p room.Picture) bool {
		return p.Light.Colour == "green" && p.Light.Checked > 0 && settles(p)
	})

	report := h.settled(false)
	report.Status, report.ReasonCode = pixv1.SettlementStatus_SETTLEMENT_STATUS_RJCT, "AC06"
	value, err := proto.Marshal(report)
	kit.Must(t, err)
	contradiction := &kgo.Record{Topic: stream.Settlements, Key: []byte(report.EndToEndId), Value: value}
	kit.Must(t, h.kafka().ProduceSync(t.Context(), contradiction).FirstErr())
	planted := time.Now()
	light := h.see("red", func(p room.Picture) bool {
		return p.Light.Colour == "red" && slices.ContainsFunc(p.Light.Findings, func(f live.Finding) bool {
			return f.Payment == report.EndToEndId
		})
	}).Light
	took := time.Since(planted)
	t.Logf("a report that contradicts: red after %.1f s: %+v", took.Seconds(), light.Findings)

	if *strict && took > redWithin {
		t.Errorf("red after %v: it must be within %v", took, redWithin)
	}
	p.shows(`document.getElementById('light').dataset.colour === 'red' && document.querySelectorAll('#findings li').length > 0 && !/centavos|\d{9}/.test(document.querySelector('#findings li span').textContent)`)
	// The first finding is told once, and nobody is asked to break more.
	p.shows(`document.querySelector('#findings button') !== null && !document.getElementById('light-text').textContent.includes(document.querySelector('#findings button').textContent)`)
	p.shows(`/the light is red/.test(document.getElementById('lines').textContent) && document.querySelectorAll('#settled .mark.broken').length > 0 && document.getElementById('offer').textContent === 'See the first payment'`)
	p.life(func() { p.press(`#offer`) }, `document.querySelectorAll('#life-result .events li').length > 0`)
	p.right()
}
