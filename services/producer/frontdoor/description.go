package frontdoor

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
	"reflect"
	"regexp"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/feed"
)

// problemAnswers says what each status of a problem means.
var problemAnswers = map[int]string{
	400: "Malformed: no JSON object with these fields.",
	401: "Unknown caller: no key or certificate, or one that is not known.",
	403: "The caller may not do this: field, value and rule say why.",
	404: "The ledger does not know it.",
	413: "Too large.",
	422: "A value is wrong: field, value, rule and code say which and why.",
	429: "Too much at once: nothing was done, try again after Retry-After.",
	503: "Kafka or the ledger does not answer. For a payment: its fate is unknown, send the same again.",
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// allProblems are those of the route and of the door.
func (r route) allProblems() []int {
	return append([]int{http.StatusUnauthorized, http.StatusForbidden}, r.problems...)
}

// allParameters are those of the path, then the others.
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

// describe makes the OpenAPI document of the routes; schemas come from the Go types that
// are decoded and encoded.
func describe(api []route) []byte {
	schemas := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	document := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{Title: "Liquida", Version: "1", License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			Description: "The front door of a PIX-style clearing house. Money is an integer count of centavos. Every answer about a payment comes from the ledger. Answers may get more fields."},
		Components: &huma.Components{Schemas: schemas, SecuritySchemes: map[string]*huma.SecurityScheme{
			"key":         {Type: "http", Scheme: "bearer", Description: "The key of a participant, who pays from its own accounts and reads its own data, or of the central bank, which reads all."},
			"certificate": {Type: "mutualTLS", Description: "A client certificate with the URI " + access.CertificateName + "participant:ISPB or " + access.CertificateName + "central-bank among its subject alternative names."},
		}},
		Security: []map[string][]string{{"key": {}}, {"certificate": {}}},
	}
	body := func(c message) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{c.mediaType: {Schema: schemas.Schema(reflect.TypeOf(c.of), true, "")}}
	}
	for _, route := range api {
		operation := &huma.Operation{
			OperationID: route.id, Method: route.method, Path: route.path, Summary: route.summary, Description: route.description,
			Responses: map[string]*huma.Response{},
		}
		operation.Parameters = route.allParameters()
		if route.body.of != nil {
			operation.RequestBody = &huma.RequestBody{Description: route.body.description, Required: true, Content: body(route.body)}
		}
		for status, answer := range route.answers {
			operation.Responses[strconv.Itoa(status)] = &huma.Response{Description: answer.description, Content: body(answer)}
			if status == http.StatusOK && route.method == "POST" && route.path != batchPath {
				operation.Responses["200"].Headers = map[string]*huma.Param{"Preference-Applied": {Schema: &huma.Schema{Type: huma.TypeString}, Description: "wait=N: how long the answer may have been held."}}
			}
		}
		for _, status := range route.allProblems() {
			response := &huma.Response{Description: problemAnswers[status], Content: body(message{mediaType: "application/problem+json", of: web.Problem{}})}
			if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
				response.Headers = map[string]*huma.Param{"Retry-After": {Schema: &huma.Schema{Type: huma.TypeInteger}, Description: "Seconds to wait."}}
			}
			if status == http.StatusUnauthorized {
				response.Headers = map[string]*huma.Param{"WWW-Authenticate": {Schema: &huma.Schema{Type: huma.TypeString}, Description: "Bearer, and what is wrong with the key."}}
			}
			operation.Responses[strconv.Itoa(status)] = response
		}
		document.AddOperation(operation)
	}
	schemas.Schema(reflect.TypeOf(feed.Settlement{}), true, "") // the data of events, which OpenAPI cannot tell
	for name, schema := range schemas.Map() {
		if name != "Payment" && name != "Account" && name != "ReturnOrder" { // what is sent is taken as it stands; answers may get more fields
			schema.AdditionalProperties = true
		}
	}
	return indented(document)
}

//go:embed docs.html
var docsHTML string

// page is the description for people, whole in one page: it loads nothing.
func page(api []route) []byte {
	type shown struct {
		Method, Path, Summary, Description string
		Parameters                         []*huma.Param
		Answers                            map[int]string
	}
	var all []shown
	for _, route := range api {
		one := shown{route.method, route.path, route.summary, route.description, route.allParameters(), map[int]string{}}
		for status, answer := range route.answers {
			one.Answers[status] = answer.description
		}
		for _, status := range route.allProblems() {
			one.Answers[status] = problemAnswers[status]
		}
		all = append(all, one)
	}
	var out bytes.Buffer
	if err := template.Must(template.New("docs").Parse(docsHTML)).Execute(&out, all); err != nil {
		panic(err) // of our own page: a test sees it
	}
	return out.Bytes()
}
