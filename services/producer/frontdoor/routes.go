package frontdoor

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/act"
	"github.com/liquida/liquida/services/producer/feed"
	"github.com/liquida/liquida/services/producer/field"
	"github.com/liquida/liquida/services/producer/query"
	"github.com/liquida/liquida/services/producer/question"
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
	paying       bool              // a GET that paying needs: it waits for no turn, unless it is refused

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

func api(submissions *submission.Submissions, ledger *query.Ledger, feed *feed.Feed, acts *act.Acts,
	board *question.Board) []route {
	return []route{
		{
			method: "POST", path: "/v1/payments", handler: serves(submissions.Pay),
			permission: access.DecidedInside, id: "pay",
			summary: "Send a payment",
			description: "Responds once Kafka has acknowledged the payment. 503 with an end_to_end_id means that its fate is unknown: send the same again, which is safe. " +
				"With Prefer: wait=N the response waits for the outcome (200), at most N seconds (202). " +
				otherContent,
			parameters: []string{"Prefer"}, body: message{"The payment.", asJSON, examplePayment},
			responses: map[int]message{
				http.StatusAccepted: {"Stored, and nothing more: the payment may be settled, rejected, or become a dead letter. Its status tells.",
					asJSON, submission.Accepted{EndToEndID: exampleID, Status: "accepted"}},
				http.StatusOK: {"The outcome, when the caller prefers to wait and it comes in time.", asJSON,
					exampleState},
			},
			problems: []int{400, 409, 413, 429, 503},
		},
		{
			method: "POST", path: batchPath, handler: serves(submissions.PayBatch), permission: access.DecidedInside,
			id:      "payBatch",
			summary: "Send many payments",
			description: "The request has one payment a line. The response has one result a line, in the same order, each once Kafka has acknowledged the payment; it begins before the request has ended. " +
				"A wrong line does not affect the others. A line has status 409 as the response to a single payment has it; accepted means stored, as 202 does. Empty lines are skipped. A result with status 413, or one that says that the body ended early, is the last: neither its line nor the lines after it were sent.",
			body: message{"One payment a line.", asNDJSON, examplePayment},
			responses: map[int]message{
				http.StatusOK: {"One result a line.", asNDJSON,
					submission.BatchResult{Line: 1, EndToEndID: exampleID, Status: "accepted"}},
			},
			problems: []int{400, 413, 429},
		},
		{
			method: "GET", path: "/v1/payments/{endToEndId}", handler: answers(ledger.Payment),
			permission: access.DecidedInside, id: "payment",
			summary:     "The state of a payment",
			description: "Computed from the ledger alone, with the returns of the payment. 404 means that the ledger does not know it (yet).",
			responses:   map[int]message{http.StatusOK: {"Its state.", asJSON, exampleState}},
			problems:    []int{404, 429, 503},
		},
		{
			method: "GET", path: "/v1/payments/{endToEndId}/events", handler: serves(feed.PaymentEvents),
			permission: access.DecidedInside, lasts: true, id: "paymentEvents",
			summary:     "The states of a payment as they come",
			description: "Server-sent events named state. The data is that of GET /v1/payments/{endToEndId}, and the status may be unknown. The stream ends after settled or rejected.",
			responses: map[int]message{
				http.StatusOK: {"Events. The data of each is a PaymentState.", asEvents,
					exampleEvent("settled", "state", exampleState)}},
			problems: []int{429, 503},
		},
		{
			method: "POST", path: "/v1/returns", handler: serves(submissions.GiveBack),
			permission: access.DecidedInside, id: "giveBack",
			summary: "Return a payment, all or a part of it",
			description: "The bank that received a payment can return it within 90 days of its settlement, as often as there is something left. Responds once Kafka has acknowledged the return; " +
				"503 with an end_to_end_id, which is the return's, means that its fate is unknown: send the same again, which is safe. " +
				"With Prefer: wait=N the response waits for the outcome (200), at most N seconds (202). " +
				otherContent,
			parameters: []string{"Prefer"}, body: message{"The return.", asJSON, exampleReturn},
			responses: map[int]message{
				http.StatusAccepted: {"Stored, and nothing more: the return may be settled, rejected, or become a dead letter. Its status tells.",
					asJSON, submission.AcceptedReturn{ReturnID: exampleReturnID, Status: "accepted"}},
				http.StatusOK: {"The outcome, when the caller prefers to wait and it comes in time.", asJSON,
					exampleReturnState},
			},
			problems: []int{400, 409, 413, 429, 503},
		},
		{
			method: "GET", path: "/v1/returns/{returnId}", handler: answers(ledger.Return),
			permission: access.DecidedInside, id: "returnState",
			summary:     "The state of a return",
			description: "Computed from the ledger alone. 404 means that the ledger does not know it (yet).",
			responses:   map[int]message{http.StatusOK: {"Its state.", asJSON, exampleReturnState}},
			problems:    []int{404, 429, 503},
		},
		{
			method: "GET", path: "/v1/returns/{returnId}/events", handler: serves(feed.ReturnEvents),
			permission: access.DecidedInside, lasts: true, id: "returnEvents",
			summary:     "The states of a return as they come",
			description: "Server-sent events named state. The data is that of GET /v1/returns/{returnId}, and the status may be unknown. The stream ends after settled or rejected.",
			responses: map[int]message{
				http.StatusOK: {"Events. The data of each is a ReturnState.", asEvents,
					exampleEvent("settled", "state", exampleReturnState)}},
			problems: []int{429, 503},
		},
		{
			method: "GET", path: "/v1/settlements", handler: serves(feed.Settlements),
			permission: access.OwnParticipant, lasts: true, id: "settlements",
			summary: "How a participant's payments and returns end, as it happens",
			description: "Server-sent events named settlement, for payments and returns that the participant pays or receives. A payment that was refused before anything was held is told to the payer's bank only. The id of an event is the position after it: give it as from, or as Last-Event-ID, to go on. " +
				"Delivered at least once: compare end_to_end_id. Payments of one partition come in order, others in any. A participant has at most 8 such streams. The central bank may follow all participants at once.",
			parameters: []string{"participant", "from", "Last-Event-ID"},
			responses: map[int]message{
				http.StatusOK: {"Events. The data of each is a Settlement.", asEvents,
					exampleEvent("AQUDBwI", "settlement", exampleSettlement)}},
			problems: []int{429, 503},
		},
		{
			method: "GET", path: "/v1/accounts/{ispb}/{branch}/{number}", handler: answers(ledger.Account),
			permission: access.OwnPath, id: "account",
			summary:   "A customer's account: its state and balance",
			responses: map[int]message{http.StatusOK: {"The account.", asJSON, exampleAccount}},
			problems:  []int{404, 429, 503},
		},
		{
			method: "GET", path: "/v1/accounts/{ispb}/{branch}/{number}/statement", handler: answers(ledger.Statement),
			permission: access.OwnPath, id: "statement",
			summary:     "The movements of a customer's account, newest first",
			description: "A held line changes what is pending, a posted line the balance, and a released line ends a hold. A hold that expires is released without a line.",
			parameters:  []string{"limit", "cursor"},
			responses:   map[int]message{http.StatusOK: {"A page of lines.", asJSON, exampleStatement}},
			problems:    []int{404, 429, 503},
		},
		{
			method: "GET", path: "/v1/participants", handler: answers(ledger.Participants),
			permission: access.CentralBankOnly, id: "participants",
			summary: "All participants", description: "For the central bank only.",
			parameters: []string{"limit", "cursor"},
			responses: map[int]message{
				http.StatusOK: {"A page of participants.", asJSON,
					query.ParticipantPage{Participants: []query.Participant{exampleParticipant},
						Issuance: query.Issuance{IssuedCentavos: 5_000_000_000_000, Holds: true}}}},
			problems: []int{429, 503},
		},
		{
			method: "GET", path: "/v1/participants/{ispb}", handler: answers(ledger.Participant),
			permission: access.OwnPath, id: "participant",
			summary:     "A participant: its state, reserve and transit, its caps and what is left of them, and whether its books agree",
			description: "All balances are of one instant.",
			responses:   map[int]message{http.StatusOK: {"The participant.", asJSON, exampleParticipant}},
			problems:    []int{404, 429, 503},
		},
		{
			method: "PUT", path: "/v1/participants/{ispb}/acts/{actId}", handler: answers(acts.OnParticipant),
			permission: access.ActsOnParticipant, id: "actOnParticipant",
			summary: "Register, suspend, resume or cap a participant, or move its liquidity",
			description: "For the central bank only. " + actDescription +
				" liquidity-in moves money from the issuance to the reserve, liquidity-out back, never below what payments hold. " +
				"A cap on outflow counts payments to other participants for window_seconds; day-cap is in force from 06:00 to 20:00 in São Paulo, night-cap in the other hours.",
			body: message{"The act.", asJSON, exampleParticipantAct},
			responses: map[int]message{
				http.StatusOK: {"It is done: the act, and the participant as it is now.", asJSON,
					act.ParticipantActDone{Act: exampleActDone, Participant: exampleParticipant}}},
			problems: []int{400, 404, 409, 413, 429, 503},
		},
		{
			method: "PUT", path: "/v1/accounts/{ispb}/{branch}/{number}/acts/{actId}", handler: answers(acts.OnAccount),
			permission: access.OwnAccounts, id: "actOnAccount",
			summary: "Open, block, close or reopen a customer's account, or take a deposit or withdrawal",
			description: "For the account's bank only. " + actDescription +
				" From an account that is blocked or closed no payment is taken here (422), and the bank answers AC06 or AC07 for what comes in. " +
				"Deposits and withdrawals need an open account. Closing moves nothing: withdraw before. A return of a payment that the account received is still taken, so that money can go back.",
			body: message{"The act.", asJSON, exampleAccountAct},
			responses: map[int]message{
				http.StatusOK: {"It is done: the act, and the account as it is now.", asJSON,
					act.AccountActDone{Act: exampleBlocked, Account: exampleAccount}}},
			problems: []int{400, 404, 409, 413, 429, 503},
		},
		{
			method: "GET", path: "/v1/participants/{ispb}/acts", handler: answers(ledger.ParticipantActs),
			permission: access.OwnPath, paying: true, id: "participantActs",
			summary: "The acts on a participant and on its accounts, oldest first", description: followDescription,
			parameters: []string{"limit", "cursor"},
			responses: map[int]message{
				http.StatusOK: {"A page of acts.", asJSON,
					query.ActPage{Acts: []query.Act{exampleActDone, exampleBlocked},
						NextCursor: "1767355200163456789"}}},
			problems: []int{404, 429, 503},
		},
		{
			method: "GET", path: "/v1/acts", handler: answers(ledger.Acts),
			permission: access.CentralBankOnly, paying: true, id: "acts",
			summary: "All acts, oldest first", description: "For the central bank only. " + followDescription,
			parameters: []string{"limit", "cursor"},
			responses: map[int]message{
				http.StatusOK: {"A page of acts.", asJSON,
					query.ActPage{Acts: []query.Act{exampleActDone, exampleBlocked},
						NextCursor: "1767355200163456789"}}},
			problems: []int{429, 503},
		},
		{
			method: "GET", path: "/v1/participants/{ispb}/accounts", handler: answers(ledger.OpenedAccounts),
			permission: access.OwnPath, id: "accounts",
			summary:     "The accounts that a participant has opened",
			description: "In the order in which they were opened. Those of the test population, which bootstrap made, are not listed.",
			parameters:  []string{"limit", "cursor"},
			responses: map[int]message{
				http.StatusOK: {"A page of accounts.", asJSON,
					query.AccountPage{Accounts: []query.AccountBalance{exampleAccount}}}},
			problems: []int{404, 429, 503},
		},
		{
			method: "GET", path: "/v1/participants/{ispb}/questions", handler: serves(board.Questions),
			permission: access.OwnQuestions, lasts: true, paying: true, id: "questions",
			summary: "What a bank is asked: whether it will credit its customers",
			description: "Server-sent events: question; over (the payment ended); refused (the seal of an answer was wrong, and the question is open). A stream begins with all open questions. It delivers at least once: a question comes again until it is answered or over. Last-Event-ID leaves out what was told before, at any front door. " +
				"Programs that name the same share divide the questions among them, at one front door; without a share each program is told all. With Accept: application/json it is a poll: open questions that no other poll has, at once, or with Prefer: wait=N as soon as there are some.",
			parameters: []string{"share", "Last-Event-ID", "Prefer"},
			responses: map[int]message{
				http.StatusOK: {"Events. The data of each is a Question, or News of one.", asEvents,
					exampleEvent("1767355200123", "question", exampleQuestion)}},
			others:   []message{{"", asJSON, question.Page{Questions: []question.Question{exampleQuestion}}}},
			problems: []int{400, 404, 429, 503},
		},
		{
			method: "POST", path: "/v1/participants/{ispb}/answers", handler: serves(board.Answer),
			permission: access.OwnQuestions, id: "answer",
			summary: "A bank's answers to its questions",
			description: "1 to 64 answers, each the bytes of a message and its seal, as docs/participant.md makes them. The front door cannot check a seal, and writes the bytes as they are. One answer gets its own status: 202 once Kafka has stored it, 404 (no such open question here), 409 (this bank has answered otherwise), 410 (the payment is over). " +
				"Several get 200, and a result each. Repeating is safe. A stored answer does not settle the payment: the settlement does, and it may come too late.",
			body: message{"The answers.", asJSON, exampleAnswers},
			responses: map[int]message{
				http.StatusAccepted: {"The one answer is stored.", asJSON,
					question.Result{EndToEndID: exampleID, Status: "stored"}},
				http.StatusOK: {"The results of several answers, in their order.", asJSON,
					question.Results{Results: []question.Result{{EndToEndID: exampleID, Status: "stored"}}}},
			},
			problems: []int{400, 404, 409, 410, 413, 429, 503},
		},
		{
			method: "GET", path: "/v1/participants/{ispb}/statements/{day}", handler: serves(ledger.DayStatement),
			permission: access.OwnPath, lasts: true, id: "dayStatement",
			summary: "What moved a participant's reserve on a day",
			description: "For days that are over by the ledger's clock, or a part of one (until): what is told then is the same forever, byte for byte. Each line is a movement of the reserve; payments within one bank move none. " +
				"The lines sum up to the reserve, or the connection breaks: a response that ends is right. Formats: docs/closing.md.",
			parameters: []string{"format", "until"},
			responses:  map[int]message{http.StatusOK: {"The statement.", asJSON, exampleDay}},
			others:     []message{{"", "text/csv", exampleDayCSV}, {"", "application/xml", exampleDayCamt}},
			problems:   []int{404, 409, 429, 500, 503, 505},
		},
	}
}

