package audit

import (
	"slices"
	"strconv"
	"strings"

	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// The codes of records that are no orders.
const (
	codeMalformed     = "FF01"
	codeBadID         = "FF08"
	codeBadAcceptance = "DT02"
)

// flaw is one thing for which a record is no order. Its dead letter may name any of them: by
// the code, and by a text that names the field and the value.
type flaw struct {
	code, field, value string
	err                error
}

type flaws []flaw

func (f flaws) String() string {
	if len(f) == 0 {
		return "nothing"
	}
	return f[0].err.Error()
}

// codes returns the codes that the dead letter may have.
func (f flaws) codes() string {
	var codes []string
	for _, flaw := range f {
		if !slices.Contains(codes, flaw.code) {
			codes = append(codes, flaw.code)
		}
	}
	return strings.Join(codes, " or ")
}

func (f flaws) has(code string) bool {
	return slices.ContainsFunc(f, func(flaw flaw) bool { return flaw.code == code })
}

// note adds a flaw, if there is an error.
func (f *flaws) note(err error, code, field, value string) {
	if err != nil {
		*f = append(*f, flaw{code, field, value, err})
	}
}

// noteAccount adds each part of an account that is wrong.
func (f *flaws) noteAccount(field string, account *pixv1.Account) {
	parts := [...]string{"10000001", "0001", "1"} // of an account that is right
	for i, part := range [...]string{account.GetIspb(), account.GetBranch(), account.GetNumber()} {
		tried := parts
		tried[i] = part
		_, err := customerAccount(tried[0], tried[1], tried[2])
		f.note(err, codeMalformed, field, part)
	}
}

// textValueMax bounds the value that a text must hold: hostile input must not flood a log.
const textValueMax = 64

// told reports whether a text names a flaw with this code: the field, and the value as Go quotes it.
func (f flaws) told(code, text string) bool {
	return slices.ContainsFunc(f, func(flaw flaw) bool {
		return flaw.code == code && names(text, flaw.field, flaw.value)
	})
}

// names reports whether a text is about a field and holds a value.
func names(text, field, value string) bool {
	quoted := strconv.Quote(value[:min(len(value), textValueMax)])
	rest, ofField := strings.CutPrefix(text, field+": ")
	return ofField && rest != "" && strings.Contains(rest, quoted[1:len(quoted)-1])
}
