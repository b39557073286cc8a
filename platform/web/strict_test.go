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

const goodOrder = `{"payer": {"ispb": "10000001", "number": "1"}, "payee": {"ispb": "10000002", "number": "1"}, "amount_centavos": 12345}`

func TestAFieldIsWrittenInOneWay(t *testing.T) {
	for text, says := range map[string]string{
		goodOrder: "",
		`{"by_name": {"A": {}, "a": {}}, "list": [[{"ispb": "1"}, {"ispb": "1"}], []], "codes": ["id", "id"], "payee": null}`: "",
		`null`: "",
		`{"amount_centavos": 5, "AMOUNT_CENTAVOS": 500}`:    `unknown field "AMOUNT_CENTAVOS"`,
		`{"Amount_centavos": 5}`:                            `unknown field "Amount_centavos"`,
		`{"ID": "1"}`:                                       `unknown field "ID"`,
		`{"amount_centavos": 5, "amount_centavos": 5}`:      `"amount_centavos" stands twice`,
		`{"amount_centavos": 5, "amount_\u0063entavos": 5}`: `"amount_centavos" stands twice`,
		`{"payee": {"ispb": "1", "ISPB": "2"}}`:             `unknown field "ISPB"`,
		`{"by_name": {"A": {}, "A": {}}}`:                   `"A" stands twice`,
		`{"by_name": {"A": {"Number": "1"}}}`:               `unknown field "Number"`,
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
