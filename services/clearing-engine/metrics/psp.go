package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/clearing-engine/room"
)

// protecting are the reasons with which an engine refuses orders to protect others.
var protecting = []pix.Reason{pix.ReasonPayeePSPBusy, pix.ReasonTooManyCopies, pix.ReasonTooLate,
	pix.ReasonTooManyReturns}

// Refused counts an order or a copy that was refused, if that was to protect others.
func (m *Metrics) Refused(sender pix.ISPB, reason pix.Reason) {
	if slices.Contains(protecting, reason) {
		m.refusals.WithLabelValues(labelOf(m.room, sender), reason.String()).Inc()
	}
}

// otherPSP is the label of PSPs that have not been met here: anybody can invent names of banks.
const otherPSP = "other"

// labelOf is a PSP as a label of metrics.
func labelOf(r *room.Room, psp pix.ISPB) string {
	if r.Knows(psp) {
		return string(psp)
	}

	return otherPSP
}

// byPSP collects what PSPs have of the room when it is scraped.
type byPSP struct {
	room                            *room.Room
	waiting, stuck, taken, takenMax *prometheus.Desc
}

func newByPSP(r *room.Room) byPSP {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}

	return byPSP{r,
		describe("pix_payments_waiting_for_psp", "Payments that wait for the response of a receiving PSP.", "ispb"),
		describe("pix_payments_stuck_at_psp",
			"Of the payments that wait for a receiving PSP, those that make it a silent one: older than 5 s, or all of them if it answers nothing.",
			"ispb"),
		describe("pix_payer_share_taken",
			"Places of the room that are taken because of a sending PSP (other: none of its accounts has been met here): by waiting (copies, returns, dead letters on their way), by questions (to silent PSPs).",
			"ispb", "by"),
		describe("pix_payer_share_size",
			"Places of the room that each sending PSP may have, for each value of the label by of pix_payer_share_taken."),
	}
}

func (c byPSP) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.waiting, c.stuck, c.taken, c.takenMax} {
		ch <- d
	}
}

func (c byPSP) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	taken := map[string][2]int{otherPSP: {}}
	c.room.EachShare(func(bank pix.ISPB, questions bool, places int) {
		label, by := labelOf(c.room, bank), 0
		if questions {
			by = 1
		}
		sum := taken[label]
		sum[by] += places
		taken[label] = sum
	})

	for label, places := range taken {
		gauge(c.taken, places[0], label, "waiting")
		gauge(c.taken, places[1], label, "questions")
	}
	gauge(c.takenMax, c.room.ShareMax())
	c.room.EachPSP(func(psp pix.ISPB, open, stuck int) {
		gauge(c.waiting, open, string(psp))
		gauge(c.stuck, stuck, string(psp))
	})
}
