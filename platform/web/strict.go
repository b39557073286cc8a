package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// DecodeJSON decodes one JSON object into target. It rejects what programs read in more than one way, because a request
// must mean the same to whoever reads it: fields that are unknown, that differ in case, or that stand twice, texts that
// are no UTF-8, and anything after the object. It rejects an object without a field whose tag says required:"true": a
// zero would look as if the sender meant it.
func DecodeJSON(text []byte, target any) error {
	if err := json.Unmarshal(text, target); err != nil {
		decoder := json.NewDecoder(bytes.NewReader(text)) // slower, and says where the object ends
		if wrong := decoder.Decode(target); wrong != nil {
			return wrong
		}

		if rest := bytes.TrimLeft(text[decoder.InputOffset():], " \t\r\n"); len(rest) > 0 {
			return &FieldError{Offset: len(text) - len(rest),
				Detail: "something follows the JSON object: send one object and nothing else"}
		}

		return err
	}

	if string(bytes.TrimSpace(text)) == "null" { // encoding/json makes nothing of it
		return &FieldError{Detail: "the body is null: send one JSON object"}
	}
	// encoding/json takes a name in any case, and of two equal names the last.
	return (&names{text: text}).value(reflect.TypeOf(target))
}

// FieldError is what is wrong with a text that is valid JSON.
type FieldError struct {
	Field  string // its path, like payer.ispb; empty: the whole text
	Offset int    // in bytes, where the field or its object begins
	Detail string
	Rule   string // what the field must be
}

func (e *FieldError) Error() string { return e.Detail }

// names checks the names in the objects of a text that is valid JSON. It reads bytes, not
// tokens: those of encoding/json cost four times as much as decoding.
type names struct {
	text []byte
	at   int
	path []string // the names above
}

// where is the path of what is read.
func (n *names) where() string { return strings.Join(n.path, ".") }

// value reads one value, which fits t.
func (n *names) value(t reflect.Type) error {
	switch n.space(); n.text[n.at] {
	case '{', '[':
		return n.elements(t)
	case '"':
		return n.clear(n.quoted())
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
	from, isObject := n.at, n.text[n.at] == '{'

	element, fields := t, structFields{}
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
			return fields.missing(seen, n.where(), from)
		case ',':
			n.at++
			continue
		}

		if !isObject {
			if err := n.value(element); err != nil {
				return err
			}

			continue
		}

		name, err := n.field(fields, &element, seen)
		if err == nil {
			err = n.value(element)
		}

		if err != nil {
			return err
		}
		n.path = n.path[:len(n.path)-1]
		seen = append(seen, name)
	}
}

// field reads the name of a field, up to its value, and returns it. element becomes the type of a struct's field.
func (n *names) field(fields structFields, element *reflect.Type, seen []string) (string, error) {
	begins := n.at
	quoted := n.quoted()
	known, is := fields.byName[string(quoted[1:len(quoted)-1])]
	name := known.name

	if !is { // as it stands, that is
		var err error
		if name, err = unquoted(quoted); err != nil {
			return "", err
		}
		known, is = fields.byName[name]
	}

	n.path = append(n.path, name)
	if err := n.clear(quoted); err != nil {
		return "", err
	}

	if slices.Contains(seen, name) {
		return "", &FieldError{n.where(), begins, fmt.Sprintf("field %q stands twice: send it once", name),
			"a field that stands once"}
	}

	if fields.byName != nil {
		if !is {
			return "", &FieldError{n.where(), begins,
				fmt.Sprintf("field %q is not known: remove it or correct its name", name),
				"a field that the API's description names"}
		}
		*element = known.of
	}

	n.space()

	n.at++                                                      // the colon
	if n.space(); n.text[n.at] == 'n' && fields.byName != nil { // encoding/json makes nothing of a null
		if slices.Contains(fields.required, name) {
			return "", missing(n.where(), begins)
		}

		return "", &FieldError{n.where(), begins,
			fmt.Sprintf("field %q is null: give it a value, or leave it out", n.where()), "a field that is not null"}
	}

	return name, nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}

	return path + "." + name
}

func missing(path string, offset int) error {
	return &FieldError{path, offset, fmt.Sprintf("field %q is missing: send it", path), "a field that must be there"}
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

// clear returns an error if a string that was just read is not the text that its sender meant: encoding/json
// replaces bytes that are no UTF-8, and half a pair of surrogates. A NUL ends a text for some programs.
func (n *names) clear(quoted []byte) error {
	holds := ""
	if !utf8.Valid(quoted) {
		holds = "bytes that are not UTF-8"
	}

	for rest := quoted; holds == ""; {
		at := bytes.IndexByte(rest, '\\')
		if at < 0 {
			return nil
		}

		if rest[at+1] != 'u' {
			rest = rest[at+2:]
			continue
		}

		switch unit := escaped(rest[at:]); {
		case unit == 0:
			holds = "a NUL character"
		case utf16.IsSurrogate(unit) && utf16.DecodeRune(unit, escaped(rest[at+6:])) == utf8.RuneError:
			holds = "half of a surrogate pair"
		case utf16.IsSurrogate(unit):
			rest = rest[at+12:]
		default:
			rest = rest[at+6:]
		}
	}

	return &FieldError{n.where(), n.at - len(quoted),
		fmt.Sprintf("%s holds %s: send text in UTF-8", cmp.Or(n.where(), "the body"), holds),
		"text in UTF-8 without NUL"}
}

// escaped returns the 16 bits of the \uXXXX that a text begins with, or -1.
func escaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}

	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}

	return rune(unit)
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

// structFields are the fields of a struct by their names in JSON.
type structFields struct {
	byName   map[string]structField
	required []string
}

type structField struct {
	name string
	of   reflect.Type
}

// missing returns an error if a required field is not among those seen.
func (f structFields) missing(seen []string, path string, offset int) error {
	for _, name := range f.required {
		if !slices.Contains(seen, name) {
			return missing(join(path, name), offset)
		}
	}

	return nil
}

// fieldsCache has the fields of each type.
var fieldsCache sync.Map

// fieldsOf returns the fields of a struct. The structs that are decoded embed none.
func fieldsOf(t reflect.Type) structFields {
	if fields, known := fieldsCache.Load(t); known {
		return fields.(structFields)
	}
	fields := structFields{byName: map[string]structField{}}

	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		name = cmp.Or(name, field.Name)

		fields.byName[name] = structField{name, field.Type}
		if field.Tag.Get("required") == "true" {
			fields.required = append(fields.required, name)
		}
	}
	fieldsCache.Store(t, fields)

	return fields
}
