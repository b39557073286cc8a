// Package room serves the control room: one page that shows the clearing house at work, breaks
// it on request, and shows how it heals.
package room

import (
	"time"

	"github.com/liquida/liquida/loadtest/live"
)

// Picture is what the page draws. The page asks for one each second; a report holds the last one.
// Times are UTC. A figure that is not known is null.
type Picture struct {
	At       time.Time `json:"at"`
	Headline string    `json:"headline"` // the sentence on top
	State    string    `json:"state"`    // idle, flowing, stopped
	ReadOnly string    `json:"readOnly"` // why there are no buttons; empty: there are
	Banks    []Bank    `json:"banks"`
	Flows    []Flow    `json:"flows"` // pairs with payments in the last second
	Figures  Figures   `json:"figures"`
	// oldest first, at most 600: one a second, or one in 4 s while nobody paid or watched
	History   []Sample   `json:"history,omitempty"`
	Light     live.Light `json:"light"`
	Processes []Process  `json:"processes"`
	Load      Load       `json:"load"`
	Story     []Line     `json:"story"` // oldest first, at most 200
}

// Bank is a participant.
type Bank struct {
	ISPB      string `json:"ispb"`
	Behaviour string `json:"behaviour"` // normal, silent, other; empty: not known
}

// Flow is what one bank's customers paid to another's in the last second.
type Flow struct {
	Payer    string         `json:"payer"` // ISPB
	Payee    string         `json:"payee"` // ISPB
	Settled  int            `json:"settled"`
	Centavos int64          `json:"centavos"`           // settled
	Rejected map[string]int `json:"rejected,omitempty"` // by reason, like AB03
	Last     string         `json:"last"`               // EndToEndId or RtrId of the last of them
}

// Figures are those that matter.
type Figures struct {
	SettledPerSecond  float64  `json:"settledPerSecond"`
	RejectedPerSecond float64  `json:"rejectedPerSecond"`
	P50Milliseconds   *float64 `json:"p50Milliseconds"` // from order to outcome, measured
	P99Milliseconds   *float64 `json:"p99Milliseconds"`
	Open              *int64   `json:"open"`    // orders accepted and not finished
	Untaken           *int64   `json:"untaken"` // of them, no engine has taken: the lag
}

// Sample is one second of the figures.
type Sample struct {
	At time.Time `json:"at"`
	Figures
}

// Process is one of the stack's.
type Process struct {
	Name        string   `json:"name"`
	PID         int      `json:"pid"`
	State       string   `json:"state"` // ready, starting, not ready, frozen, dead, unknown
	Why         string   `json:"why"`   // it is not ready
	MemoryBytes int64    `json:"memoryBytes"`
	Partitions  []int32  `json:"partitions,omitempty"` // an engine's
	Cut         []string `json:"cut,omitempty"`        // from broker, ledger
	Acts        []string `json:"acts"`                 // that are possible now
}

// Load is what the room itself sends.
type Load struct {
	Running       bool    `json:"running"`
	RatePerSecond float64 `json:"ratePerSecond"`
	Sent          int64   `json:"sent"`
	Ended         int64   `json:"ended"`
	Wrong         int64   `json:"wrong"`
}

// Line is one line of the story: what was done, or came back.
type Line struct {
	Number int       `json:"number"`
	Kind   string    `json:"kind"` // broken, mended: the plots mark it; empty: they do not
	At     time.Time `json:"at"`
	Text   string    `json:"text"`
}

// Life is one payment on a time line, with its returns.
type Life struct {
	EndToEndID string  `json:"endToEndId"` // of the payment, also if a return was asked for
	Verdict    string  `json:"verdict"`    // settled, rejected, under way, dead letter, unknown
	Reason     string  `json:"reason"`
	Payer      string  `json:"payer"` // ISPB
	Payee      string  `json:"payee"`
	Centavos   int64   `json:"centavos"`
	Events     []Event `json:"events"` // oldest first
}

// Event is one message, or one request at the ledger.
type Event struct {
	At time.Time `json:"at"`
	// order, hold, question, answer, post, void, receipt, verdict, report, return, dead letter, unread
	Kind      string `json:"kind"`
	Text      string `json:"text"`
	Topic     string `json:"topic,omitempty"`
	Partition *int32 `json:"partition,omitempty"`
	Offset    *int64 `json:"offset,omitempty"`
}

// Letter is a dead letter.
type Letter struct {
	At        time.Time `json:"at"`
	Code      string    `json:"code"`
	Reason    string    `json:"reason"`
	Topic     string    `json:"topic"` // of the message
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Bytes     []byte    `json:"bytes"` // base64; the first 4 KiB
	Size      int       `json:"size"`
}
