package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// DecodeJSON decodes one JSON object into target. It rejects what programs read in more than
// one way, because a request must mean the same to whoever reads it: fields that are unknown,
// that differ in case, or that stand twice, and anything after the object.
func DecodeJSON(text []byte, target any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(target); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON object: send one object and nothing else")
	}
	// encoding/json takes a name in any case, and of two equal names the last.
	return (&names{text: text}).value(reflect.TypeOf(target))
}

// TwiceError means that a field stands twice in one object.
type TwiceError struct{ Field string }

func (e *TwiceError) Error() string {
	return fmt.Sprintf("field %q stands twice: send it once", e.Field)
}

// names checks the names in the objects of a text that is valid JSON. It reads bytes, not
// tokens: those of encoding/json cost four times as much as decoding.
type names struct {
	text []byte
	at   int
}

// value reads one value, which fits t.
func (n *names) value(t reflect.Type) error {
	switch n.space(); n.text[n.at] {
	case '{', '[':
		return n.elements(t)
	case '"':
		n.quoted()
	default: // a number, true, false or null
		for n.at < len(n.text) && bytes.IndexByte([]byte(",]} \t\r\n"), n.text[n.at]) < 0 {
			n.at++
		}
	}
	return nil
}

// elements reads an object or a list.
func (n *names) elements(t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	isObject := n.text[n.at] == '{'
	element, fields := t, map[string]reflect.Type(nil)
	switch t.Kind() {
	case reflect.Map, reflect.Slice, reflect.Array:
		element = t.Elem()
	case reflect.Struct:
		fields = fieldsOf(t)
	}
	n.at++
	for seen := make([]string, 0, 8); ; {
		switch n.space(); n.text[n.at] {
		case '}', ']':
			n.at++
			return nil
		case ',':
			n.at++
			continue
		}
		if isObject {
			name, err := unquoted(n.quoted())
			if err != nil {
				return err
			}
			if slices.Contains(seen, name) {
				return &TwiceError{name}
			}
			seen = append(seen, name)
			if fields != nil {
				known := false
				if element, known = fields[name]; !known {
					return fmt.Errorf("json: unknown field %q", name) // as encoding/json says it
				}
			}
			n.space()
			n.at++ // the colon
		}
		if err := n.value(element); err != nil {
			return err
		}
	}
}

// quoted reads a string and returns it with its quotes.
func (n *names) quoted() []byte {
	from := n.at
	for n.at++; n.text[n.at] != '"'; n.at++ {
		if n.text[n.at] == '\\' {
			n.at++
		}
	}
	n.at++
	return n.text[from:n.at]
}

// unquoted returns the text of a string as encoding/json reads it.
func unquoted(quoted []byte) (text string, err error) {
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	err = json.Unmarshal(quoted, &text)
	return text, err
}

func (n *names) space() {
	for n.at < len(n.text) && bytes.IndexByte([]byte(" \t\r\n"), n.text[n.at]) >= 0 {
		n.at++
	}
}

// fieldsCache has the map of fieldsOf for each type.
var fieldsCache sync.Map

// fieldsOf returns the types of the fields of a struct by their names in JSON. The structs
// that are decoded embed none.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if fields, known := fieldsCache.Load(t); known {
		return fields.(map[string]reflect.Type)
	}
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			name = field.Name
		}
		fields[name] = field.Type
	}
	fieldsCache.Store(t, fields)
	return fields
}
