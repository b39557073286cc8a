// Package settings reads a program's configuration from environment variables, explains
// it with --help and rejects a wrong one before anything starts.
//
// A configuration is a struct whose fields carry tags, and structs of such fields:
//
//	Linger time.Duration `env:"KAFKA_LINGER" envDefault:"0s" range:"0 to 1s" help:"how long a record waits for others"`
//
// A number or a duration may have a range. A method Validate, of the configuration or of a part
// of it, says what else must hold. A default that differs between programs is set in the struct
// before Load.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/caarlos0/env/v11"
)

// Validator is a configuration with rules besides ranges. The error names the variable and the
// value.
type Validator interface{ Validate() error }

// Exit codes of every program. Scripts may rely on them.
const (
	ExitOK       = 0
	ExitFailure  = 1
	ExitBadUsage = 2
	// ExitInterrupted follows Ctrl-C where that is neither success nor failure.
	ExitInterrupted = 130
)

// Load fills config from the environment and validates it. On --help it prints the
// variables to standard output and exits with ExitOK. On a bad argument or value it prints
// what is wrong to standard error and exits with ExitBadUsage.
func Load(program, purpose string, config any) {
	for _, argument := range os.Args[1:] {
		switch argument {
		case "-h", "--help", "help":
			Help(os.Stdout, program, purpose, config)
			os.Exit(ExitOK)
		default:
			fmt.Fprintf(os.Stderr, "%s: unexpected argument %q; %s is configured by environment variables, see %s --help\n",
				program, argument, program, program)
			os.Exit(ExitBadUsage)
		}
	}

	if err := Parse(config); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\nSee %s --help.\n", program, err, program)
		os.Exit(ExitBadUsage)
	}
}

// Parse fills config, a pointer, from the environment and checks it.
func Parse(config any) error {
	err := named(env.Parse(config), reflect.TypeOf(config).Elem())
	if err == nil {
		err = Check(config)
	}

	if err != nil {
		return fmt.Errorf("bad configuration: %w", err)
	}

	return nil
}

// named makes errors name the variable and its value: the parser names only the field.
func named(err error, config reflect.Type) error {
	all, several := errors.AsType[env.AggregateError](err)
	if !several {
		return err
	}

	wrong := make([]error, len(all.Errors))
	for i, err := range all.Errors {
		wrong[i] = err
		if of, unread := errors.AsType[env.ParseError](err); unread {
			wrong[i] = fmt.Errorf("%s: %w", strings.Join(setFor(config, of.Name, of.Type), " or "), of.Err)
		}
	}

	return errors.Join(wrong...)
}

// setFor returns the variables that are set for fields of a name and type, with their values.
func setFor(config reflect.Type, name string, of reflect.Type) (set []string) {
	for i := range config.NumField() {
		field := config.Field(i)
		if isPart(field) {
			set = append(set, setFor(field.Type, name, of)...)
		} else if value := os.Getenv(nameOf(field)); field.Name == name && field.Type == of && value != "" {
			set = append(set, fmt.Sprintf("%s is %q", nameOf(field), value))
		}
	}

	return set
}

// Check returns every value of config, a pointer, that is out of its range, and what Validate of
// config and of its parts says.
func Check(config any) error { return check(reflect.ValueOf(config).Elem()) }

func check(value reflect.Value) error {
	var wrong []error

	for i := range value.NumField() {
		field := value.Type().Field(i)
		if isPart(field) {
			wrong = append(wrong, check(value.Field(i)))
		} else if limits := field.Tag.Get("range"); limits != "" {
			wrong = append(wrong, checkRange(nameOf(field), value.Field(i), limits))
		}
	}

	if !value.CanInterface() { // of an unexported field, which Parse does not fill
		return errors.Join(wrong...)
	}

	if config, ok := value.Addr().Interface().(Validator); ok {
		wrong = append(wrong, config.Validate())
	}

	return errors.Join(wrong...)
}

// isPart reports whether a field is a configuration in a configuration.
func isPart(field reflect.StructField) bool {
	return field.Type.Kind() == reflect.Struct && field.Tag.Get("env") == ""
}

func nameOf(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("env"), ",")
	return name
}

// checkRange panics if the tag of a field is not LOW to HIGH.
func checkRange(name string, value reflect.Value, limits string) error {
	var low, high float64

	if duration, ok := value.Interface().(time.Duration); ok {
		from, to, _ := strings.Cut(limits, " to ")
		least, err := time.ParseDuration(from)

		most, err2 := time.ParseDuration(to)
		if err != nil || err2 != nil {
			panic(fmt.Sprintf("the range of %s is %q", name, limits))
		}

		return InRange(name, duration, least, most)
	}

	if n, err := fmt.Sscanf(limits, "%g to %g", &low, &high); n != 2 {
		panic(fmt.Sprintf("the range of %s is %q: %v", name, limits, err))
	}
	// NaN is neither
	if number := value.Convert(reflect.TypeFor[float64]()).Float(); !(low <= number && number <= high) {
		return fmt.Errorf("%s is %v: it must be from %s", name, value, limits)
	}

	return nil
}

