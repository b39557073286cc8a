package answers

import (
	"fmt"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// balance is what a client was told of an account.
type balance struct {
	account pix.Account
	Span
	Posted     int64 `json:"posted_centavos"`
	PendingOut int64 `json:"pending_out_centavos"`
	PendingIn  int64 `json:"pending_in_centavos"`
	Available  int64 `json:"available_centavos"`
}

// past is what the ledger knows of an account.
type past struct {
	lines  []statementLine // newest first
	levels []level         // oldest first
}

// level is what an account holds from a time on.
type level struct {
	from   time.Time
	posted int64
	out    pendings
	in     pendings
}

// pendings is the money of holds. The ledger gives the money of an expired hold back a little after
// the expiry, and until then it may still be pending.
type pendings struct{ held, expired int64 }

func (p pendings) fit(told int64) bool { return p.held <= told && told <= p.held+p.expired }

func (p pendings) String() string {
	if p.expired == 0 {
		return fmt.Sprint(p.held)
	}
	return fmt.Sprintf("%d to %d", p.held, p.held+p.expired)
}

// expiredMax bounds the time until the ledger has given back the money of an expired hold.
const expiredMax = 5 * time.Second

// pastOf computes the past of an account from its transfers, oldest first.
func pastOf(transfers []tb.Transfer, of ledger.AccountID) (p past) {
	type change struct {
		at     time.Time
		posted int64
		out    pendings
		in     pendings
	}
	var changes []change
	holds := map[tb.Uint128]tb.Transfer{} // that nothing has resolved yet
	add := func(at time.Time, t tb.Transfer, posted int64, pending pendings) {
		c := change{at: at, posted: posted, in: pending}
		if t.DebitAccountID == of {
			c = change{at: at, posted: -posted, out: pending}
		}
		changes = append(changes, c)
	}
	for _, t := range transfers {
		at, amount, flags := ledgerTime(t.Timestamp), ledger.Centavos(t.Amount), t.TransferFlags()
		switch {
		case flags.Pending:
			holds[t.ID] = t
			add(at, t, 0, pendings{held: amount})
		case flags.PostPendingTransfer || flags.VoidPendingTransfer:
			held := ledger.Centavos(holds[t.PendingID].Amount)
			delete(holds, t.PendingID)
			if flags.VoidPendingTransfer {
				amount = 0
			}
			add(at, t, amount, pendings{held: -held})
		default:
			add(at, t, amount, pendings{})
		}
		p.lines = append(p.lines, lineOf(t, of))
	}
	slices.Reverse(p.lines)
	for _, t := range holds {
		if t.Timeout > 0 {
			amount, expiry := ledger.Centavos(t.Amount), ledgerTime(t.Timestamp).Add(time.Duration(t.Timeout)*time.Second)
			add(expiry, t, 0, pendings{-amount, amount})
			add(expiry.Add(expiredMax), t, 0, pendings{expired: -amount})
		}
	}
	slices.SortStableFunc(changes, func(x, y change) int { return x.at.Compare(y.at) })
	now := level{}
	p.levels = append(p.levels, now)
	for _, c := range changes {
		now.from = c.at
		now.posted += c.posted
		now.out.held, now.out.expired = now.out.held+c.out.held, now.out.expired+c.out.expired
		now.in.held, now.in.expired = now.in.held+c.in.held, now.in.expired+c.in.expired
		p.levels = append(p.levels, now)
	}
	return p
}

func ledgerTime(nanoseconds uint64) time.Time {
	return time.Unix(0, int64(nanoseconds)).UTC() //nolint:gosec // Unix time
}

// concludeBalance requires a balance that the account had at an instant of the request.
func (j *Judge) concludeBalance(b balance, levels []level) {
	from, to := b.From.Add(-j.tolerance), b.To.Add(j.tolerance)
	var could []string
	isRight := false
	for i, l := range levels {
		if l.from.After(to) {
			break
		}
		if i+1 < len(levels) && !levels[i+1].from.After(from) {
			continue // it was over before the request
		}
		could = append(could, fmt.Sprintf("%d posted, %v pending out, %v pending in", l.posted, l.out, l.in))
		isRight = isRight || l.posted == b.Posted && l.out.fit(b.PendingOut) && l.in.fit(b.PendingIn)
	}
	subject := "balance of " + accountName(b.account) + ", asked " + b.From.UTC().Format(timeOfDay)
	said := fmt.Sprintf("it says %d posted, %d pending out, %d pending in, %d available", b.Posted, b.PendingOut, b.PendingIn, b.Available)
	switch {
	case !isRight:
		j.contradict(subject, "the account never held that during the request", fmt.Sprintf("it held %q", could), said)
	case b.Available != b.Posted-b.PendingOut || b.Available < 0:
		j.contradict(subject, "what is available is not what is posted less what is held", "", said)
	}
}
