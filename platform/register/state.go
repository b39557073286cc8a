package register

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// State is what all acts up to one of them add up to. It never changes.
type State struct {
	// ReadTo is the ledger's timestamp of the last act in it; 0 without any.
	ReadTo uint64
	// Rules is the timestamp of the last act that changed what may be paid: a suspension, its
	// end, or a cap; 1 before the first. With equal Rules two states judge every payment alike.
	Rules uint64

	banks     map[pix.ISPB]*Participant // also of acts before the bank joined
	suspended bool                      // any bank
	joined    []*Participant            // in the order in which they joined
	accounts  *sync.Map                 // the states of those that are not open, by id. Readers take no lock
}

// After returns the state after some acts, at times of no meaning.
func After(acts ...ledger.Act) *State {
	d := newState().draft()
	for i, act := range acts {
		d.apply(act, time.Unix(0, int64(i)+2))
	}

	return d.finish()
}

// newState returns the state of an empty register.
func newState() *State {
	return &State{Rules: 1, banks: map[pix.ISPB]*Participant{}, accounts: new(sync.Map)}
}

// KeysMax bounds the keys of a bank in use. It leaves room for the old and the new one of several
// programs. The front door refuses more; of those that race past it, the first ones count.
const KeysMax = 8

// Participant is what the register says about a bank.
type Participant struct {
	ISPB               pix.ISPB
	JoinedAt           time.Time // by the ledger's clock
	ActedTo            uint64    // the ledger's timestamp of the last act on it or its accounts
	Suspended          bool
	LiquidityCentavos  int64              // put in less taken out since bootstrap
	PaymentCapCentavos int64              // 0: none
	Outflow            [2]Cap             // by ledger.Window
	Keys               []ledger.ActDigest // in use, in the order in which they were named
	Seals              []Seal             // in the order in which they were named
	NotOpen            int                // accounts that it has blocked or closed
}

// Cap is a cap on outflow within a window of time. Centavos 0: none.
type Cap struct {
	Centavos      int64
	WindowSeconds uint32
}

// Seal is the fingerprint of a secret with which a bank seals its responses. What is sealed with
// a revoked one is forged.
type Seal struct {
	Fingerprint ledger.ActDigest
	Revoked     bool
}

// SealRevoked reports whether a bank's seal was revoked.
func (s *State) SealRevoked(psp pix.ISPB, fingerprint ledger.ActDigest) bool {
	p := s.banks[psp]
	return p != nil && slices.Contains(p.Seals, Seal{fingerprint, true})
}

// AccountState is what a bank has done with an account of a customer.
type AccountState uint8

// The states of an account. The register does not know whether an open account exists.
const (
	Open AccountState = iota
	Blocked
	Closed
)

// Participant returns a bank that has joined, else nil.
func (s *State) Participant(psp pix.ISPB) *Participant {
	if p := s.banks[psp]; p != nil && !p.JoinedAt.IsZero() {
		return p
	}

	return nil
}

// Participants returns the banks in the order in which they joined.
func (s *State) Participants() []*Participant { return slices.Clone(s.joined) }

// Suspended reports whether a bank is suspended.
func (s *State) Suspended(psp pix.ISPB) bool {
	if !s.suspended { // asked for every order
		return false
	}
	p := s.banks[psp]

	return p != nil && p.Suspended
}

// Account returns the state of an account now, not that of the State's time: what the register
// holds about accounts is too large for a copy of its own in each State.
func (s *State) Account(account pix.Account) AccountState {
	if state, ok := s.accounts.Load(ledger.CustomerAccount(account)); ok {
		return state.(AccountState)
	}

	return Open
}

// draft is a State that is being made from another one. What it has not copied it shares.
type draft struct {
	State
	own map[pix.ISPB]bool // participants that are the draft's own copies
}

func (s *State) draft() *draft { return &draft{State: *s} }

// change returns a participant that the draft may change.
func (d *draft) change(psp pix.ISPB) *Participant {
	if d.own[psp] {
		return d.banks[psp]
	}

	if d.own == nil {
		d.own, d.banks = map[pix.ISPB]bool{}, maps.Clone(d.banks)
	}

	p := &Participant{ISPB: psp}
	if before := d.banks[psp]; before != nil {
		*p = *before
		p.Keys, p.Seals = slices.Clone(p.Keys), slices.Clone(p.Seals)
	}
	d.own[psp], d.banks[psp] = true, p

	return p
}

// apply takes an act into the draft. Of acts about one thing the last one counts.
func (d *draft) apply(act ledger.Act, at time.Time) {
	d.ReadTo = uint64(at.UnixNano())

	d.change(act.Bank).ActedTo = d.ReadTo
	switch act.Kind {
	case ledger.Joined:
		if p := d.change(act.Bank); p.JoinedAt.IsZero() {
			p.JoinedAt = at
		}
	case ledger.Suspended, ledger.Resumed:
		d.change(act.Bank).Suspended, d.Rules = act.Kind == ledger.Suspended, d.ReadTo
	case ledger.LiquidityIn:
		d.change(act.Bank).LiquidityCentavos += act.Centavos
	case ledger.LiquidityOut:
		d.change(act.Bank).LiquidityCentavos -= act.Centavos
	case ledger.PaymentCapped:
		d.change(act.Bank).PaymentCapCentavos, d.Rules = act.Centavos, d.ReadTo
	case ledger.DayCapped, ledger.NightCapped:
		d.change(act.Bank).Outflow[act.Kind-ledger.DayCapped], d.Rules = Cap{act.Centavos, act.WindowSeconds}, d.ReadTo
	case ledger.AccountBlocked:
		d.setAccount(act, Blocked)
	case ledger.AccountClosed:
		d.setAccount(act, Closed)
	case ledger.AccountReopened:
		d.setAccount(act, Open)
	case ledger.KeyNamed, ledger.KeyRevoked:
		p := d.change(act.Bank)

		p.Keys = slices.DeleteFunc(p.Keys, func(key ledger.ActDigest) bool { return key == act.Digest })
		if act.Kind == ledger.KeyNamed && len(p.Keys) < KeysMax {
			p.Keys = append(p.Keys, act.Digest)
		}
	case ledger.SealNamed, ledger.SealRevoked:
		p := d.change(act.Bank)
		p.Seals = slices.DeleteFunc(p.Seals, func(seal Seal) bool { return seal.Fingerprint == act.Digest })
		p.Seals = append(p.Seals, Seal{act.Digest, act.Kind == ledger.SealRevoked})
	}
}

// setAccount sets the state of an act's account. Every follower keeps all that are not open.
func (d *draft) setAccount(act ledger.Act, is AccountState) {
	id, was := ledger.CustomerAccount(act.Account), d.Account(act.Account)
	if is == Open {
		d.accounts.Delete(id)
	} else {
		d.accounts.Store(id, is)
	}

	switch {
	case was == Open && is != Open:
		d.change(act.Bank).NotOpen++
	case was != Open && is == Open:
		d.change(act.Bank).NotOpen--
	}
}

// finish returns the draft's state.
func (d *draft) finish() *State {
	if len(d.own) > 0 {
		d.joined, d.suspended = nil, false
		for _, p := range d.banks {
			d.suspended = d.suspended || p.Suspended
			if !p.JoinedAt.IsZero() {
				d.joined = append(d.joined, p)
			}
		}
		slices.SortFunc(d.joined, func(a, b *Participant) int { return a.JoinedAt.Compare(b.JoinedAt) })
	}

	return &d.State
}