const (
	otherContent = "409 with the code DUPL: ledger or front door know the id with other content. Without a wait nothing was sent; after one, what was sent is a dead letter. No money moves for it."

	actDescription = "Idempotent: the id names the act forever, among those of the caller. Repeating a done act changes nothing, and answers its time and the state now. " +
		"409 if the id was used for another act. An act that the ledger refuses for want of money (422) burns its id: repeating it answers 409, and a new try needs a new id."
	followDescription = "next_cursor is always there: ask with it again to follow the acts. The same cursor again is the end for now."
)

// parameters are those of path, query and header, by name.
var parameters = map[string]*huma.Param{
	"endToEndId": {In: "path", Required: true, Example: exampleID, Description: field.Rules["end_to_end_id"],
		Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^E[0-9A-Z]{8}[0-9]{12}[0-9A-Za-z]{11}$"}},
	"returnId": {In: "path", Required: true, Example: exampleReturnID, Description: field.Rules["return_id"],
		Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^D[0-9A-Z]{8}[0-9]{12}[0-9A-Za-z]{11}$"}},
	"ispb": {In: "path", Required: true, Example: "10000001", Description: field.Rules["ispb"],
		Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^[0-9A-Z]{8}$"}},
	"actId": {In: "path", Required: true, Example: "2026-01-02-cap-10000001",
		Description: field.Rules["act_id"],
		Schema:      &huma.Schema{Type: huma.TypeString, Pattern: "^[A-Za-z0-9._-]{1,64}$"}},
	"branch": {In: "path", Required: true, Example: "0001", Description: "4 digits",
		Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^[0-9]{4}$"}},
	"number": {In: "path", Required: true, Example: "1", Description: "1 to 20 digits without leading zeros",
		Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^[1-9][0-9]{0,19}$"}},
	"limit": {In: "query", Description: field.Rules["limit"] + "; 100 when left out",
		Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0)}},
	"cursor": {In: "query", Description: field.Rules["cursor"],
		Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^[0-9]+$"}},
	"day": {In: "path", Required: true, Example: "2026-01-02", Description: field.Rules["day"],
		Schema: &huma.Schema{Type: huma.TypeString, Format: "date"}},
	"until": {In: "query", Description: field.Rules["until"] + "; the end of the day when left out",
		Schema: &huma.Schema{Type: huma.TypeString, Format: "date-time"}},
	"format": {In: "query", Description: field.Rules["format"] + "; json when left out",
		Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"json", "csv", "camt053"}}},
	"share": {In: "query", Example: "cards",
		Description: field.Rules["share"] + "; programs of one share divide the questions among them",
		Schema:      &huma.Schema{Type: huma.TypeString, Pattern: "^[0-9A-Za-z._-]{1,64}$"}},
	"participant": {In: "query", Required: true, Example: "10000001", Description: field.Rules["participant"],
		Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^([0-9A-Z]{8}|all)$"}},
	"from": {In: "query", Description: field.Rules["from"] + "; end when left out",
		Schema: &huma.Schema{Type: huma.TypeString}},
	"Last-Event-ID": {In: "header",
		Description: "The id of the last event that was handled. Of settlements it takes precedence over from; of questions it leaves out those that were asked over five seconds before.",
		Schema:      &huma.Schema{Type: huma.TypeString}},
	"Prefer": {In: "header", Example: "wait=10",
		Description: "wait=N: wait for the outcome, at most N seconds (RFC 7240). Preference-Applied says how long the response may have waited.",
		Schema:      &huma.Schema{Type: huma.TypeString}},
}
