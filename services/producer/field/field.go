// Package field knows the fields of requests: what each must be, and the response to one
// that is wrong.
package field

import (
	"fmt"
	"net/http"

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
	"ispb":                   "8 characters of 0-9 A-Z",
	"amount_centavos":        "an integer from 1 to 9223372036854775807 (2^63-1)",
	"accepted_at":            "a time as in RFC 3339, at most 5 s in the future",
	"remittance_information": "at most 140 bytes of UTF-8",
	"participant":            "an ISPB: 8 characters of 0-9 A-Z; the central bank may say all",
	"from":                   "start, end, or the id of an event of this stream",
	"day":                    "a day in São Paulo's time: yyyy-MM-dd, from 2020-01-01 on",
	"until":                  "a time of that day as in RFC 3339, or its end",
	"format":                 "json, csv or camt053",
	"act_id":                 "1 to 64 characters of 0-9 A-Z a-z . _ -",
	"limit":                  "an integer from 1 to PAGE_MAX",
	"cursor":                 "a next_cursor of an earlier response",
}

const accountRule = "ispb: 8 characters of 0-9 A-Z; branch: 4 digits; number: 1 to 20 digits without leading zeros"

// Invalid is the response to a wrong value. It does not name the payment by an id that is
// itself wrong.
func Invalid(endToEndID, field string, value any, code pix.Reason, detail string) *web.Problem {
	if field == "end_to_end_id" {
		endToEndID = ""
	}
	return &web.Problem{Type: web.Kind("invalid-value"), Title: "Invalid value", Status: http.StatusUnprocessableEntity,
		Detail: fmt.Sprintf("%s: %s", field, detail), Field: field, Value: value, Rule: Rules[field], Code: code.String(), EndToEndID: endToEndID}
}
