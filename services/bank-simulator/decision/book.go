package decision

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
)

// Whose tells whose behaviour a profile is: a bank's, or that of one of its branches.
// Written "bank" or "bank/branch", where the bank is an ISPB or "default" for every bank.
type Whose struct{ Bank, Branch string }

// AnyBank stands for every bank.
const AnyBank = "default"

// ParseWhose is the inverse of String; it returns an *Invalid.
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

// Profiles is what applies at one moment. It never changes.
type Profiles map[Whose]*Profile

// Of returns the profile for payments to a branch of a bank. The nearer wins: the bank's
// branch, the branch of any bank, the bank, any bank.
func (p Profiles) Of(bank, branch string) *Profile {
	for _, whose := range [...]Whose{{bank, branch}, {AnyBank, branch}, {bank, ""}} {
		if profile, ok := p[whose]; ok {
			return profile
		}
	}
	return p[Whose{Bank: AnyBank}]
}

// Book keeps the profiles and lets them change while payments are decided.
type Book struct {
	lateDelay   time.Duration
	profilesMax int
	initial     Profiles
	current     atomic.Pointer[Profiles]
	changing    sync.Mutex
}

// NewBook makes a book of the sandbox's branches and, over them, what the JSON object
// initial says (empty for nothing): {"default": {...}, "10000001/9003": {...}}.
func NewBook(initial string, lateDelay time.Duration, profilesMax int) (*Book, error) {
	accepting, rejecting := Accepting(lateDelay), func(reason pix.Reason) *Profile {
		return &Profile{RejectCodes: []string{reason.String()}, LateDelayMs: lateDelay.Milliseconds()}
	}
	profiles := Profiles{
		{AnyBank, ""}:                    &accepting,
		{AnyBank, sandbox.SilentBranch}:  {SilentShare: 1, LateDelayMs: lateDelay.Milliseconds()},
		{AnyBank, sandbox.LateBranch}:    {LateShare: 1, LateDelayMs: lateDelay.Milliseconds()},
		{AnyBank, sandbox.BlockedBranch}: rejecting(pix.ReasonPayeeBlocked),
		{AnyBank, sandbox.ClosedBranch}:  rejecting(pix.ReasonPayeeClosed),
	}
	drafts := map[string]Draft{}
	if initial != "" {
		decoder := json.NewDecoder(strings.NewReader(initial))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&drafts); err != nil {
			return nil, fmt.Errorf("it must be a JSON object of profiles by bank or bank/branch: %w", err)
		}
		if decoder.More() {
			return nil, fmt.Errorf("something follows the JSON object")
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
		return nil, fmt.Errorf("it makes %d profiles with those of the sandbox: at most %d are allowed", len(profiles), profilesMax)
	}
	b := &Book{lateDelay: lateDelay, profilesMax: profilesMax, initial: profiles}
	b.current.Store(&profiles)
	return b, nil
}

// Profiles returns what applies now.
func (b *Book) Profiles() Profiles { return *b.current.Load() }

// Put makes the draft a profile that applies at once. It returns an *Invalid or a *Full.
func (b *Book) Put(whose Whose, draft Draft) (Profile, error) {
	profile, err := draft.Profile(b.lateDelay)
	if err != nil {
		return profile, err
	}
	b.changing.Lock()
	defer b.changing.Unlock()
	changed := maps.Clone(b.Profiles())
	changed[whose] = &profile
	if len(changed) > b.profilesMax {
		return profile, &Full{b.profilesMax}
	}
	b.current.Store(&changed)
	return profile, nil
}

// Reset brings back what the program began with for this bank or branch, if anything.
func (b *Book) Reset(whose Whose) {
	b.changing.Lock()
	defer b.changing.Unlock()
	changed := maps.Clone(b.Profiles())
	if initial, ok := b.initial[whose]; ok {
		changed[whose] = initial
	} else {
		delete(changed, whose)
	}
	b.current.Store(&changed)
}

// Full says that no more profiles fit.
type Full struct{ Max int }

func (e *Full) Error() string {
	return fmt.Sprintf("there are %d profiles, which is the limit: delete one, or raise SIMULATOR_PROFILES_MAX", e.Max)
}
