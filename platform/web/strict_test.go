package web

import (
	"encoding/json"
	"strings"
	"testing"
)

// order is like the bodies that the services decode.
type order struct {
	ID     string           `json:"id,omitempty"`
	Payer  party            `json:"payer"`
	Payee  *party           `json:"payee"`
	Amount uint64           `json:"amount_centavos"`
	Codes  []string         `json:"codes"`
	ByName map[string]party `json:"by_name"`
	List   [][]party        `json:"list"`
}

type party struct {
	ISPB   string `json:"ispb"`
	Number string `json:"number"`
}

// strictOrder must have some of its fields.
type strictOrder struct {
	Payer  strictParty  `json:"payer" required:"true"`
	Payee  *strictParty `json:"payee" required:"true"`
	Amount uint64       `json:"amount_centavos,omitempty"`
}

type strictParty struct {
	ISPB string `json:"ispb" required:"true"`
}

// What is missing, or wrong, is named by its path and its place.
func TestAProblemSaysWhere(t *testing.T) {
	for text, want := range map[string][2]string{
		`{"payee": {"ispb": "1"}}`: {"payer",
			"field \"payer\" is missing: send it (line 1, column 1)"},
		"{\"payer\": {\"ispb\": \"1\"},\n \"payee\": {}}": {"payee.ispb", "(line 2, column 11)"},
		`{"payer": {"ispb": "1"}, "payee": null}`: {"payee",
			"is missing: send it (line 1, column 26)"},
		"{\"payer\": {\"ispb\": \"1\"},\n\n\"payee\": {\"isbp\": 1}}": {"payee.isbp",
			"is not known: remove it or correct its name (line 3, column 11)"},
		"{\n  \"payer\": {\"ispb\": 1}}": {"payer.ispb",
			"must be a string (line 2, column 21)"},
		"{\"amount_centavos\": 012}": {"", "(line 1, column 22)"},
		"{\n\n":                      {"", "(line 3, column 1)"},
		"{\"payer\": {\"ispb\": \"a\xff\"}, \"payee\": {\"ispb\": \"1\"}}": {"payer.ispb",
			"payer.ispb holds bytes that are not UTF-8: send text in UTF-8 (line 1, column 20)"},
		"{\"payer\": {\"ispb\": \"\xed\xa0\x80\"}}": {"payer.ispb",
			"holds bytes that are not UTF-8: send text in UTF-8 (line 1, column 20)"},
		`{"payer": {"ispb": "\\\ud800"}}`: {"payer.ispb",
			"holds half of a surrogate pair: send text in UTF-8 (line 1, column 20)"},
		`{"payer": {"ispb": "\ud800\n\udc00"}}`: {"payer.ispb",
			"holds half of a surrogate pair: send text in UTF-8 (line 1, column 20)"},
		`{"payer": {"ispb": "\udc00\ud800"}}`: {"payer.ispb",
			"holds half of a surrogate pair: send text in UTF-8 (line 1, column 20)"},
		`{"payer": {"ispb": "1\u0000"}}`: {"payer.ispb",
			"holds a NUL character: send text in UTF-8 (line 1, column 20)"},
		`{"pay\u0000er": 1}`: {"pay\x00er",
			"holds a NUL character: send text in UTF-8 (line 1, column 2)"},
		"{} \n {}": {"", "(line 2, column 2)"},
	} {
		problem := ReadJSON(strings.NewReader(text), new(strictOrder))
		if problem == nil || problem.Status != 400 || problem.Field != want[0] ||
			!strings.HasSuffix(problem.Detail, want[1]) || want[0] != "" && problem.Rule == "" {
			t.Errorf("%s: %+v, want %q", text, problem, want)
		}
	}

	if problem := ReadJSON(strings.NewReader(
		`{"payer": {"ispb": "\ud83d\ude00 \\u0000 \u00e9 \"\n"}, "payee": {"ispb": ""}}`),
		new(strictOrder)); problem != nil {
		t.Errorf("all are there: %+v", problem)
	}
}

const goodOrder = `{"payer": {"ispb": "10000001", "number": "1"}, "payee": {"ispb": "10000002", "number": "1"}, "amount_centavos": 12345}`

func TestAFieldIsWrittenInOneWay(t *testing.T) {
	for text, says := range map[string]string{
		goodOrder: "",
		`{"by_name": {"A": {}, "a": {}}, "list": [[{"ispb": "1"}, {"ispb": "1"}], []], "codes": ["id", "id"]}`: "",
		`{"payee": null}`:              `"payee" is null`,
		`{"list": [[{"ispb": null}]]}`: `"list.ispb" is null`,
		`null`:                         "the body is null",
		`{"amount_centavos": 5, "amount_centavos": 6}`:      `"amount_centavos" stands twice`,
		`{"amount_centavos": 5, "AMOUNT_CENTAVOS": 500}`:    `"AMOUNT_CENTAVOS" is not known`,
		`{"Amount_centavos": 5}`:                            `"Amount_centavos" is not known`,
		`{"ID": "1"}`:                                       `"ID" is not known`,
		`{"amount_centavos": 5, "amount_centavos": 5}`:      `"amount_centavos" stands twice`,
		`{"amount_centavos": 5, "amount_\u0063entavos": 5}`: `"amount_centavos" stands twice`,
		`{"payee": {"ispb": "1", "ISPB": "2"}}`:             `"ISPB" is not known`,
		`{"by_name": {"A": {}, "A": {}}}`:                   `"A" stands twice`,
		`{"by_name": {"A": {"Number": "1"}}}`:               `"Number" is not known`,
		`{"list": [[{}, {"ispb": "1", "ispb": "1"}]]}`:      `"ispb" stands twice`,
		`{"payer": {}, "payer": {}}`:                        `"payer" stands twice`,
		`{} {}`:                                             "something follows",
		`{"codes": "id"}`:                                   "cannot unmarshal string",
	} {
		err := DecodeJSON([]byte(text), new(order))
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%.80s: got %v, want %q", text, err, says)
		}
	}
}

// What the strict decoder costs, beside encoding/json alone.
func BenchmarkDecodeJSON(b *testing.B) {
	b.Run("strict", func(b *testing.B) {
		for b.Loop() {
			if err := DecodeJSON([]byte(goodOrder), new(order)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		for b.Loop() {
			if err := json.Unmarshal([]byte(goodOrder), new(order)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
