package frontdoor

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/feed"
	"github.com/liquida/liquida/services/producer/field"
	"github.com/liquida/liquida/services/producer/query"
	"github.com/liquida/liquida/services/producer/submission"
)

// batchPath may have a larger body than other paths.
const batchPath = "/v1/payments:batch"

// route is one operation of the API: its handler and its description. The served description
// is generated from the routes, so none is missing.
type route struct {
	method, path string
	handler      http.HandlerFunc
	permission   access.Permission // nil: the central bank only
	lasts        bool              // a stream: HEAD would wait for its end

	id, summary, description string
	parameters               []string // names in parameters, without those of the path
	body                     message
	responses                map[int]message
	others                   []message // other media types of the response 200
	problems                 []int
}

// message is a body: its media type, and an example whose Go type is the schema.
type message struct {
	description, mediaType string
	example                any
}

const (
	asJSON    = "application/json"
	asNDJSON  = "application/x-ndjson"
	asEvents  = "text/event-stream"
	asProblem = "application/problem+json"
)

func api(submissions *submission.Submissions, ledger *query.Ledger, feed *feed.Feed) []route {
	return []route{
		{
			method: "POST", path: "/v1/payments", handler: submissions.Pay, permission: access.DecidedInside, id: "pay",
			summary: "Send a payment",
			description: "Responds once Kafka has acknowledged the payment. 503 with an end_to_end_id means that its fate is unknown: send the same again, which is safe. " +
				"With Prefer: wait=N the response waits for the outcome (200), at most N seconds (202).",
			parameters: []string{"Prefer"}, body: message{"The payment.", asJSON, examplePayment},
			responses: map[int]message{
				http.StatusAccepted: {"Accepted: it will be settled or rejected.", asJSON, submission.Accepted{EndToEndID: exampleID, Status: "accepted"}},
				http.StatusOK:       {"The outcome, when the caller prefers to wait and it comes in time.", asJSON, exampleState},
			},
			problems: []int{400, 413, 422, 429, 503},
		},
		{
			method: "POST", path: batchPath, handler: submissions.PayBatch, permission: access.DecidedInside, id: "payBatch",
			summary: "Send many payments",
			description: "The request has one payment a line. The response has one result a line, in the same order, each once Kafka has acknowledged the payment; it begins before the request has ended. " +
				"A wrong line does not affect the others. Empty lines are skipped. A result with status 413, or one that says that the body ended early, is the last: neither its line nor the lines after it were sent.",
			body: message{"One payment a line.", asNDJSON, examplePayment},
			responses: map[int]message{
				http.StatusOK: {"One result a line.", asNDJSON, submission.BatchResult{Line: 1, EndToEndID: exampleID, Status: "accepted"}},
			},
			problems: []int{413, 429},
		},
		{
			method: "GET", path: "/v1/payments/{endToEndId}", handler: ledger.Payment, permission: access.DecidedInside, id: "payment",
			summary: "The state of a payment", description: "Computed from the ledger alone, with the returns of the payment. 404 means that the ledger does not know it (yet).",
			responses: map[int]message{http.StatusOK: {"Its state.", asJSON, exampleState}},
			problems:  []int{404, 422, 429, 503},
		},
		{
			method: "GET", path: "/v1/payments/{endToEndId}/events", handler: feed.PaymentEvents, permission: access.DecidedInside, lasts: true, id: "paymentEvents",
			summary:     "The states of a payment as they come",
			description: "Server-sent events named state. The data is that of GET /v1/payments/{endToEndId}, and the status may be unknown. The stream ends after settled or rejected.",
			responses:   map[int]message{http.StatusOK: {"Events. The data of each is a PaymentState.", asEvents, exampleEvent("settled", "state", exampleState)}},
			problems:    []int{422, 429, 503},
		},
		{
			method: "POST", path: "/v1/returns", handler: submissions.GiveBack, permission: access.DecidedInside, id: "giveBack",
			summary: "Return a payment, all or a part of it",
			description: "The bank that received a payment can return it within 90 days of its settlement, as often as there is something left. Responds once Kafka has acknowledged the return; " +
				"503 with an end_to_end_id, which is the return's, means that its fate is unknown: send the same again, which is safe. " +
				"With Prefer: wait=N the response waits for the outcome (200), at most N seconds (202).",
			parameters: []string{"Prefer"}, body: message{"The return.", asJSON, exampleReturn},
			responses: map[int]message{
				http.StatusAccepted: {"Accepted: it will be settled or rejected.", asJSON, submission.AcceptedReturn{ReturnID: exampleReturnID, Status: "accepted"}},
				http.StatusOK:       {"The outcome, when the caller prefers to wait and it comes in time.", asJSON, exampleReturnState},
			},
			problems: []int{400, 413, 422, 429, 503},
		},
		{
			method: "GET", path: "/v1/returns/{returnId}", handler: ledger.Return, permission: access.DecidedInside, id: "return",
			summary: "The state of a return", description: "Computed from the ledger alone. 404 means that the ledger does not know it (yet).",
			responses: map[int]message{http.StatusOK: {"Its state.", asJSON, exampleReturnState}},
			problems:  []int{404, 422, 429, 503},
		},
		{
			method: "GET", path: "/v1/returns/{returnId}/events", handler: feed.ReturnEvents, permission: access.DecidedInside, lasts: true, id: "returnEvents",
			summary:     "The states of a return as they come",
			description: "Server-sent events named state. The data is that of GET /v1/returns/{returnId}, and the status may be unknown. The stream ends after settled or rejected.",
			responses:   map[int]message{http.StatusOK: {"Events. The data of each is a ReturnState.", asEvents, exampleEvent("settled", "state", exampleReturnState)}},
			problems:    []int{422, 429, 503},
		},
		{
			method: "GET", path: "/v1/settlements", handler: feed.Settlements, permission: access.OwnParticipant, lasts: true, id: "settlements",
			summary: "How a participant's payments and returns end, as it happens",
			description: "Server-sent events named settlement, for payments and returns that the participant pays or receives. A payment that was refused before anything was held is told to the payer's bank only. The id of an event is the position after it: give it as from, or as Last-Event-ID, to go on. " +
				"Delivered at least once: compare end_to_end_id. Payments of one partition come in order, others in any. A participant has at most 8 such streams.",
			parameters: []string{"participant", "from", "Last-Event-ID"},
			responses:  map[int]message{http.StatusOK: {"Events. The data of each is a Settlement.", asEvents, exampleEvent("AQUDBwI", "settlement", exampleSettlement)}},
			problems:   []int{422, 429, 503},
		},
		{
			method: "GET", path: "/v1/accounts/{ispb}/{branch}/{number}", handler: ledger.Account, permission: access.OwnPath, id: "account",
			summary:   "The balance of a customer's account",
			responses: map[int]message{http.StatusOK: {"Its balance.", asJSON, query.AccountBalance{ISPB: "10000001", Branch: "0001", Number: "1", Balance: exampleBalance}}},
			problems:  []int{404, 422, 429, 503},
		},
		{
			method: "GET", path: "/v1/accounts/{ispb}/{branch}/{number}/statement", handler: ledger.Statement, permission: access.OwnPath, id: "statement",
			summary:     "The movements of a customer's account, newest first",
			description: "A held line changes what is pending, a posted line the balance, and a released line ends a hold. A hold that expires is released without a line.",
			parameters:  []string{"limit", "cursor"},
			responses:   map[int]message{http.StatusOK: {"A page of lines.", asJSON, exampleStatement}},
			problems:    []int{404, 422, 429, 503},
		},
		{
			method: "GET", path: "/v1/participants", handler: ledger.Participants, permission: access.CentralBankOnly, id: "participants",
			summary: "All participants", description: "For the central bank only.", parameters: []string{"limit", "cursor"},
			responses: map[int]message{http.StatusOK: {"A page of participants.", asJSON, query.ParticipantPage{Participants: []query.Participant{exampleParticipant}}}},
			problems:  []int{422, 429, 503},
		},
		{
			method: "GET", path: "/v1/participants/{ispb}", handler: ledger.Participant, permission: access.OwnPath, id: "participant",
			summary: "A participant's reserve and transit, and whether its books agree", description: "Both accounts are of one instant.",
			responses: map[int]message{http.StatusOK: {"The participant.", asJSON, exampleParticipant}},
			problems:  []int{404, 422, 429, 503},
		},
		{
			method: "GET", path: "/v1/participants/{ispb}/statements/{day}", handler: ledger.DayStatement, permission: access.OwnPath, lasts: true, id: "dayStatement",
			summary: "What moved a participant's reserve on a day",
			description: "For days that are over by the ledger's clock, or a part of one (until): what is told then is the same forever, byte for byte. Each line is a movement of the reserve; payments within one bank move none. " +
				"The lines sum up to the reserve, or the connection breaks: a response that ends is right. Formats: docs/closing.md.",
			parameters: []string{"format", "until"},
			responses:  map[int]message{http.StatusOK: {"The statement.", asJSON, exampleDay}},
			others:     []message{{"", "text/csv", exampleDayCSV}, {"", "application/xml", exampleDayCamt}},
			problems:   []int{404, 409, 422, 429, 500, 503, 505},
		},
	}
}

