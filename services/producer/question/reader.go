package question

import (
	"maps"
	"time"
)

// reader is one program that is told the questions of a bank: all of them, or those that none of its share has.
type reader struct {
	desk  *desk
	share *share    // nil: all
	from  time.Time // questions that were asked before were told: they are told only again
	at    uint64    // the next place in the line; of a share it is the share's
	news  uint64
	given map[string]uint64 // of a share: the places of the questions that this program has
}

// join begins with all that is open. It is nil if as many tell the same to this bank as may.
func (d *desk) join(shareName string, from, now time.Time) *reader {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := &reader{desk: d, from: from, at: d.line.first, news: d.news.end()}

	known := d.shares[shareName]
	if (shareName == "" || known == nil) && d.readers+len(d.shares) >= tellersMax || known != nil &&
		known.members >= membersMax {
		return nil
	}

	if shareName == "" {
		d.readers++
		return r
	}

	if known == nil {
		known = &share{at: d.line.first}
		d.shares[shareName] = known
	}
	known.members++
	known.used = now
	r.share, r.given = known, map[string]uint64{}

	return r
}

// Each of these costs this process what one that is told everything costs.
const (
	tellersMax = 8 // shares and programs without one, of a bank
	membersMax = 64
)

// leave gives back what this program has and nobody has answered, so that others of its share get it at once.
// A poll has been answered, and keeps it for a while.
func (r *reader) leave(keeps bool) {
	d := r.desk
	d.mu.Lock()
	defer d.mu.Unlock()

	if r.share == nil {
		d.readers--
		return
	}
	r.share.members--

	if keeps {
		return
	}
	var left []*asked

	for i, q := range d.line.entries {
		if place := d.line.first + uint64(i); q.place == place && r.given[q.EndToEndID] == place { //nolint:gosec // positive
			left = append(left, q)
		}
	}

	for _, q := range left {
		q.again = true
		d.tell(q)
	}

	if len(left) > 0 {
		d.wake()
	}
}

// next returns what is to be told, and a channel that closes when there is more.
func (r *reader) next(most int) (questions []told, news []News, more <-chan struct{}) {
	d := r.desk
	d.mu.Lock()
	defer d.mu.Unlock()

	at := &r.at
	if r.share != nil {
		at = &r.share.at
	}

	for *at = max(*at, d.line.first); *at < d.line.end() && len(questions) < most; *at++ {
		q := d.line.entries[*at-d.line.first]
		if q.place != *at || !q.again && q.at.Before(r.from) {
			continue
		}

		questions = append(questions, q.told)
		if r.share != nil {
			r.given[q.EndToEndID] = q.place
		}
	}

	if len(r.given) > newsMax { // some ended unsaid
		maps.DeleteFunc(r.given, func(_ string, place uint64) bool { return place < d.line.first })
	}

	for r.news = max(r.news, d.news.first); r.news < d.news.end() && len(news) < most; r.news++ {
		one := d.news.entries[r.news-d.news.first]
		if r.share != nil {
			if _, mine := r.given[one.EndToEndID]; !mine {
				continue
			}

			if one.Status != forged {
				delete(r.given, one.EndToEndID)
			}
		}
		news = append(news, one)
	}

	if len(questions) == most || len(news) == most {
		return questions, news, atOnce
	}

	return questions, news, d.changed
}

// atOnce is a channel that has closed.
var atOnce = func() <-chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}()
