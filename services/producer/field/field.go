// Package field knows the fields of requests: what each must be, and the response to one
// that is wrong.
package field

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Account is a customer's account in requests and responses.
type Account struct {
	ISPB   string `json:"ispb" required:"true" pattern:"^[0-9A-Z]{8}$" example:"10000001" doc:"The bank."`
	Branch string `json:"branch" required:"true" pattern:"^[0-9]{4}$" example:"0001"`
	Number string `json:"number" required:"true" pattern:"^[1-9][0-9]{0,19}$" example:"1"`
}

// AccountOf returns an account as requests and responses show it.
func AccountOf(a pix.Account) Account { return Account{string(a.ISPB), a.Branch, a.Number} }

// PSP returns the ISPB of the account's bank, or "" of none.
func (a *Account) PSP() string {
	if a == nil {
		return ""
	}

	return a.ISPB
}

// Pix returns the account, which may be invalid.
func (a Account) Pix() pix.Account {
	return pix.Account{ISPB: pix.ISPB(a.ISPB), Branch: a.Branch, Number: a.Number}
}

// Proto returns the account as messages hold it.
func (a Account) Proto() *pixv1.Account {
	return &pixv1.Account{Ispb: a.ISPB, Branch: a.Branch, Number: a.Number}
}

// Rules say what each field must be. Problems and the API's description show them.
var Rules = map[string]string{
	"end_to_end_id":          "E, the payer's ISPB, yyyyMMddHHmm in UTC within 12 h of the acceptance, 11 of 0-9 A-Z a-z: 32 characters",
	"return_id":              "D, the ISPB of the bank that gives back, yyyyMMddHHmm in UTC within 12 h of the acceptance, 11 of 0-9 A-Z a-z: 32 characters",
	"original_end_to_end_id": "the EndToEndId of a payment",
	"reason_code":            "MD06, BE08, FR01 or SL02",
	"payer":                  accountRule,
	"payee":                  accountRule,
	"account":                accountRule,
	"ispb":                   ispbRule,
	"amount_centavos":        "an integer from 1 to 9223372036854775807 (2^63-1)",
	"accepted_at":            "a time as in RFC 3339, at most 5 s in the future",
	"remittance_information": "at most 140 bytes of UTF-8",
	"payer.ispb":             ispbRule,
	"payer.branch":           branchRule,
	"payer.number":           numberRule,
	"payee.ispb":             ispbRule,
	"payee.branch":           branchRule,
	"payee.number":           numberRule,
	"participant":            "an ISPB: 8 characters of 0-9 A-Z; the central bank may say all",
	"from":                   "start, end, or the id of an event of this stream",
	"day":                    "a day in São Paulo's time: yyyy-MM-dd, from 2020-01-01 on",
	"until":                  "a time of that day as in RFC 3339, or its end",
	"format":                 "json, csv or camt053",
	"act_id":                 "1 to 64 characters of 0-9 A-Z a-z . _ -",
	"share":                  "1 to 64 characters of 0-9 A-Z a-z . _ -",
	"value":                  "base64 (RFC 4648) of at most 256 bytes, a pix.v1.AuthorizationResponse",
	"value.end_to_end_id":    "the id of a question",
	"value.ispb":             "the ISPB of the path",
	"value.status":           "1 (ACSP) or 2 (RJCT)",
	"value.reason_code":      "empty beside ACSP; beside RJCT 4 characters of A-Z 0-9 that neither the ledger nor the engine gives",
	"seal":                   "base64 (RFC 4648) of 32 bytes: the HMAC-SHA-256 of the value's bytes",
	"answers":                "1 to 64 answers",
	"limit":                  "an integer from 1 to PAGE_MAX",
	"cursor":                 "a next_cursor of an earlier response",
}

// ReadJSON is web.ReadJSON, with this API's rule for an amount: otherwise -5 would break another rule than 0.
func ReadJSON(body io.Reader, target any) *web.Problem {
	problem := web.ReadJSON(body, target)
	// a value of another type
	if problem != nil && problem.Value != nil && strings.HasPrefix(Rules[problem.Field], "an integer") {
		problem.Detail = strings.Replace(problem.Detail, problem.Rule, Rules[problem.Field], 1)
		problem.Rule = Rules[problem.Field]
	}

	return problem
}

const (
	ispbRule    = "8 characters of 0-9 A-Z"
	branchRule  = "4 digits"
	numberRule  = "1 to 20 digits without leading zeros"
	accountRule = "ispb: " + ispbRule + "; branch: " + branchRule + "; number: " + numberRule
)

// InvalidAccount is the response to an account of which a part is wrong. It returns nil of a valid one.
func InvalidAccount(endToEndID, name string, a Account) *web.Problem {
	part, err := a.Pix().Wrong()
	if err != nil {
		value := map[string]string{"ispb": a.ISPB, "branch": a.Branch, "number": a.Number}[part]
		return Invalid(endToEndID, name+"."+part, value, pix.ReasonMalformed, err.Error())
	}

	return nil
}

// Invalid is the response to a wrong value. It does not name the payment by an id that is
// itself wrong.
func Invalid(endToEndID, field string, value any, code pix.Reason, detail string) *web.Problem {
	if field == "end_to_end_id" {
		endToEndID = ""
	}

	return &web.Problem{Type: web.Kind("invalid-value"), Title: "Invalid value", Status: http.StatusUnprocessableEntity,
		Detail: fmt.Sprintf("%s: %s", field, detail), Field: field, Value: value, Rule: Rules[field],
		Code: code.String(), EndToEndID: endToEndID}
}
