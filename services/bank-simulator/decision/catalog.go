package decision

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/web"
)

// Whose names the owner of a profile: a bank or one of its branches. It is written "bank"
// or "bank/branch", where bank is an ISPB, or "default" for every bank.
type Whose struct{ Bank, Branch string }

// AnyBank stands for every bank.
const AnyBank = "default"

// ParseWhose is the inverse of String. Its error is an *Invalid.
func ParseWhose(text string) (Whose, error) {
	bank, branch, branched := strings.Cut(text, "/")
	if _, err := pix.ParseISPB(bank); err != nil && bank != AnyBank {
		return Whose{}, &Invalid{"bank", bank, fmt.Sprintf("it must be %q or an ISPB: %v", AnyBank, err)}
	}

	if branched {
		if err := (pix.Account{ISPB: "00000000", Branch: branch, Number: "1"}).Validate(); err != nil {
			return Whose{}, &Invalid{"branch", branch, err.Error()}
		}
	}

	return Whose{bank, branch}, nil
}

func (w Whose) String() string {
	if w.Branch == "" {
		return w.Bank
	}

	return w.Bank + "/" + w.Branch
}

// MarshalText makes Whose the key of a JSON object.
func (w Whose) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// Profiles are those in force at one moment. They never change.
type Profiles map[Whose]*Profile

// Of returns the profile for payments to a branch of a bank. The most specific one wins:
// the bank's branch, the branch of any bank, the bank, any bank.
func (p Profiles) Of(bank, branch string) *Profile {
	for _, whose := range [...]Whose{{bank, branch}, {AnyBank, branch}, {bank, ""}} {
		if profile, ok := p[whose]; ok {
			return profile
		}
	}

	return p[Whose{Bank: AnyBank}]
}

// Catalog keeps the profiles. They may change while payments are decided.
type Catalog struct {
	lateDelay   time.Duration
	profilesMax int
	initial     Profiles
	current     atomic.Pointer[Profiles]
	changing    sync.Mutex
}

// NewCatalog begins with the profiles of the sandbox's branches. The JSON object initial
// overrides and adds to them: {"default": {...}, "10000001/9003": {...}}. It may be empty.
func NewCatalog(initial string, lateDelay time.Duration, profilesMax int) (*Catalog, error) {
	late := lateDelay.Milliseconds()
	rejecting := func(reason pix.Reason) *Profile {
		return &Profile{RejectCodes: []string{reason.String()}, LateDelayMs: late}
	}
	profiles := Profiles{
		{AnyBank, ""}:                    {AcceptShare: 1, LateDelayMs: late},
		{AnyBank, sandbox.SilentBranch}:  {SilentShare: 1, LateDelayMs: late},
		{AnyBank, sandbox.LateBranch}:    {LateShare: 1, LateDelayMs: late},
		{AnyBank, sandbox.BlockedBranch}: rejecting(pix.ReasonPayeeBlocked),
		{AnyBank, sandbox.ClosedBranch}:  rejecting(pix.ReasonPayeeClosed),
	}

	drafts := map[string]Draft{}
	if initial != "" {
		if err := web.DecodeJSON([]byte(initial), &drafts); err != nil {
			return nil, fmt.Errorf("it must be a JSON object of profiles by bank or bank/branch: %w", err)
		}
	}

	for name, draft := range drafts {
		whose, err := ParseWhose(name)
		if err != nil {
			return nil, err
		}

		profile, err := draft.Profile(lateDelay)
		if err != nil {
			return nil, fmt.Errorf("profile %q: %w", name, err)
		}
		profiles[whose] = &profile
	}

	if len(profiles) > profilesMax {
		return nil, fmt.Errorf("it makes %d profiles with those of the sandbox: at most %d are allowed", len(profiles),
			profilesMax)
	}
	c := &Catalog{lateDelay: lateDelay, profilesMax: profilesMax, initial: profiles}
	c.current.Store(&profiles)

	return c, nil
}

// Profiles returns those in force now.
func (c *Catalog) Profiles() Profiles { return *c.current.Load() }

// Put sets a profile; it is in force at once. Its error is an *Invalid or a *Full.
func (c *Catalog) Put(whose Whose, draft Draft) (Profile, error) {
	profile, err := draft.Profile(c.lateDelay)
	if err != nil {
		return profile, err
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	changed := maps.Clone(c.Profiles())

	changed[whose] = &profile
	if len(changed) > c.profilesMax {
		return profile, &Full{c.profilesMax}
	}
	c.current.Store(&changed)

	return profile, nil
}

// Reset restores the initial profile of a bank or branch, or removes the profile if there
// was none.
func (c *Catalog) Reset(whose Whose) {
	c.changing.Lock()
	defer c.changing.Unlock()

	changed := maps.Clone(c.Profiles())
	if initial, ok := c.initial[whose]; ok {
		changed[whose] = initial
	} else {
		delete(changed, whose)
	}
	c.current.Store(&changed)
}

// Full is the error of a catalog that has reached its limit.
type Full struct{ Max int }

func (e *Full) Error() string {
	return fmt.Sprintf("there are %d profiles, which is the limit: delete one", e.Max)
}
