package answers

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

var (
	paid      = pix.EndToEndID([]byte("E1000000120260504120000000abcdef"))
	noon      = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	isSettled = Outcome{Settled: true}
	isSilent  = Outcome{Reason: "AB03"}
)

func millisecond(n int) time.Time { return noon.Add(time.Duration(n) * time.Millisecond) }

// of is an answer with so many centavos, if any.
func of(from, to int, status Status, outcome Outcome, centavos uint64) answer {
	return answer{Span: Span{From: millisecond(from), To: millisecond(to)}, Status: status, Outcome: outcome,
		paymentFacts: paymentFacts{AmountCentavos: centavos}}
}

// Answers that agree, and each with one thing that contradicts another.
func TestNoAnswerMayTakeBackAnEarlierOne(t *testing.T) {
	const unknown, reserved, ended = Unknown, Reserved, Ended
	none, returning := Outcome{}, func(centavos uint64) func(*answer) {
		return func(x *answer) { x.ReturnedCentavos = centavos }
	}
	settles := func(a *Judge) {
		a.reported(paid, millisecond(50), isSettled,
			&pixv1.SettlementReport{AmountCentavos: 500, Payer: &pixv1.Account{Ispb: "10000001"}})
		a.take(paid, of(90, 91, ended, isSettled, 500), nil)
	}
	with := func(x answer, change func(*answer)) answer { change(&x); return x }

	for _, c := range []struct {
		name string
		want string // what is contradicted; empty: nothing is
		tell func(a *Judge)
	}{
		{"a payment's life", "", func(a *Judge) {
			a.take(paid, of(1, 2, unknown, none, 0), nil)
			a.take(paid, of(3, 4, reserved, none, 500), nil)
			a.take(paid, of(5, 6, ended, isSettled, 500), nil)
			settles(a)
		}},
		{"answers under way at the same time come in either order", "", func(a *Judge) {
			a.take(paid, of(1, 9, ended, isSettled, 500), nil)
			a.take(paid, of(2, 10, unknown, none, 0), nil)
			a.take(paid, of(8, 12, reserved, none, 500), nil)
			settles(a)
		}},
		{"rejected by the ledger's timeout, before it", "before its hold had expired", func(a *Judge) {
			a.take(paid, with(of(3, 4, ended, isSilent, 500), func(x *answer) { x.ExpiresAt = millisecond(5) }), nil)
			a.take(paid, with(of(6, 7, ended, isSilent, 500), func(x *answer) { x.DecidedAt = millisecond(6) }), nil)
			a.reported(paid, millisecond(8), isSilent, &pixv1.SettlementReport{AmountCentavos: 500})
		}},
		{"a stream goes back", "stream's later event", func(a *Judge) {
			before := with(of(1, 5, reserved, none, 500), func(x *answer) { x.event = true })
			a.take(paid, before, nil)
			a.take(paid, with(of(1, 6, unknown, none, 0), func(x *answer) { x.event = true }), &before)
			settles(a)
		}},
		{"another end", "the end has changed", func(a *Judge) {
			a.take(paid, of(1, 2, ended, isSilent, 500), nil)
			settles(a)
		}},
		{"the report says another amount", "amount_centavos has changed", func(a *Judge) {
			a.take(paid, of(1, 2, ended, isSettled, 500), nil)
			a.reported(paid, millisecond(5), isSettled, &pixv1.SettlementReport{AmountCentavos: 5000})
		}},
		{"reported, and the ledger only decided later", "decided it after its report", func(a *Judge) {
			a.take(paid, with(of(60, 61, ended, isSettled, 500), func(x *answer) {
				x.DecidedAt = millisecond(52)
			}), nil)
			settles(a)
		}},
		{"less is given back than was reported", "100 centavos were reported", func(a *Judge) {
			a.reportedBack(paid, millisecond(95), &pixv1.SettlementReport{EndToEndId: "D1", AmountCentavos: 100})
			a.take(paid, with(of(99, 100, ended, isSettled, 500), returning(100)), nil)
			settles(a) // asked before
			a.take(paid, of(97, 100, ended, isSettled, 500), nil)
		}},
		{"given back, more and more", "", func(a *Judge) {
			a.take(paid, with(of(1, 2, ended, isSettled, 500), returning(100)), nil)
			// events do not tell
			a.take(paid, with(of(3, 4, ended, isSettled, 500), func(x *answer) { x.event = true }), nil)
			a.take(paid, with(of(5, 6, ended, isSettled, 500), returning(500)), nil)
			a.reported(paid, millisecond(5), isSettled, &pixv1.SettlementReport{AmountCentavos: 500})

			for _, part := range []*pixv1.SettlementReport{{EndToEndId: "D1", AmountCentavos: 100},
				{EndToEndId: "D2", AmountCentavos: 400}, {EndToEndId: "D1", AmountCentavos: 100}} {
				a.reportedBack(paid, millisecond(6), part)
			}
		}},
		{"ended, and never reported", "no settlement report", func(a *Judge) {
			a.take(paid, of(1, 2, ended, isSettled, 500), nil)
		}},
		{"never told of", "the API never told of it", func(*Judge) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := NewJudge(1, 0)
			if !a.Choose(paid) {
				t.Fatal("the only payment was not chosen")
			}
			c.tell(a)

			v := concluded(t, a)
			if c.want == "" && (!v.Clean || !strings.HasPrefix(v.String(), "ANSWERS CLEAN")) {
				t.Errorf("%v: %v", v, v.Contradictions)
			}

			if c.want != "" && (v.Clean || !strings.Contains(v.Contradictions[0].What, c.want)) {
				t.Errorf("%v: %v, want one %q", v, v.Contradictions, c.want)
			}
		})
	}
}

