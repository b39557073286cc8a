// Package settings reads a program's configuration from environment variables, explains
// it with --help and rejects a wrong one before anything starts.
//
// A configuration is a struct whose fields carry three tags:
//
//	Brokers []string `env:"KAFKA_BROKERS" envDefault:"127.0.0.1:9092" help:"Kafka bootstrap addresses"`
//
// A default that differs between programs is set in the struct before Load.
package settings

import (
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caarlos0/env/v11"
)

// Validator is a configuration that validates itself. The error names the variable and the
// value.
type Validator interface{ Validate() error }

// Exit codes of every program. Scripts may rely on them.
const (
	ExitOK       = 0
	ExitFailure  = 1
	ExitBadUsage = 2
)

// Load fills config from the environment and validates it. On --help it prints the
// variables to standard output and exits with ExitOK. On a bad argument or value it prints
// what is wrong to standard error and exits with ExitBadUsage.
func Load(program, purpose string, config Validator) {
	for _, argument := range os.Args[1:] {
		switch argument {
		case "-h", "--help", "help":
			Help(os.Stdout, program, purpose, config)
			os.Exit(ExitOK)
		default:
			fmt.Fprintf(os.Stderr, "%s: unexpected argument %q; %s is configured by environment variables, see %s --help\n", program, argument, program, program)
			os.Exit(ExitBadUsage)
		}
	}
	if err := Parse(config); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\nSee %s --help.\n", program, err, program)
		os.Exit(ExitBadUsage)
	}
}

// Parse fills config from the environment and validates it.
func Parse(config Validator) error {
	if err := env.Parse(config); err != nil {
		return fmt.Errorf("bad configuration: %w", err)
	}
	if err := config.Validate(); err != nil {
		return fmt.Errorf("bad configuration: %w", err)
	}
	return nil
}

// Help writes the purpose of the program and a table of its variables.
func Help(w io.Writer, program, purpose string, config Validator) {
	fmt.Fprintf(w, "%s: %s\n\nConfiguration, by environment variables:\n\n", program, purpose)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, v := range Variables(config) {
		value := v.Default
		if value == "" {
			value = "(empty)"
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\n", v.Name, value, v.Meaning)
	}
	table.Flush()
}

// Variable describes one environment variable of a configuration.
type Variable struct{ Name, Default, Meaning string }

// Variables lists the variables of a configuration in the order of its fields, with those of
// nested structs.
func Variables(config Validator) []Variable {
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
		if field.Type.Kind() == reflect.Struct && field.Tag.Get("env") == "" {
			variables = append(variables, variablesOf(value.Field(i))...)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("env"), ",")
		if name == "" {
			continue
		}
		def := field.Tag.Get("envDefault")
		if def == "" && !value.Field(i).IsZero() {
			def = fmt.Sprint(value.Field(i).Interface()) // set by the program before Load
		}
		variables = append(variables, Variable{Name: name, Default: def, Meaning: field.Tag.Get("help")})
	}
	return variables
}

// InRange returns an error that names the variable if the number is outside [low, high].
func InRange[N ~int | ~int32 | ~int64 | ~uint32 | ~uint64 | ~float64](name string, value, low, high N) error {
	if value < low || value > high {
		return fmt.Errorf("%s is %v: it must be from %v to %v", name, value, low, high)
	}
	return nil
}

// DurationInRange returns an error that names the variable if the duration is outside
// [low, high].
func DurationInRange(name string, value, low, high time.Duration) error {
	if value < low || value > high {
		return fmt.Errorf("%s is %v: it must be from %v to %v", name, value, low, high)
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
