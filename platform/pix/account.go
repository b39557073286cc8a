package pix

import "fmt"

// Account identifies a customer account: the PSP that keeps it, the branch, the number.
type Account struct {
	ISPB   ISPB
	Branch string // exactly 4 digits, leading zeros kept
	Number string // 1 to 20 digits without leading zeros
}

const (
	branchLength    = 4
	numberLengthMax = 20
)

// AccountIn returns the account that a message names. Parts that the message lacks are empty.
func AccountIn(message interface {
	GetIspb() string
	GetBranch() string
	GetNumber() string
}) Account {
	return Account{ISPB: ISPB(message.GetIspb()), Branch: message.GetBranch(), Number: message.GetNumber()}
}

// Validate returns an error that names the part that is wrong and its value.
func (a Account) Validate() error {
	_, err := a.Wrong()
	return err
}

// Wrong returns which part is wrong, ispb, branch or number, and why.
func (a Account) Wrong() (part string, err error) {
	if _, err := ParseISPB(string(a.ISPB)); err != nil {
		return "ispb", err
	}

	if len(a.Branch) != branchLength || !digits(a.Branch) {
		return "branch", fmt.Errorf("branch is %s: it must be exactly %d digits", quote(a.Branch), branchLength)
	}

	if len(a.Number) < 1 || len(a.Number) > numberLengthMax || !digits(a.Number) || a.Number[0] == '0' {
		return "number", fmt.Errorf("account number is %s: it must be 1 to %d digits without leading zeros",
			quote(a.Number), numberLengthMax)
	}

	return "", nil
}

func (a Account) String() string { return string(a.ISPB) + "/" + a.Branch + "/" + a.Number }

func digits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}

	return true
}
