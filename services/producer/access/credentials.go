package access

import (
	"context"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/platform/web"
)

// Together with the register's interval and how old it may be, these bound how long a key that was
// revoked may be used: 5 seconds.
const (
	// sweepInterval is how often the keys with which something was begun are looked at.
	sweepInterval = 500 * time.Millisecond
	// unreadFor is how long the register may be stale until what its keys have begun ends.
	unreadFor = time.Second
	// lastWrite is how long a response may go on when its key has ended.
	lastWrite = time.Second
)

// credentials are the keys in use: the central bank's from a file, those of banks from the register.
type credentials struct {
	banks *register.Register

	mu          sync.Mutex
	file        *keys.Watched[keys.CentralBankKeys]
	centralBank keys.CentralBankKeys
	begun       map[holding]*begun
}

// holding is a key of a holder.
type holding struct {
	holder string
	digest keys.Digest
}

// begun is what was begun with a key. It ends when the key is in use no more.
type begun struct {
	ctx context.Context
	end context.CancelFunc
}

func newCredentials(file string, banks *register.Register) (*credentials, error) {
	watched, err := keys.Watch(file, keys.ReadCentralBankKeys)
	if err != nil {
		return nil, err
	}
	c := &credentials{banks: banks, file: watched, begun: map[holding]*begun{}}
	c.centralBank, err = watched.Now()

	return c, err
}

// admit returns what was begun with a key, or why it is not taken. A bank's key is taken only as long
// as the register can be read: nobody knows if it was revoked.
func (c *credentials) admit(key string) (*begun, *web.Problem) {
	h := holding{keys.HolderOf(key), keys.DigestOf(key)}
	c.mu.Lock()
	defer c.mu.Unlock()

	used, fresh := c.uses(h)
	switch {
	case h.holder != keys.CentralBank && !fresh:
		return nil, &web.Problem{Type: web.Kind("register-away"), Title: "The register cannot be read",
			Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
			Detail: "nothing was sent or done: which keys are in use was not read for 2 s; try again later"}
	case !used:
		return nil, unknown("invalid_token", "the key is not known: send one that is in use")
	}

	b := c.begun[h]
	if b == nil {
		b = &begun{}
		b.ctx, b.end = context.WithCancel(context.Background())
		c.begun[h] = b
	}

	return b, nil
}

// uses reports whether a key is in use, and whether the register was fresh. The caller holds the lock.
func (c *credentials) uses(h holding) (used, fresh bool) {
	state, fresh := c.banks.Current()
	if h.holder == keys.CentralBank {
		return keys.OneOf(c.centralBank, h.digest), fresh
	}
	bank := state.Participant(pix.ISPB(h.holder))

	return bank != nil && keys.OneOf(bank.Keys, ledger.ActDigest(h.digest)), fresh
}

func (c *credentials) run(ctx context.Context, log *zap.Logger) {
	for read := time.Now(); host.Sleep(ctx, host.Next(sweepInterval)); {
		if _, fresh := c.banks.Current(); fresh {
			read = time.Now()
		}

		if err := c.sweep(time.Since(read) > unreadFor); err != nil {
			log.Error("HTTP_KEYS_FILE has changed and cannot be read: the keys of before stay in use", zap.Error(err))
		}
	}
}

// sweep ends what was begun with keys that are in use no more, or of which that is not known.
func (c *credentials) sweep(unread bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error

	c.centralBank, err = c.file.Now()
	for h, b := range c.begun {
		if used, _ := c.uses(h); !used || unread && h.holder != keys.CentralBank {
			b.end()
			delete(c.begun, h)
		}
	}

	return err
}
