package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/liquida/liquida/deploy/ledgertest"
	"github.com/liquida/liquida/deploy/link"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
)

// keyed is a bank that has just joined, and producers that ask for keys.
type keyed struct {
	t           *testing.T
	bank        pix.ISPB
	centralBank string // as it is sent
	doors       []*program
	broker      *kit.Broker
	acts        atomic.Int64
}

func startKeyed(t *testing.T, l *ledgertest.Server, doors int, env ...string) *keyed {
	t.Helper()
	folder := t.TempDir()

	digests := filepath.Join(folder, "digests")
	if err := keys.Make(filepath.Join(folder, "keys"), digests, nil); err != nil {
		t.Fatal(err)
	}

	key, err := keys.Read(filepath.Join(folder, "keys"), keys.CentralBank)
	if err != nil {
		t.Fatal(err)
	}
	openRegister(t, connect(t, l))
	k := &keyed{t: t, bank: ownBanks().Payer.ISPB, centralBank: "Bearer " + key}
	b := startBroker(t)

	k.broker = b
	for range doors {
		p := startProgram(t, b, l, append(env, "HTTP_KEYS_FILE="+digests)...)
		p.AwaitNeed("kafka", false)
		p.AwaitNeed("register", false)
		k.doors = append(k.doors, p)
	}
	k.act(k.centralBank, `{"act": "register"}`, 200)

	return k
}

// act does an act about the bank at the first door.
func (k *keyed) act(as, body string, want int) (text string) {
	k.t.Helper()
	path := fmt.Sprintf("/v1/participants/%s/acts/%s-%d", k.bank, k.bank, k.acts.Add(1))
	kit.Await(k.t, "the ledger", func() (bool, string) {
		var code int
		code, _, _, text = k.doors[0].as(as, "PUT", path, body)
		return code == want, text
	})

	return text
}

func (k *keyed) name(as, key string) { k.t.Helper(); k.act(as, about("name-key", key), 200) }

func about(act, key string) string {
	return fmt.Sprintf(`{"act": %q, "digest": "%x"}`, act, keys.DigestOf(key))
}

// asks returns the status of a question with a key.
func (k *keyed) asks(door *program, key string) int {
	code, _, _, _ := door.as("Bearer "+key, "GET", "/v1/participants/"+string(k.bank), "")
	return code
}

func (k *keyed) await(door *program, key string, want int) {
	k.t.Helper()
	began := time.Now()
	kit.Await(k.t, "the register", func() (bool, string) {
		code := k.asks(door, key)
		return code == want, fmt.Sprint(code)
	})
	k.t.Logf("after %v: %d", time.Since(began).Round(time.Millisecond), want)
}

// A bank changes its key while it works, at two front doors: no request with the new key fails, and
// in the end the old one is taken nowhere.
func TestAKeyIsRotatedUnderLoad(t *testing.T) {
	t.Parallel()
	l, _ := sharedLedger(t)
	k := startKeyed(t, l, 2)
	old, next := keys.New(string(k.bank)), keys.New(string(k.bank))
	k.name(k.centralBank, old)

	for _, door := range k.doors {
		k.await(door, old, 200)
	}
	k.name("Bearer "+old, next) // the bank itself

	for _, door := range k.doors {
		k.await(door, next, 200)
	}
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var answered atomic.Int64

	for _, door := range k.doors {
		load.Go(func() {
			for ctx.Err() == nil {
				if code := k.asks(door, next); code != 200 {
					t.Errorf("the new key gets %d", code)
				}
				answered.Add(1)
			}
		})
	}
	k.act("Bearer "+next, about("revoke-key", old), 200)

	for _, door := range k.doors {
		k.await(door, old, 401)
	}
	stop()
	load.Wait()

	if answered.Load() == 0 {
		t.Error("there was no load")
	}
	// Whoever revokes a key that nobody uses has a wrong digest, and must know it.
	if text := k.act("Bearer "+next, about("revoke-key", old), 409); !strings.Contains(text, `"field":"digest"`) {
		t.Errorf("revoked a second time: %s", text)
	}

	if _, _, _, text := k.doors[0].as("Bearer "+next, "GET", "/v1/participants/"+string(k.bank),
		""); !strings.Contains(text, fmt.Sprintf(`"keys":["%x"]`, keys.DigestOf(next))) {
		t.Errorf("the keys in use: %s", text)
	}
}

