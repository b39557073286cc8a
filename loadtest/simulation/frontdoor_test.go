package simulation

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// open starts a front door, and waits for it.
func (s *scenario) open() *service {
	s.t.Helper()
	s.startProducer(len(s.doors))
	door := s.services[len(s.services)-1]
	s.ready(door)

	return door
}

// askAt makes a request to a front door as a caller, which waits for an outcome.
func (s *scenario) askAt(door, as, method, path, body string) (code int, text string) {
	header := http.Header{"Authorization": {"Bearer " + s.keys[as]}, "Prefer": {"wait=30"}}
	return s.request(s.ends, time.Minute, method, door+path, header, body)
}

// A hold expires, and no engine says so. Two front doors compare their clocks with the ledger's at
// different times. Once one of them has called the payment rejected, none
// calls it reserved.
func TestNoFrontDoorGoesBackWhenAHoldExpires(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.open()
		time.Sleep(500 * time.Millisecond) // the doors ask the ledger once a second
		s.open()
		id := pix.NewEndToEndID("10000001", time.Now(), s.random)
		payer, payee := pix.Account{ISPB: "10000001", Branch: "0001", Number: "1"},
			pix.Account{ISPB: "10000002", Branch: "0001", Number: "1"}

		hold := ledger.AppendReserve(nil, id, pix.Content{Payer: payer, Payee: payee, AmountCentavos: 1}, 5)
		if _, err := s.world.ledger.Connect(nil).CreateTransfers(hold); err != nil {
			s.t.Fatal(err)
		}

		statuses := func() (said [2]string) {
			for i, door := range s.doors {
				var state struct{ Status string }

				_, text := s.askAt(door, keys.CentralBank, http.MethodGet, "/v1/payments/"+id.String(), "")
				kit.Must(s.t, json.Unmarshal([]byte(text), &state))
				said[i] = state.Status
			}

			return said
		}
		for said, end := statuses(), time.Now().Add(10*time.Second); time.Now().Before(end); said = statuses() {
			if said == [2]string{"rejected", "reserved"} {
				s.t.Fatal("one front door says rejected, and the other after it reserved")
			}
			time.Sleep(20 * time.Millisecond)
		}

		if said := statuses(); said != [2]string{"rejected", "rejected"} {
			s.t.Errorf("after the hold has expired: %v", said)
		}
	})
}

// The front door's clock is a second ahead. What was before an instant is not told until the ledger's has passed it.
func TestADayEndsByTheLedgersClock(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.open().setOffset(time.Second)

		for range 20 {
			time.Sleep(300 * time.Millisecond)
			until := time.Now().Add(500 * time.Millisecond)
			path := fmt.Sprintf("/v1/participants/10000001/statements/%v?until=%s", pix.DayOf(until),
				until.UTC().Format(time.RFC3339Nano))

			if code, said := s.askAt(s.doors[0], "10000001", http.MethodGet, path, ""); code != http.StatusConflict ||
				!strings.Contains(said, "unfinished-day") {
				s.t.Errorf("%s: %d %s", path, code, said)
			}
		}
	})
}

// A transaction hangs while the broker dies, so the end of its partition has records that nobody may
// read. The front door must not take them for orders that wait: it would be shut for good.
func TestAnAbortedTransactionShutsNoDoor(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		door := s.open()
		s.send("plain", 20, 100).wait(1) // into every partition
		over := make(chan struct{})
		go func() {
			defer close(over)
			hangTransaction(s.world, nil, s.random, 5*time.Second)
		}()
		time.Sleep(2 * time.Second)
		s.broker.kill(500 * time.Millisecond)
		<-over
		s.pass(70*time.Second, 80*time.Second) // the timeout of the transaction is over
		s.eventually("nothing left to take", func() bool { return s.metric(door, "pix_untaken_seconds") == 0 })

		const payment = `{"payer": {"ispb": "10000001", "branch": "0001", "number": "1"}, "payee": {"ispb": "10000002", "branch": "0001", "number": "1"}, "amount_centavos": 2}`
		if code, said := s.askAt(s.doors[0], "10000001", http.MethodPost, "/v1/payments",
			payment); code != http.StatusOK {
			s.t.Errorf("a payment after the transaction: %d %s", code, said)
		}
	})
}
