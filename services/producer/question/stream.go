package question

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/feed"
	"github.com/liquida/liquida/services/producer/field"
)

const (
	// togetherMax bounds the events that are written at once, and so what a program of a share takes from the others.
	togetherMax = 64
	// apart is by how much questions may be told in another order than they were asked.
	apart = 5 * time.Second
	// future is by how much the clocks of those who ask may be ahead.
	future = time.Minute
)

// Page is the response to a poll.
type Page struct {
	Questions []Question `json:"questions" nullable:"false"`
}

// Questions serves GET /v1/participants/{ispb}/questions: an event stream, or a poll for clients without streams. It
// delivers at least once.
func (b *Board) Questions(w http.ResponseWriter, r *http.Request) *web.Problem {
	share := r.URL.Query().Get("share")
	if len(share) > 64 || strings.Trim(share, shareCharacters) != "" {
		return field.Invalid("", "share", share, pix.ReasonMalformed, "it is no name: "+field.Rules["share"])
	}

	d, problem := b.deskOf(pix.ISPB(r.PathValue("ispb")))
	if problem != nil {
		return problem
	}
	defer b.leave(d)

	if accept := r.Header.Get("Accept"); strings.Contains(accept, "application/json") &&
		!strings.Contains(accept, "text/event-stream") {
		return b.poll(w, r, d, share)
	}
	var from time.Time // a share has no such place: another program may have what this one had

	if last := r.Header.Get("Last-Event-ID"); last != "" && share == "" {
		milliseconds, err := strconv.ParseInt(last, 10, 64)
		if err != nil || time.UnixMilli(milliseconds).After(b.ledger.Clock().Add(future)) { // it would hide what comes
			return field.Invalid("", "Last-Event-ID", last, pix.ReasonMalformed,
				"it is not the id of an event of this stream: leave it out, and all open questions are told")
		}
		from = time.UnixMilli(milliseconds).Add(-apart)
	}

	caller := access.Of(r).Name()
	if problem := b.streams.Take(caller); problem != nil {
		return problem
	}
	defer b.streams.Free(caller)

	reader := d.join(share, from, b.on.Now())
	if reader == nil {
		return tooMany(share)
	}
	defer reader.leave(false)
	ctx, done := web.Bound(r.Context(), b.stopping, b.feed.StreamTimeMax)
	defer done()

	events := web.StartEvents(w, b.feed.WriteTimeout)
	if events.KeepAlive("") != nil {
		return nil
	}
	keepAlive := time.NewTicker(b.feed.KeepAlive)
	defer keepAlive.Stop()
	last := int64(0)

	for {
		questions, news, more := reader.next(togetherMax)
		b.dateAll(questions)

		for i := range questions {
			last = max(last, questions[i].at.UnixMilli())
			if events.Add(strconv.FormatInt(last, 10), "question", &questions[i].Question) != nil {
				return nil
			}
		}

		for i := range news {
			event := "over"
			if news[i].Status == forged {
				event = "refused"
			}

			if events.Add("", event, &news[i]) != nil {
				return nil
			}
		}

		if len(questions)+len(news) > 0 && events.Flush() != nil {
			return nil // the client is gone
		}

		select {
		case <-more:
		case <-keepAlive.C:
			if events.KeepAlive("") != nil {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

const shareCharacters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz._-"

func tooMany(share string) *web.Problem {
	return &web.Problem{Type: web.Kind("busy"), Title: "Too many streams of questions",
		Status: http.StatusTooManyRequests, RetryAfter: time.Second, Field: "share", Value: share,
		Rule: "at most " + strconv.Itoa(tellersMax) + " streams without a share and shares of a bank, and " +
			strconv.Itoa(membersMax) + " programs in a share",
		Detail: "streams without a share all say the same: read one, share the questions, or try again when one has ended"}
}

// dateAll says how much time is left.
func (b *Board) dateAll(questions []told) {
	now := b.ledger.Clock()
	for i := range questions {
		questions[i].LeftMilliseconds = max(0, questions[i].deadline.Sub(now).Milliseconds())
	}
}

// pollShare is the share of polls that name none.
const pollShare = "poll"

// poll responds with open questions that no other poll or stream of the share has, at once or as soon as there are
// some.
func (b *Board) poll(w http.ResponseWriter, r *http.Request, d *desk, share string) *web.Problem {
	if share == "" {
		share = pollShare
	}

	wait, problem := feed.PreferredWait(r.Header, b.feed.WaitMax.Truncate(time.Second))
	if problem != nil {
		return problem
	}

	caller := access.Of(r).Name()
	if problem := b.waits.Take(caller); problem != nil {
		return problem
	}
	defer b.waits.Free(caller)
	web.NoReadDeadline(w)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + b.feed.WriteTimeout))
	ctx, done := web.Bound(r.Context(), b.stopping, wait)
	defer done()

	reader := d.join(share, time.Time{}, b.on.Now())
	if reader == nil {
		return tooMany(share)
	}

	var questions []told
	for waiting := true; waiting && len(questions) == 0; {
		var more <-chan struct{}

		questions, _, more = reader.next(togetherMax)
		if len(questions) == 0 {
			select {
			case <-more:
			case <-ctx.Done():
				waiting = false
			}
		}
	}
	b.dateAll(questions)

	page := Page{Questions: make([]Question, len(questions))}
	for i := range questions {
		page.Questions[i] = questions[i].Question
	}
	reader.leave(r.Context().Err() == nil)
	web.WriteJSON(w, http.StatusOK, page)

	return nil
}
