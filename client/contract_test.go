package client

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

type schema struct {
	Ref        string            `json:"$ref"`
	Type       string            `json:"type"`
	Properties map[string]schema `json:"properties"`
	Items      *schema           `json:"items"`
	Required   []string          `json:"required"`
}

type description struct {
	Components struct {
		Schemas map[string]schema
	}
	Paths map[string]map[string]struct {
		OperationID string
		Parameters  []struct {
			Name, In string
			Required bool
		}
	}
}

func described(t *testing.T) (d description) {
	t.Helper()

	text, err := os.ReadFile("../services/producer/openapi.json")
	if err == nil {
		err = json.Unmarshal(text, &d)
	}

	if err != nil {
		t.Fatal(err)
	}

	return d
}

// What the client asks for must be what the API describes. The API may have more operations,
// and its answers more fields: its description says so.
func TestTheClientIsTheDescriptions(t *testing.T) {
	d := described(t)
	for op, parameters := range map[operation][]string{
		opPay: {"Prefer"}, opPayment: nil, opPaymentEvents: nil, opGiveBack: {"Prefer"}, opReturn: nil,
		opReturnEvents: nil, opSettlements: {"participant", "from"},
		opAccount: nil, opStatement: {"limit", "cursor"}, opParticipants: {"limit", "cursor"}, opParticipant: nil,
		opDay:              {"format", "until"},
		opActOnParticipant: nil, opActOnAccount: nil, opParticipantActs: {"limit", "cursor"},
		opActs: {"limit", "cursor"}, opAccounts: {"limit", "cursor"},
		opQuestions: {"share", "Last-Event-ID"}, opAnswer: nil,
	} {
		has, ok := d.Paths[op.path][strings.ToLower(op.method)]
		if !ok || has.OperationID != op.id {
			t.Errorf("%v is described as %q (there: %v)", op, has.OperationID, ok)
		}

		for _, match := range regexp.MustCompile(`{(\w+)}`).FindAllStringSubmatch(op.path, -1) {
			parameters = append(parameters, match[1])
		}

		for _, p := range has.Parameters {
			if p.Required && !slices.Contains(parameters, p.Name) {
				t.Errorf("%v needs %s", op, p.Name)
			}
			parameters = slices.DeleteFunc(parameters, func(name string) bool { return name == p.Name })
		}

		if len(parameters) > 0 {
			t.Errorf("%v has no %v", op, parameters)
		}
	}

	for name, value := range map[string]any{
		"Payment": Payment{}, "PaymentState": PaymentState{}, "AccountBalance": AccountBalance{},
		"Statement":       Statement{},
		"ParticipantPage": ParticipantPage{}, "Issuance": Issuance{}, "ReturnOrder": ReturnOrder{},
		"ReturnState": ReturnState{}, "Settlement": Settlement{}, "Problem": Problem{},
		"ParticipantAct": ParticipantAct{}, "AccountAct": AccountAct{}, "ParticipantActDone": ParticipantActDone{},
		"AccountActDone": AccountActDone{}, "ActPage": ActPage{}, "Question": Question{}, "News": News{},
		"AccountPage": AccountPage{},
	} {
		d.compare(t, name, schema{Ref: name}, reflect.TypeOf(value),
			slices.Contains([]string{"Payment", "ReturnOrder", "ParticipantAct", "AccountAct"}, name))
	}
}

// compare holds a Go type against a schema; of what is sent nothing may be left out.
func (d description) compare(t *testing.T, at string, s schema, goes reflect.Type, sent bool) {
	t.Helper()

	if s.Ref != "" {
		name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]

		var ok bool
		if s, ok = d.Components.Schemas[name]; !ok {
			t.Errorf("%s: no schema %s is described", at, name)
		}
	}

	if goes.Kind() == reflect.Pointer {
		goes = goes.Elem()
	}
	kinds := map[string][]reflect.Kind{"string": {reflect.String}, "integer": {reflect.Int64, reflect.Int},
		"boolean": {reflect.Bool},
		"array":   {reflect.Slice}, "object": {reflect.Struct}}[s.Type]
	isTime := goes.String() == "time.Time" && s.Type == "string"

	isAny := goes == reflect.TypeFor[json.RawMessage]() && s.Type == ""
	if !isTime && !isAny && !slices.Contains(kinds, goes.Kind()) {
		t.Errorf("%s is %q there and %v here", at, s.Type, goes)
		return
	}

	switch {
	case s.Type == "array" && s.Items != nil:
		d.compare(t, at+"[]", *s.Items, goes.Elem(), sent)
	case s.Type == "object":
		here := map[string]bool{}

		for _, field := range reflect.VisibleFields(goes) {
			name, rest, _ := strings.Cut(field.Tag.Get("json"), ",")
			if field.Anonymous || name == "-" {
				continue
			}
			here[name] = true

			property, ok := s.Properties[name]
			if !ok {
				t.Errorf("%s has no %s", at, name)
				continue
			}

			if required := slices.Contains(s.Required, name); sent && required != (rest == "") {
				t.Errorf("%s.%s is required: %v, but its tag says %q", at, name, required, rest)
			}
			d.compare(t, at+"."+name, property, field.Type, sent)
		}

		for name := range s.Properties {
			if sent && !here[name] {
				t.Errorf("%s.%s cannot be sent: add it", at, name)
			}
		}
	}
}