// A request whose key ends while it waits for Kafka is answered, and not cut off: nothing is silent.
func TestARevokedKeyLeavesNoRequestUnanswered(t *testing.T) {
	t.Parallel()
	a := startAsking(t, "PUBLISH_TIMEOUT=20s")
	door := a.doors[0]
	asked := a.ask(a.bank)
	live, end := a.follow("")
	defer end()
	a.told(live, "question")
	one := keys.New(string(a.bank))
	a.name(a.centralBank, one)
	a.await(door, one, 200)
	a.broker.Stop()

	payment := fmt.Sprintf(`{"payer": {"ispb": %q, "branch": "0001", "number": "1"},
		"payee": {"ispb": "10000002", "branch": "0001", "number": "1"}, "amount_centavos": 1}`, a.bank)
	sent := map[string]string{
		"/v1/payments":    payment,
		a.path("answers"): fmt.Sprintf(`{"answers": [{"value": %q, "seal": %q}]}`, a.valueOf(asked, ""), sealOf),
	}
	var waiting sync.WaitGroup

	for path, body := range sent {
		waiting.Go(func() {
			response := door.ofBank(t.Context(), one, "POST", path, strings.NewReader(body)) //nolint:bodyclose // ofBank closes it

			text, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != 503 || !strings.Contains(string(text), "unknown-fate") ||
				!strings.Contains(string(text), "key is in use no more") {
				t.Errorf("%s: %s %s, %v", path, response.Status, text, err)
			}
		})
	}
	buffered := regexp.MustCompile(`(?m)^pix_kafka_buffered_produce_records_total{client_id="producer.*`)
	kit.Await(t, "both to wait for Kafka", func() (bool, string) {
		records := strings.Join(buffered.FindAllString(door.metrics(), -1), "\n")
		return strings.Count(records+"\n", "} 1\n") == 2, records
	})
	a.act(a.centralBank, about("revoke-key", one), 200)
	waiting.Wait()
}

// Everything that a key has begun ends when it is revoked, and when nobody knows if it is: streams,
// waits, and a batch whose next line does not come.
func TestARevokedKeyEndsWhatItHasBegun(t *testing.T) {
	t.Parallel()
	l, toLedger, behindLink := linkedLedger(t)
	k := startKeyed(t, l, 1, behindLink)
	door := k.doors[0]
	door.awaitSettlements()
	begin := func(key string) (ended func() (batch string)) {
		t.Helper()
		k.await(door, key, 200)
		all := map[string]io.Reader{}
		open := func(name, method, path string, body io.Reader) {
			response := door.ofBank(t.Context(), key, method, path, body) //nolint:bodyclose // ofBank closes it
			if response.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s", name, response.Status)
			}
			all[name] = response.Body
		}
		open("settlements", "GET", "/v1/settlements?participant="+string(k.bank), http.NoBody)
		open("states", "GET", "/v1/payments/"+pix.NewEndToEndID(k.bank, time.Now(), random).String()+"/events",
			http.NoBody)
		lines, writer := io.Pipe()
		t.Cleanup(func() { writer.Close() })
		go func() { _, _ = io.WriteString(writer, "{}\n") }() // so that the response begins
		open("batch", "POST", batchPath, lines)

		return func() (batch string) {
			t.Helper()
			began := time.Now()

			for name, body := range all {
				text, err := io.ReadAll(body)
				t.Logf("%s ended after %v (%v)", name, time.Since(began).Round(time.Millisecond), err)

				if name == "batch" {
					batch = string(text)
				}
			}

			return batch
		}
	}
	one := keys.New(string(k.bank))
	k.name(k.centralBank, one)
	ended := begin(one)
	k.act(k.centralBank, about("revoke-key", one), 200)
	scanner := bufio.NewScanner(strings.NewReader(ended()))

	var last struct {
		Line    int
		Problem struct {
			Status int
			Detail string
		}
	}
	for scanner.Scan() {
		if err := json.Unmarshal(scanner.Bytes(), &last); err != nil {
			t.Fatal(err)
		}
	}

	if last.Line != 2 || last.Problem.Status != 401 ||
		!strings.Contains(last.Problem.Detail, "neither this line nor what follows was sent") {
		t.Errorf("the batch ends with %+v", last)
	}

	if code := k.asks(door, one); code != 401 {
		t.Errorf("the revoked key gets %d", code)
	}

	// While the register cannot be read, no bank's key is trusted, and the central bank's is.
	two := keys.New(string(k.bank))
	k.name(k.centralBank, two)
	ended = begin(two)
	ofCentralBank := door.send(t.Context(), "GET", "/v1/settlements?participant="+string(k.bank), "", "Authorization",
		k.centralBank)
	door.asIs = true
	toLedger.Set(link.Cut, 0)
	acted := make(chan string, 1)
	go func() {
		defer close(acted)
		path := fmt.Sprintf("/v1/participants/%s/acts/%s-0", k.bank, k.bank)
		code, _, problem, _ := door.as("Bearer "+two, "PUT", path, about("revoke-key", one))
		acted <- fmt.Sprint(code, " ", problem.Type)
	}()
	ended()

	if got := <-acted; got != "503 urn:liquida:problem:ledger-away" {
		t.Errorf("an act that waits gets %q", got)
	}

	if code, header, problem,
		text := door.as("Bearer "+two, "GET", "/v1/participants/"+string(k.bank), ""); code != 503 ||
		problem.Type != "urn:liquida:problem:register-away" || header.Get("Retry-After") == "" {
		t.Errorf("%d %s", code, text)
	}

	if again := door.send(t.Context(), "GET", "/v1/settlements?participant="+string(k.bank), "", "Authorization",
		k.centralBank); ofCentralBank.StatusCode != 200 || again.StatusCode != 200 {
		t.Errorf("the central bank gets %d", again.StatusCode)
	}
	toLedger.Set(link.Whole, 0)
	k.await(door, two, 200)
}

