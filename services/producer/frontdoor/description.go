package frontdoor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/feed"
	"github.com/liquida/liquida/services/producer/field"
	"github.com/liquida/liquida/services/producer/question"
)

// problemResponses are what each status of a problem means, and an example.
var problemResponses = map[int]struct {
	meaning string
	example web.Problem
}{
	400: {"Malformed: no JSON object with these fields, a text that is not UTF-8 or has a NUL in it, or a header that cannot be followed (Prefer: wait without a number of seconds, Idempotency-Key). The detail names line and column.",
		web.Problem{Type: web.Kind("malformed"), Title: "Malformed request",
			Detail: "field \"amount\" is not known: remove it or correct its name (line 1, column 2)", Field: "amount",
			Rule: "a field that the API's description names"}},
	401: {"Unknown caller: no key or certificate, or one that is not known.",
		web.Problem{Type: web.Kind("unknown-caller"), Title: "Unknown caller",
			Detail: "the key is not known: send one that is in use", Field: "Authorization",
			Rule: "Bearer KEY, or a client certificate"}},
	403: {"The caller may not do this: field, value and rule say why.",
		web.Problem{Type: web.Kind("not-yours"), Title: "Not yours",
			Detail: "ispb is 10000001 and the caller is 10000002: nothing was done; a participant reads only what is its own",
			Field:  "ispb", Value: "10000001", Rule: "a participant reads only what is its own"}},
	404: {meaning: "The ledger does not know it."}, // what it is differs from route to route
	409: {meaning: "It cannot be done as things are: the id of a payment or return belongs to other content (DUPL: nothing was sent, unless the response has waited), the day is not over, the ledger keeps no history of the reserve, the id of an act was used, the bank has given another answer, or the ledger has refused the act before.",
		example: web.Problem{Type: web.Kind("unfinished-day"), Title: "The day is not over",
			Detail: "what is asked for ends at 2026-01-03T03:00:00Z (2026-01-02 ends at midnight in São Paulo), and the ledger's clock says 2026-01-02T12:00:00Z: ask again after that, or for a part of the day with until",
			Field:  "day", Value: "2026-01-02", Rule: "a day that is over by the ledger's clock"}},
	410: {"The question is over: nothing was stored.",
		web.Problem{Type: web.Kind("question-over"), Title: "The question is over",
			Detail: "nothing was stored: the payment is settled", EndToEndID: exampleID}},
	413: {"Too large.", web.Problem{Type: web.Kind("too-large"), Title: "Request too large",
		Detail: "the body has more than 16384 bytes: send at most that"}},
	415: {"The body has a Content-Encoding: nothing was done.",
		web.Problem{Type: web.Kind("unsupported-encoding"), Title: "Unsupported content encoding",
			Detail: "nothing was done: send the body as it is, without an encoding", Field: "Content-Encoding",
			Value: "gzip", Rule: "identity, or no such header"}},
	422: {"A value is wrong, or a query parameter is not known: field, value, rule and code say which and why.",
		web.Problem{Type: web.Kind("invalid-value"), Title: "Invalid value",
			Detail: "amount_centavos: it must be at least 1", Field: "amount_centavos", Value: 0,
			Rule: field.Rules["amount_centavos"], Code: pix.ReasonZeroAmount.String()}},
	505: {"HTTP/1.0: there a response that breaks off looks whole.",
		web.Problem{Type: web.Kind("http-version"), Title: "HTTP version not supported",
			Detail: "before HTTP/1.1 a response that breaks off looks whole: use HTTP/1.1; a proxy may have to be told to"}},
	429: {"Too much at once: nothing was done, try again after Retry-After.",
		web.Problem{Type: web.Kind("busy"), Title: "Too many payments in flight",
			Detail:     "nothing was sent: send the payment again, with this end_to_end_id, after a pause",
			EndToEndID: exampleID}},
	500: {"The lines do not lead to the ledger's own balances: nothing is sent, and a retry does not help.",
		web.Problem{Type: web.Kind("broken-law"), Title: "The statement is wrong",
			Detail: "its lines do not lead to the ledger's own balances, so it is not sent: tell the operator; asking again does not help"}},
	503: {"Kafka or the ledger does not answer, or the producer's clock is wrong (clock-wrong: nothing was done). With an end_to_end_id: its fate is unknown, send the same again.",
		web.Problem{Type: web.Kind("ledger-away"), Title: "The ledger does not answer",
			Detail: "no answer within STATUS_TIMEOUT (3s): ask again later"}},
}