// Help writes the purpose of the program and a table of its variables.
func Help(w io.Writer, program, purpose string, config any) {
	fmt.Fprintf(w, "%s: %s\n\nConfiguration, by environment variables:\n\n", program, purpose)
	WriteVariables(w, config)
}

// Columns is how wide help texts and tables may be.
const Columns = 100

// Fitted returns a usage template of cobra whose tables of flags have at most Columns columns.
func Fitted(template string) string {
	return strings.ReplaceAll(template, ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", Columns))
}

// WriteVariables writes a table of the variables of a configuration.
func WriteVariables(w io.Writer, config any) {
	variables := Variables(config)
	names, defaults := 0, 0

	for i := range variables {
		v := &variables[i]
		v.Default = cmp.Or(v.Default, "(empty)")
		names, defaults = max(names, len(v.Name)), max(defaults, utf8.RuneCountInString(v.Default))
	}

	for _, v := range variables {
		fmt.Fprint(w, Beside(fmt.Sprintf("  %-*s  %-*s  ", names, v.Name, defaults, v.Default), v.Meaning))
	}
}

// Beside returns a row of a table: left, and a text beside it in as many lines as it needs.
func Beside(left, text string) string {
	var row strings.Builder

	indent := utf8.RuneCountInString(left)
	for _, line := range wrapped(text, Columns-indent) {
		row.WriteString(left + line + "\n")
		left = strings.Repeat(" ", indent)
	}

	return row.String()
}

// Lines returns a text with its long lines broken, as a terminal shows it whole. Scripts get each sentence in one line.
func Lines(text string) string {
	var all strings.Builder

	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")

		words := strings.TrimLeft(line, " ")
		if utf8.RuneCountInString(line) <= Columns {
			all.WriteString(line + "\n")
		} else {
			all.WriteString(Beside(line[:len(line)-len(words)], words))
		}
	}

	return all.String()
}

// wrapped breaks a text at spaces into lines of at most so many columns, and at least one.
func wrapped(text string, columns int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) <= columns:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}

	return lines
}

// Variable describes one environment variable of a configuration.
type Variable struct{ Name, Default, Meaning string }

// Variables lists the variables of a configuration in the order of its fields, with those of
// nested structs.
func Variables(config any) []Variable {
	value := reflect.ValueOf(config)
	for value.Kind() == reflect.Pointer {
		value = value.Elem()
	}

	return variablesOf(value)
}

func variablesOf(value reflect.Value) []Variable {
	var variables []Variable

	for i := range value.NumField() {
		field := value.Type().Field(i)
		if isPart(field) {
			variables = append(variables, variablesOf(value.Field(i))...)
			continue
		}

		name := nameOf(field)
		if name == "" {
			continue
		}

		def := field.Tag.Get("envDefault")
		if def == "" && !value.Field(i).IsZero() {
			def = fmt.Sprint(value.Field(i).Interface()) // set by the program before Load
		}

		meaning := field.Tag.Get("help")
		if limits := field.Tag.Get("range"); limits != "" {
			meaning += "; " + limits
		}
		variables = append(variables, Variable{Name: name, Default: def, Meaning: meaning})
	}

	return variables
}

// InRange returns an error that names the variable if the number or duration is outside [low, high].
func InRange[N ~int | ~int32 | ~int64 | ~uint32 | ~uint64 | ~float64](name string, value, low, high N) error {
	if value < low || value > high {
		return fmt.Errorf("%s is %v: it must be from %v to %v", name, value, low, high)
	}

	return nil
}

// Share returns an error that names the variable if the value is no share.
func Share(name string, value float64) error {
	if !(value > 0 && value <= 1) { // NaN is neither
		return fmt.Errorf("%s is %v: it must be above 0 and at most 1", name, value)
	}

	return nil
}

// NotEmpty returns an error that names the variable if the list or an entry is empty.
func NotEmpty(name string, values []string) error {
	if len(values) == 0 {
		return fmt.Errorf("%s is empty: it needs at least one value", name)
	}

	for _, v := range values {
		if strings.TrimSpace(v) == "" {
			return fmt.Errorf("%s is %q: an entry is empty", name, strings.Join(values, ","))
		}
	}

	return nil
}

// Loopback reports whether only this machine can reach host:port.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