// Whoever has stolen a key of a suspended bank names no other one. So the central bank comes to an end.
func TestASuspendedBankNamesNoKeys(t *testing.T) {
	t.Parallel()
	l, _ := sharedLedger(t)
	k := startKeyed(t, l, 1)
	stolen, theirs := keys.New(string(k.bank)), keys.New(string(k.bank))
	k.name(k.centralBank, stolen)
	k.await(k.doors[0], stolen, 200)
	k.act(k.centralBank, `{"act": "suspend"}`, 200)

	if text := k.act("Bearer "+stolen, about("name-key", keys.New(string(k.bank))), 409); !strings.Contains(text,
		"suspended") || !strings.Contains(text, `"field":"digest"`) {
		t.Errorf("%s", text)
	}
	k.name(k.centralBank, theirs)
	k.await(k.doors[0], theirs, 200)
	k.act("Bearer "+theirs, about("revoke-key", stolen), 200)
	k.await(k.doors[0], stolen, 401)
	k.act(k.centralBank, `{"act": "resume"}`, 200)
	k.name("Bearer "+theirs, keys.New(string(k.bank)))
}

// Whatever a bank names, it calls as itself only; and it has at most eight keys in use.
func TestAKeyIsThatOfItsHolderAlone(t *testing.T) {
	t.Parallel()
	l, _ := sharedLedger(t)
	k := startKeyed(t, l, 1)
	door, victim := k.doors[0], k.bank
	theirs := keys.New(string(victim))
	k.name(k.centralBank, theirs)
	k.bank = ownBanks().Payer.ISPB
	k.act(k.centralBank, `{"act": "register"}`, 200)
	own := keys.New(string(k.bank))
	k.name(k.centralBank, own)
	k.await(door, own, 200)
	k.name("Bearer "+own, theirs) // does no harm

	for key, want := range map[string]int{theirs: 403, string(k.bank) + theirs[8:]: 401,
		string(victim) + own[8:]: 401} {
		if code := k.asks(door, key); code != want {
			t.Errorf("%.9s… gets %d, want %d", key, code, want)
		}
	}

	if code, _, _, text := door.as("Bearer "+own, "PUT", "/v1/participants/"+string(victim)+"/acts/theft",
		about("revoke-key", theirs)); code != 403 {
		t.Errorf("another bank's key: %d %s", code, text)
	}

	if code, _, _, _ := door.as("Bearer "+theirs, "GET", "/v1/participants/"+string(victim), ""); code != 200 {
		t.Errorf("its holder gets %d", code)
	}

	var more []string
	for range 6 { // own, theirs, and these
		more = append(more, keys.New(string(k.bank)))
		k.name("Bearer "+own, more[len(more)-1])
	}

	ninth := keys.New(string(k.bank))
	if text := k.act("Bearer "+own, about("name-key", ninth), 409); !strings.Contains(text, "revoke one") {
		t.Errorf("%s", text)
	}
	k.act("Bearer "+own, about("revoke-key", more[0]), 200)
	k.name("Bearer "+own, ninth)
	k.await(door, ninth, 200)

	for name, digest := range map[string]string{"short": "ab", "upper": strings.Repeat("AB", 24),
		"no hex": strings.Repeat("xy", 24), "nothing": "", "zero": strings.Repeat("0", 48)} {
		code, _, problem, text := door.as(k.centralBank, "PUT", "/v1/participants/"+string(k.bank)+"/acts/bad",
			fmt.Sprintf(`{"act": "name-key", "digest": %q}`, digest))
		if code != 422 || problem.Field != "digest" || problem.Rule == "" {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	// The bank's last key: the response to who revokes it comes.
	for _, key := range append(more[1:], ninth, theirs) {
		k.act("Bearer "+own, about("revoke-key", key), 200)
	}

	path := fmt.Sprintf("/v1/participants/%s/acts/last", k.bank)
	for unknown := false; ; unknown = true {
		code, _, problem, text := door.as("Bearer "+own, "PUT", path, about("revoke-key", own))
		if problem.Type == web.Kind("unknown-fate") { // a slow ledger: the act is repeated
			continue
		}

		done := unknown && code == 401
		if !done && (code != 200 || strings.Contains(text, `"keys"`)) {
			t.Errorf("its own last key: %d %s", code, text)
		}

		break
	}
	k.await(door, own, 401)
}