// tag returns the group of a route, under which the viewer shows it.
func (r route) tag() string {
	group, _, _ := strings.Cut(strings.TrimPrefix(r.path, "/v1/"), "/")
	group, _, _ = strings.Cut(group, ":")
	return group
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// allParameters returns those of the path, then the others.
func (r route) allParameters() (all []*huma.Param) {
	add := func(name string) {
		parameter := *parameters[name]
		parameter.Name = name
		all = append(all, &parameter)
	}
	for _, match := range pathParameter.FindAllStringSubmatch(r.path, -1) {
		add(match[1])
	}

	for _, name := range r.parameters {
		add(name)
	}

	return all
}

// shown returns the example as a body of its media type shows it.
func (m message) shown() any {
	switch m.mediaType {
	case asEvents:
		event := m.example.(serverEvent)
		return fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", event.ID, event.Event, event.Data)
	case asProblem:
		if m.example.(web.Problem).Type == "" {
			return nil
		}
	}

	return m.example
}

// describe generates the OpenAPI document of the routes. Schemas come from the Go types that
// are decoded and encoded.
func describe(api []route) []byte {
	schemas := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	document := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{Title: "Liquida", Version: "1",
			License:     &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			Description: "The front door of a PIX-style clearing house. Money is an integer count of centavos. What is said about a payment comes from the ledger. Errors are problem documents (RFC 9457) that name the field, its value, the rule and the reason code. Responses may get more fields."},
		Servers: []*huma.Server{
			{URL: "/", Description: "The server of this description."},
			{URL: "http://127.0.0.1:8080", Description: "A local stack: make up, or docker compose up."},
		},
		Components: &huma.Components{Schemas: schemas, SecuritySchemes: map[string]*huma.SecurityScheme{
			"key": {Type: "http", Scheme: "bearer",
				Description: "The key of a participant, who pays from its own accounts and reads its own data, or of the central bank, which reads all. make up writes them to .stack/keys."},
			"certificate": {Type: "mutualTLS",
				Description: "A client certificate with the URI " + access.CertificateName + "participant:ISPB or " +
					access.CertificateName + "central-bank among its subject alternative names."},
		}},
		Tags: []*huma.Tag{
			{Name: "payments", Description: "Send payments, and ask what became of them."},
			{Name: "returns", Description: "Give payments back, all or a part."},
			{Name: "settlements", Description: "How payments end, as it happens."},
			{Name: "accounts", Description: "Customers' accounts, and acts on them."},
			{Name: "participants", Description: "Banks: reserves, caps, days, and acts on them."},
			{Name: "acts", Description: "Who did what when."},
		},
		Security: []map[string][]string{{"key": {}}, {"certificate": {}}},
	}
	body := func(m message) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{
			m.mediaType: {Schema: schemas.Schema(reflect.TypeOf(m.example), true, ""), Example: m.shown()}}
	}

	for _, route := range api {
		operation := &huma.Operation{
			Tags: []string{route.tag()}, OperationID: route.id, Method: route.method, Path: route.path,
			Summary: route.summary, Description: route.description,
			Parameters: route.allParameters(), Responses: map[string]*huma.Response{},
		}
		if route.body.example != nil {
			operation.RequestBody = &huma.RequestBody{Description: route.body.description, Required: true,
				Content: body(route.body)}
		}

		for status, response := range route.responses {
			operation.Responses[strconv.Itoa(status)] = &huma.Response{Description: response.description,
				Content: body(response)}
			if status == http.StatusOK {
				for _, other := range route.others {
					maps.Copy(operation.Responses["200"].Content, body(other))
				}
			}

			if status == http.StatusOK && slices.Contains(route.parameters, "Prefer") && route.method == "POST" {
				operation.Responses["200"].Headers = map[string]*huma.Param{
					feed.PreferenceApplied: {Schema: &huma.Schema{Type: huma.TypeString},
						Description: "wait=N: how long the response may have waited."}}
			}
		}

		common := []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity}
		if route.body.example != nil {
			common = append(common, http.StatusUnsupportedMediaType)
		}

		for _, status := range append(common, route.problems...) {
			problem := problemResponses[status]
			problem.example.Status = status
			response := &huma.Response{Description: problem.meaning,
				Content: body(message{mediaType: asProblem, example: problem.example})}
			header := func(name, schema, description string) {
				response.Headers = map[string]*huma.Param{
					name: {Schema: &huma.Schema{Type: schema}, Description: description}}
			}

			switch status {
			case http.StatusTooManyRequests, http.StatusServiceUnavailable:
				header("Retry-After", huma.TypeInteger, "Seconds to wait.")
			case http.StatusUnauthorized:
				header("WWW-Authenticate", huma.TypeString, "Bearer, and what is wrong with the key.")
			}
			operation.Responses[strconv.Itoa(status)] = response
		}
		document.AddOperation(operation)
	}
	// the data of events, which OpenAPI cannot describe
	for _, event := range []any{feed.Settlement{}, question.Question{}, question.News{}} {
		schemas.Schema(reflect.TypeOf(event), true, "")
	}

	for name, schema := range schemas.Map() {
		// requests have exactly these fields; responses may get more
		if !slices.Contains([]string{"Payment", "Account", "ReturnOrder", "ParticipantAct", "AccountAct", "Answers",
			"Answer"}, name) {
			schema.AdditionalProperties = true
		}
	}
	var indented bytes.Buffer
	_ = json.Indent(&indented, []byte(marshalled(document)), "", "  ") // it is JSON
	indented.WriteByte('\n')

	return indented.Bytes()
}
