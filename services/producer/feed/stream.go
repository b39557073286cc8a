package feed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/field"
)

// Settlements serves GET /v1/settlements: the reports of the payments and returns of one participant
// or of all, from a position on and then as they come. It delivers at least once: a client
// goes on after a break from the id of the last event that it has handled.
func (f *Feed) Settlements(w http.ResponseWriter, r *http.Request) *web.Problem {
	participant, at, problem := f.streamOf(r)

	caller := access.Of(r).Name()
	if problem == nil {
		problem = f.streams.Take(caller)
	}

	if problem != nil {
		return problem
	}
	defer f.streams.Free(caller)

	follower := follower{caller, participant}
	if problem := f.join(follower); problem != nil {
		return problem
	}
	defer f.leave(follower)
	ctx, done := web.Bound(r.Context(), f.stopping, f.config.StreamTimeMax)
	defer done()

	s := &settlementStream{Feed: f, caller: caller, participant: participant, at: at,
		events: web.StartEvents(w, f.config.WriteTimeout)}
	if s.events.KeepAlive(at.cursor()) != nil {
		return nil
	}

	for s.follow(ctx) {
	}

	return nil
}

// followersMax bounds one caller's streams of one participant's settlements. All of them say the
// same, and each writes every report: with its whole share of streams, a bank with many payments
// would keep this process busy for itself.
const followersMax = 8

// follower is a caller that follows a participant. Each has places of its own, so the central
// bank, which follows any participant, takes none of theirs.
type follower struct {
	caller      string
	participant pix.ISPB
}

func (f *Feed) join(who follower) *web.Problem {
	f.followersMu.Lock()
	defer f.followersMu.Unlock()

	if f.followers[who] >= followersMax {
		f.followersRefused.Inc()

		return &web.Problem{Type: web.Kind("busy"), Title: "Too many streams of one participant",
			Status: http.StatusTooManyRequests, RetryAfter: time.Second,
			Field: "participant", Value: who.participant,
			Rule:   fmt.Sprintf("at most %d open streams of a caller for a participant's settlements", followersMax),
			Detail: "all of them say the same: read one, or try again when one has ended"}
	}
	f.followers[who]++
	f.watcher.following.Add(1)
	f.watcher.attend()

	return nil
}

func (f *Feed) leave(who follower) {
	f.followersMu.Lock()
	defer f.followersMu.Unlock()
	f.watcher.following.Add(-1)

	if f.followers[who]--; f.followers[who] == 0 {
		delete(f.followers, who)
	}
}

// streamOf returns the participant and the position that a request asks for.
func (f *Feed) streamOf(r *http.Request) (pix.ISPB, position, *web.Problem) {
	values := r.URL.Query()

	participant, err := everybody, error(nil) // whom the route lets only the central bank follow
	if values.Get("participant") != string(everybody) {
		participant, err = pix.ParseISPB(values.Get("participant"))
	}

	if !values.Has("participant") {
		err = errors.New("it is missing: send it")
	}

	if err != nil {
		return "", nil, field.Invalid("", "participant", values.Get("participant"), pix.ReasonMalformed, err.Error())
	}

	end, err := endOf(r.Context(), f.watcher.admin)
	if err != nil {
		return "", nil, &web.Problem{Type: web.Kind("kafka-away"), Title: "Kafka does not answer",
			Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
			Detail: "Kafka does not say where the settlements end (" + err.Error() + "): ask again later"}
	}

	from := r.Header.Get("Last-Event-ID") // a client that comes back says where it was
	if from == "" {
		from = values.Get("from")
	}

	switch from {
	case "", "end":
		return participant, end, nil
	case "start":
		return participant, make(position, len(end)), nil
	}

	at, err := positionOf(from, len(end))
	if err == nil && !end.reaches(at) {
		err = errBeyondEnd
	}

	if err != nil {
		return "", nil, field.Invalid("", "from", from, pix.ReasonMalformed, err.Error())
	}

	return participant, slices.Clone(at), nil
}

var errBeyondEnd = errors.New(
	"it is past the end of the settlements: it is of another system, or of data that was removed")

// settlementStream is one open stream of a participant's settlements.
type settlementStream struct {
	*Feed
	caller      string
	participant pix.ISPB
	at          position // everything before it was sent
	events      *web.EventStream
}

const (
	// livePage is how many kept reports a stream takes at once. After a full page it does not rest.
	livePage = 1024
	// While payments wait, keptAsOne kept reports that are sent again count as one that is read from Kafka. Those of
	// the last pastAfter are not limited: else many reports a second would leave honest streams behind.
	keptAsOne = 5
	pastAfter = time.Second
	// liveRest is how long a stream rests after reports: many of them in one write cost both ends much less, and a
	// stream wakes for all reports, not for its own alone.
	liveRest = 10 * time.Millisecond
	// While payments wait, a stream rests eachRests for every open stream, up to liveRestMax: what all of them cost
	// grows no more with their number then.
	eachRests   = 2 * time.Millisecond
	liveRestMax = 100 * time.Millisecond
)

