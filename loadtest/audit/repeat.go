package audit

import (
	"cmp"
	"slices"
	"time"
)

// An engine reports each record of an order once for each delivery. Records are delivered again
// only when their partition is taken over: by an engine that started, which writes as another
// producer, or by one that lost it and got it back. So if one producer reports an id more often
// than it has records, a take-over lies between. One take-over may explain many repeats, and
// the fewest that explain all of them can be counted.

// delivery is a report: who wrote it, and when.
type delivery struct {
	writer int64
	ms     int64 // Unix time
}

// repeats are the reports of ids that have more than one.
type repeats map[number128][]delivery

// saw takes a report.
func (r repeats) saw(key number128, s *sending, record Record) {
	d := delivery{record.Writer, record.Time.UnixMilli()}
	if s.reports++; s.reports == 1 {
		s.report = d
		return
	}
	if s.reports == 2 {
		r[key] = append(r[key], s.report)
	}
	r[key] = append(r[key], d)
}

// span is a time in which a partition was taken over by the engine that it had before.
type span struct {
	from, to int64 // Unix ms
	id       endToEndID
}

// Take-overs by an engine that lives on need that it lost its partition: after a session
// without heartbeats, or because another engine came or went.
const (
	takeOversMin     = 8
	takeOverInterval = time.Second
)

// judgeRepeats reports producers that repeat reports more often than take-overs explain.
func (a *Auditor) judgeRepeats() {
	spans := map[int64][]span{} // by writer
	for key, all := range a.repeats {
		id, s := a.sendingOf(key)
		byWriter := map[int64][]int64{}
		for _, d := range all {
			byWriter[d.writer] = append(byWriter[d.writer], d.ms)
		}
		for writer, times := range byWriter {
			slices.Sort(times)
			for i := 0; i+s.copies < len(times); i++ {
				spans[writer] = append(spans[writer], span{times[i], times[i+s.copies], id})
			}
		}
	}
	for writer, all := range spans {
		slices.SortFunc(all, func(x, y span) int { return cmp.Or(cmp.Compare(x.to, y.to), cmp.Compare(x.from, y.from)) })
		takeOvers, last := 0, int64(-1<<63)
		for _, s := range all {
			if s.from > last { // the latest take-over so far does not explain it
				takeOvers, last = takeOvers+1, s.to
			}
		}
		a.summary.TakeOvers = max(a.summary.TakeOvers, takeOvers)
		lasted := time.Duration(last-all[0].from) * time.Millisecond
		if most := takeOversMin + int(lasted/a.takeOverGap); takeOvers > most {
			a.add(RepeatedReport, all[0].id.String(), "producer %d wrote %d reports again within %v, of this order and others: the engine would have lost partitions %d times and got them back, at most %d can be",
				writer, len(all), lasted, takeOvers, most)
		}
	}
}

// sendingOf returns the payment or return with reports under a key.
func (a *Auditor) sendingOf(key number128) (endToEndID, *sending) {
	if p := a.find(key); p != nil {
		return p.id, &p.sending
	}
	g := a.byVerdict()[key.role(resolutionRole)]
	return g.id, &g.sending
}
