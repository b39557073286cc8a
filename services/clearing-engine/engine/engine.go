// Package engine drives payments through Kafka and TigerBeetle: it fetches orders,
// carries out what package payment decides, and commits the offsets of finished records.
package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
)

// Engine is one clearing engine. Several share the partitions of pix.payments. None keeps
// a state that the ledger and the topics could not give back.
type Engine struct {
	common
	telemetry *telemetry.Telemetry
	rarely    *zap.Logger // hostile input must not flood the log

	ledger    tigerbeetle.Client
	follow    func(context.Context) error // the register, until the context ends
	writer    *ledger.Writer[recipient]
	transfers *ledger.Reader[recipient, tb.Transfer]
	accounts  *ledger.Reader[recipient, tb.Account]

	group  *kgo.Client                // member of the group: pix.payments
	direct *kgo.Client                // reports and dead letters, and the responses for our partitions
	asking atomic.Pointer[kgo.Client] // questions to banks; another one if their topic was made anew
	reader *reader                    // records of pix.payments, again
	// overtakenReader reads the ranges of pix.payments that younger orders have overtaken.
	overtakenReader *kgo.Client

	// Which ledger and which log it is, since awaitLog. They change only while no engine runs.
	identity  ledger.Identity
	logNumber uint32
	named     sync.Map // the partitions whose log the ledger names; nothing of another one is cleared
	witness   witness
	compared  atomic.Bool   // the ledger is the topics' own
	probe     chan struct{} // holds a token when the next pulse is due at once: compared has become true
	pulsed    atomic.Bool   // since the last commit

	whole atomic.Int32 // partitions that all topics have; 0: not all topics were there yet
	grown atomic.Bool  // whole has become more, and the group does not know

	ownedMu        sync.RWMutex
	owned          map[int32]*partition
	pausedPosition chan struct{} // holds a token if a position was paused

	// committing holds a token from reading what is finished to its commit: commits never go back.
	// It is no mutex, because a wait for one stops virtual time, and the broker may take long.
	committing chan struct{}

	seals *keys.Watched[keys.Seals] // nil: responses are taken without seals

	// failed ends with the first failure, which is its cause. From then on nothing is
	// written, sent or committed: what this process believes may be wrong.
	failed    context.Context
	setFailed context.CancelCauseFunc
}

// recipient is who gets a result of the ledger.
type recipient struct {
	partition *partition
	flight    *flight
	rules     uint64 // of the register, by which the chain was decided; 0: it depends on none
}

// What the engine needs to be ready.
const (
	needLedger    = "tigerbeetle"
	needClock     = "clock"
	needBootstrap = "bootstrap"
	needGroup     = "group"
	needLog       = "log"        // topics and ledger belong together
	needProgress  = "partitions" // none of this engine's stands still
)

// fail ends the engine with an error. The first one counts.
func (e *Engine) fail(err error) {
	e.setFailed(err)
	e.closeLedger()
}

func (e *Engine) closeLedger() {
	e.writer.Close()
	e.transfers.Close()
	e.accounts.Close()
}

func (e *Engine) write(p *partition, f *flight, chain []tb.Transfer, rules uint64) {
	e.writer.Write(recipient{p, f, rules}, chain)
}

// admit is called right before a request goes to the ledger: an engine that was frozen, or cut off
// from the register, begins nothing that a later act forbids.
func (e *Engine) admit() func(recipient) bool {
	state, fresh := e.register.Current()
	return func(to recipient) bool { return to.rules == 0 || fresh && to.rules == state.Rules }
}

func (e *Engine) lookUp(p *partition, f *flight, ids []tb.Uint128) {
	e.transfers.Read(recipient{partition: p, flight: f}, ids)
}

func (e *Engine) lookUpAccounts(p *partition, f *flight, ids []tb.Uint128) {
	e.accounts.Read(recipient{partition: p, flight: f}, ids)
}

func (e *Engine) fetchAgain(p *partition, offset int64) { e.reader.read(p, offset) }

// produce sends a record and calls acknowledged when all in-sync replicas have it. The
// client retries until it succeeds; an error that no retry can mend fails the engine.
func (e *Engine) produce(record *kgo.Record, acknowledged func()) {
	if e.failed.Err() != nil {
		return
	}

	client := e.direct
	if record.Topic == stream.AuthorizationRequests {
		client = e.asking.Load()
	}
	client.Produce(context.Background(), record, func(r *kgo.Record, err error) {
		switch {
		case err == nil:
			acknowledged()
		case errors.Is(err, kgo.ErrClientClosed):
		case errors.Is(err, kerr.UnknownTopicID): // the topic was made anew: watchTopics says so, and asks banks again
			e.rarely.Warn("not stored, because the topic was made anew", zap.String("topic", r.Topic),
				zap.Int32("partition", r.Partition), zap.ByteString("key", r.Key))
		default:
			e.fail(fmt.Errorf("cannot produce to %s, partition %d, key %q: %w", r.Topic, r.Partition, r.Key, err))
		}
	})
}

func (e *Engine) partition(number int32) *partition {
	e.ownedMu.RLock()
	defer e.ownedMu.RUnlock()
	return e.owned[number]
}

func (e *Engine) partitions() []*partition {
	e.ownedMu.RLock()
	defer e.ownedMu.RUnlock()
	return slices.Collect(maps.Values(e.owned))
}