// parameters are those of path, query and header, by name.
var parameters = map[string]*huma.Param{
	"endToEndId":    {In: "path", Required: true, Example: exampleID, Description: field.Rules["end_to_end_id"], Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^E[0-9A-Z]{8}[0-9]{12}[0-9A-Za-z]{11}$"}},
	"returnId":      {In: "path", Required: true, Example: exampleReturnID, Description: field.Rules["return_id"], Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^D[0-9A-Z]{8}[0-9]{12}[0-9A-Za-z]{11}$"}},
	"ispb":          {In: "path", Required: true, Example: "10000001", Description: field.Rules["ispb"], Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^[0-9A-Z]{8}$"}},
	"branch":        {In: "path", Required: true, Example: "0001", Description: "4 digits", Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^[0-9]{4}$"}},
	"number":        {In: "path", Required: true, Example: "1", Description: "1 to 20 digits without leading zeros", Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^[1-9][0-9]{0,19}$"}},
	"limit":         {In: "query", Description: field.Rules["limit"] + "; 100 when left out", Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0)}},
	"cursor":        {In: "query", Description: field.Rules["cursor"], Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^[0-9]+$"}},
	"day":           {In: "path", Required: true, Example: "2026-01-02", Description: field.Rules["day"], Schema: &huma.Schema{Type: huma.TypeString, Format: "date"}},
	"until":         {In: "query", Description: field.Rules["until"] + "; the end of the day when left out", Schema: &huma.Schema{Type: huma.TypeString, Format: "date-time"}},
	"format":        {In: "query", Description: field.Rules["format"] + "; json when left out", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"json", "csv", "camt053"}}},
	"participant":   {In: "query", Required: true, Example: "10000001", Description: field.Rules["participant"], Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^[0-9A-Z]{8}$"}},
	"from":          {In: "query", Description: field.Rules["from"] + "; end when left out", Schema: &huma.Schema{Type: huma.TypeString}},
	"Last-Event-ID": {In: "header", Description: "The id of the last event that was handled. It takes precedence over from.", Schema: &huma.Schema{Type: huma.TypeString}},
	"Prefer":        {In: "header", Example: "wait=10", Description: "wait=N: wait for the outcome, at most N seconds (RFC 7240). Preference-Applied says how long the response may have waited.", Schema: &huma.Schema{Type: huma.TypeString}},
}