// A front door that lies is found out through its own interface: by questions, by events,
// and at the end.
func TestALyingFrontDoorIsFoundOut(t *testing.T) {
	state := func(status string) string {
		return fmt.Sprintf(`{"end_to_end_id": "%s", "status": "%s", "amount_centavos": 500}`, paid, status)
	}
	event := func(text string) string { return "event: state\ndata: " + text + "\n\n: keep-alive\n\n" }

	unknown := event(`{"status": "unknown"}`)
	for _, c := range []struct {
		name    string
		streams []string // of events; the last one from then on
		want    string
	}{
		{"honest", []string{unknown + event(state("reserved")), event(state("settled"))}, ""},
		{"an event that is cut off is none",
			[]string{unknown + "data: {", "data: " + state("reserved"), event(state("settled"))}, ""},
		{"an event goes back", []string{event(state("reserved")) + unknown + event(state("settled"))},
			"the stream's later event goes back"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var streamed atomic.Int64
			clients := clientsOf(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/events") {
					fmt.Fprint(w, c.streams[min(int(streamed.Add(1)), len(c.streams))-1])
				} else {
					fmt.Fprint(w, state("settled"))
				}
			})
			clients.accounts = nil // of the ledger
			clients.Judge.Choose(paid)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			clients.followPayment(ctx, paid)
			clients.Judge.reported(paid, time.Now(), isSettled, &pixv1.SettlementReport{AmountCentavos: 500})

			if untold := clients.Finish(ctx); untold != 0 || clients.refused.Load() != 0 {
				t.Fatalf("%d untold, %s", untold, clients.Problems(Verdict{}))
			}

			v := concluded(t, clients.Judge)
			if v.Told[toldEvents] == 0 || v.Told[toldAnswers] < 2 || v.Clean != (c.want == "") ||
				!strings.Contains(fmt.Sprint(v.Contradictions), c.want) {
				t.Errorf("%v: %v, want %q", v, v.Contradictions, c.want)
			}
		})
	}
}

// concluded is the verdict about payments alone.
func concluded(t *testing.T, j *Judge) Verdict {
	t.Helper()
	v, err := j.Conclude(nil)
	kit.Must(t, err)

	return v
}