// follow sends past reports and then new ones. It returns true when the stream has fallen
// behind and has to read the past again, false when the stream has ended.
func (s *settlementStream) follow(ctx context.Context) bool {
	newest := &s.watcher.newest

	number, from := newest.oldest()
	if from == nil { // the broker has not answered since the start of this process
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Second):
			return s.events.KeepAlive("") == nil
		}
	}

	s.at = s.at.withPartitions(len(from))
	if !s.at.reaches(from) && !s.catchUp(ctx, from) {
		return false
	}
	keepAlive := time.NewTicker(s.config.KeepAlive)
	defer keepAlive.Stop()
	rested := time.NewTimer(liveRest)
	defer rested.Stop()
	page := make([]*entry, 0, livePage)

	for {
		entries, came, ok := newest.after(number, page)
		if !ok {
			return ctx.Err() == nil
		}
		number += uint64(len(entries))

		sent, err := s.send(entries)
		if err != nil { // the client is gone
			return false
		}

		if len(entries) == livePage {
			if time.Since(time.UnixMilli(entries[0].unixMs)) < pastAfter {
				sent = 0
			}

			if !s.paced(ctx, sent/keptAsOne) {
				return false
			}

			continue
		}
		var awake <-chan time.Time

		if len(entries) > 0 {
			rested.Reset(s.rest())
			awake = rested.C
		}

		select {
		case <-came:
		case <-awake:
		case <-keepAlive.C:
			if s.events.KeepAlive(s.at.cursor()) != nil {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}

// rest is how long a stream rests after reports.
func (f *Feed) rest() time.Duration {
	if !f.payments() {
		return liveRest
	}

	return min(max(liveRest, time.Duration(f.watcher.following.Load())*eachRests), liveRestMax)
}

// paced waits, while payments wait, until so much of the past may be read. It returns false if ctx ends before.
func (f *Feed) paced(ctx context.Context, reports int) bool {
	if reports == 0 || !f.payments() {
		return ctx.Err() == nil
	}
	f.pace.SetLimit(f.pastRate())

	return f.pace.WaitN(ctx, reports) == nil
}

// pastRate is how many past settlements a second may be read while payments wait: twice as many as come, so that who
// was away catches up, and takes little where few are paid.
func (f *Feed) pastRate() rate.Limit {
	return rate.Limit(min(float64(f.config.HistoryRateMax), max(pastRateMin, 2*f.watcher.newest.perSecond(time.Now()))))
}

const pastRateMin = 1000 // a second

// send sends the reports of the participant that were not sent before.
func (s *settlementStream) send(entries []*entry) (sent int, err error) {
	for _, e := range entries {
		if int(e.partition) >= len(s.at) { // it was added
			s.at = s.at.withPartitions(int(e.partition) + 1)
		}

		if e.offset < s.at[e.partition] {
			continue
		}
		s.at[e.partition] = e.offset + 1

		r := e.read()
		if r == nil || s.participant != everybody && !slices.Contains(r.banks[:], s.participant) {
			continue
		}

		if err := s.events.AddEncoded(s.at.cursor(), "settlement", r.data); err != nil {
			return sent, err
		}
		sent++
	}

	return sent, s.events.Flush()
}

// historyPage is how many past settlements are read at once. While payments wait, to begin counts as much: it takes a
// client and fetches of which little may be wanted.
const historyPage = 1000

// catchUp reads the topic up to a position. It waits for its turn, because each reader of
// the past needs a Kafka client of its own.
func (s *settlementStream) catchUp(ctx context.Context, to position) bool {
	keepAlive := time.NewTicker(s.config.KeepAlive)
	defer keepAlive.Stop()

	for {
		freed := s.reading.Freed()
		if s.reading.Take(s.caller) == nil {
			break
		}

		select {
		case <-freed:
		case <-keepAlive.C:
			if s.events.KeepAlive(s.at.cursor()) != nil {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
	number := <-s.histories
	defer func() {
		s.histories <- number // first, so that who gets the permit finds one
		s.reading.Free(s.caller)
	}()

	if !s.paced(ctx, historyPage) {
		return false
	}

	client, err := stream.Connect(s.watcher.kafka, s.watcher.dial, "producer-history-"+strconv.Itoa(number),
		s.watcher.t,
		kgo.ConsumePartitions(s.at.offsets()),
		kgo.KeepControlRecords(), // so that no offset is missing, and the end is seen
		kgo.FetchMaxBytes(512<<10), kgo.FetchMaxPartitionBytes(512<<10), kgo.MaxConcurrentFetches(1))
	if err != nil {
		s.watcher.t.Log.Error("cannot read past settlements", zap.Error(err))
		return false
	}
	defer client.Close()

	for !s.at.reaches(to) {
		polling, cancel := context.WithTimeout(ctx, s.config.KeepAlive)
		fetches := client.PollRecords(polling, historyPage)
		cancel()

		if !s.paced(ctx, fetches.NumRecords()) {
			return false
		}
		var entries []*entry

		for _, record := range fetches.Records() {
			entries = append(entries, entryOf(record))
		}

		if _, err := s.send(entries); err != nil {
			return false
		}

		if ctx.Err() != nil || s.events.KeepAlive(s.at.cursor()) != nil {
			return false
		}
	}

	return true
}
