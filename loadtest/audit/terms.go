package audit

import (
	"slices"
	"time"
)

// Who reads the register may be late, so a decision is judged by all that held shortly before.

// registerAge is how old the register may be at which a decision looked, when the ledger has it: 2 s
// that a reading counts as fresh, and the way to the ledger.
const (
	wayToLedger = 3 * time.Second
	registerAge = 2*time.Second + wayToLedger
)

// lookedFrom returns the earliest time, by the ledger's clock, of the register at which a decision can
// have looked that the ledger has since a time. What was on its way while an engine was frozen or cut
// off may be as old as that. It comes right after that: an engine decides no more by what it read before.
func (a *Auditor) lookedFrom(at uint64) uint64 {
	from := int64(at) - int64(registerAge)
	for _, late := range a.lateRequests {
		if int64(at) <= late.To.UnixNano()+int64(wayToLedger) {
			from = min(from, late.From.UnixNano()-int64(registerAge))
		}
	}
	return uint64(max(0, from))
}

func (a *Auditor) terms(bank accountID) *bankTerms { return a.acts.of(booksOf(bank)) }

// judgeSuspended checks a refusal with DS27: the register suspended one of the banks.
func (a *Auditor) judgeSuspended(at uint64, banks ...accountID) refusal {
	if _, has := a.accounts[register]; !has {
		return refusal{unchecked: true}
	}
	for _, bank := range banks {
		if slices.Contains(a.terms(bank).suspended.during(a.lookedFrom(at), at), true) {
			return refusal{}
		}
	}
	return unless(false, "neither of %s was suspended", ispbsOf(banks))
}

func ispbsOf(banks []accountID) (all []string) {
	for _, bank := range banks {
		all = append(all, ispbOf(bank))
	}
	return all
}

// judgeBegun checks what was begun for banks, which none of them may be after its suspension.
func (a *Auditor) judgeBegun(subject string, at uint64, banks ...accountID) {
	for _, bank := range banks {
		if !slices.Contains(a.terms(bank).suspended.during(a.lookedFrom(at), at), false) {
			a.add(BeyondTerms, subject, "it was begun although %s had been suspended for more than %v", ispbOf(bank), registerAge)
		}
	}
}

// judgePaymentCap checks a refusal with AM13: the payment is above the cap of its payer's bank.
func (a *Auditor) judgePaymentCap(p *payment) refusal {
	caps := a.terms(p.content.payer).paymentCap.during(a.lookedFrom(p.decidedAt), p.decidedAt)
	return unless(slices.ContainsFunc(caps, func(limit uint64) bool { return limit > 0 && p.content.centavos > limit }),
		"its %d centavos are not above a cap on payments of %s: %d", p.content.centavos, ispbOf(p.content.payer), caps)
}

// judgeTerms checks what was held for a payment against the register.
func (a *Auditor) judgeTerms(p *payment) {
	if p.held == 0 || p.foreign != 0 {
		return
	}
	c := p.content
	a.judgeBegun(p.id.String(), p.heldAt, c.payer, c.payee)
	terms, from := a.terms(c.payer), a.lookedFrom(p.heldAt)
	caps := terms.paymentCap.during(from, p.heldAt)
	if !slices.ContainsFunc(caps, func(limit uint64) bool { return limit == 0 || c.centavos <= limit }) {
		a.add(BeyondTerms, p.id.String(), "%d centavos were held, above the cap of %s on a payment: %d", c.centavos, ispbOf(c.payer), caps)
	}
	if p.capHeldAt == 0 && !p.sameBank() && !a.clockWasWrong(p.acceptedMs, p.heldAt) {
		for _, window := range windowsBetween(from, p.heldAt) {
			if slices.ContainsFunc(terms.outflow[window].during(from, p.heldAt), func(limit outflowCap) bool { return limit.centavos == 0 }) {
				return
			}
		}
		a.add(WrongAllowance, p.id.String(), "it was held without leg 4, although the outflow of %s is capped", ispbOf(c.payer))
	}
}

// The day of caps is from 06:00 to 20:00 in São Paulo, which is 3 h behind UTC.
const (
	dayFrom, dayTo = 6 * time.Hour, 20 * time.Hour
	behindUTC      = 3 * time.Hour
)

// windowsBetween returns the windows, 0 by day and 1 by night, that were in force at some time between
// two times, as clocks say that are off by clockSkewMax.
func windowsBetween(from, to uint64) (windows []int) {
	at := func(ns int64) int {
		if clock := time.Duration((ns - int64(behindUTC)) % int64(24*time.Hour)); clock >= dayFrom && clock < dayTo {
			return 0
		}
		return 1
	}
	windows = []int{at(int64(from) - int64(clockSkewMax))}
	// A window is longer than an hour, so none between two times is missed.
	for ns := int64(from) - int64(clockSkewMax); len(windows) < 2; ns = min(ns+int64(time.Hour), int64(to)+int64(clockSkewMax)) {
		if w := at(ns); w != windows[0] {
			windows = append(windows, w)
		}
		if ns >= int64(to)+int64(clockSkewMax) {
			break
		}
	}
	return windows
}
