package engine

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"slices"
	"sync"
	"time"
	"unsafe"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/register"
)

// A copier copies an actor with all that it refers to: what its partition shares, its partition, what is in flight.
// Two schedules then go on from one state. It copies whatever fields these types have, so a new one
// is not forgotten.
type copier struct{ made map[reference]reflect.Value }

type reference struct {
	at unsafe.Pointer
	of reflect.Type
}

// lasting are pointers to what never changes, or decides nothing: copies share it.
var lasting = map[reflect.Type]bool{
	reflect.TypeFor[*Config](): true, reflect.TypeFor[*zap.Logger](): true, reflect.TypeFor[*metrics](): true,
	reflect.TypeFor[*kgo.Record](): true, reflect.TypeFor[*ledger.ReturnTrace](): true, reflect.TypeFor[*state](): true, reflect.TypeFor[*register.State](): true,
}

// reused are buffers that hold nothing between two events.
var reused = map[reflect.Type]bool{reflect.TypeFor[[]byte](): true, reflect.TypeFor[[]tb.Transfer](): true, reflect.TypeFor[[]tb.Uint128](): true}

func (a *actor) copy() *actor {
	c := &copier{made: map[reference]reflect.Value{}}
	copied := new(actor)
	c.note(reflect.ValueOf(a).Elem(), reflect.ValueOf(copied).Elem())
	// Questions point into the participants, so these must be known first.
	from, to := reflect.ValueOf(&a.p.engine.participants).Elem(), reflect.ValueOf(new(*participants)).Elem()
	c.copy(to, from)
	c.copy(reflect.ValueOf(copied).Elem(), reflect.ValueOf(a).Elem())
	return copied
}

// note makes pointers to a value point to its copy. Of fields, only silence is pointed to.
func (c *copier) note(from, to reflect.Value) {
	c.made[reference{from.Addr().UnsafePointer(), from.Type()}] = to.Addr()
	if p, ok := from.Addr().Interface().(*participants); ok {
		c.note(reflect.ValueOf(&p.silence).Elem(), reflect.ValueOf(&to.Addr().Interface().(*participants).silence).Elem())
	}
}

// open makes an unexported field as good as an exported one.
func open(v reflect.Value) reflect.Value {
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
}

func (c *copier) copy(to, from reflect.Value) {
	switch kind := from.Kind(); {
	case isPlain(from.Type()) || reused[from.Type()] || kind == reflect.Func || kind == reflect.Chan:
		to.Set(from)
	case from.Type() == reflect.TypeFor[orderMessage](): // reused, too, and points into itself
	case kind == reflect.Pointer:
		c.copyPointer(to, from)
	case kind == reflect.Interface:
		if !from.IsNil() {
			inner, copied := reflect.New(from.Elem().Type()).Elem(), reflect.New(from.Elem().Type()).Elem()
			inner.Set(from.Elem())
			c.copy(copied, inner)
			to.Set(copied)
		}
	case from.Type() == reflect.TypeFor[sync.Cond](): // nobody waits
		to.Set(reflect.ValueOf(sync.NewCond(new(sync.Mutex))).Elem())
	case kind == reflect.Struct:
		for i := range from.NumField() {
			c.copy(open(to.Field(i)), open(from.Field(i)))
		}
	case kind == reflect.Map:
		if from.IsNil() {
			return
		}
		to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
		for entries := from.MapRange(); entries.Next(); {
			value, copied := reflect.New(from.Type().Elem()).Elem(), reflect.New(from.Type().Elem()).Elem()
			value.Set(entries.Value())
			c.copy(copied, value)
			to.SetMapIndex(entries.Key(), copied)
		}
	case kind == reflect.Slice:
		if from.IsNil() {
			return
		}
		to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			c.copy(to.Index(i), from.Index(i))
		}
	default:
		panic("the copier does not know " + from.Type().String())
	}
}

func (c *copier) copyPointer(to, from reflect.Value) {
	if from.IsNil() || lasting[from.Type()] {
		to.Set(from)
		return
	}
	at := reference{from.UnsafePointer(), from.Type().Elem()}
	if made, known := c.made[at]; known {
		to.Set(made)
		return
	}
	made := reflect.New(from.Type().Elem())
	c.note(from.Elem(), made.Elem())
	to.Set(made)
	c.copy(made.Elem(), from.Elem())
}

var plain = map[reflect.Type]bool{}

// isPlain reports whether a value of a type refers to nothing that changes.
func isPlain(t reflect.Type) bool {
	if known, ok := plain[t]; ok {
		return known
	}
	is := false
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice, reflect.Func, reflect.Chan, reflect.UnsafePointer:
	case reflect.Array:
		is = isPlain(t.Elem())
	case reflect.Struct:
		is = true
		for i := range t.NumField() {
			is = is && isPlain(t.Field(i).Type)
		}
		is = is || t == reflect.TypeFor[time.Time]()
	default:
		is = true
	}
	plain[t] = is
	return is
}

// A describer describes an actor: equal descriptions go on equally. Times count in whole seconds,
// because the ledger's timestamps differ by nanoseconds and no limit is that near.
type describer struct {
	text []byte
	seen map[reference]uint64
}

func (a *actor) describe() []byte {
	d := &describer{seen: map[reference]uint64{}}
	d.describe(reflect.ValueOf(a).Elem())
	return d.text
}

// untold are types of which nothing decides what comes next.
var untold = map[reflect.Type]bool{
	reflect.TypeFor[sync.Mutex](): true, reflect.TypeFor[sync.RWMutex](): true, reflect.TypeFor[*sync.Cond](): true,
}

func (d *describer) number(n uint64) { d.text = binary.AppendUvarint(d.text, n) }

func (d *describer) describe(v reflect.Value) {
	t := v.Type()
	if untold[t] {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			d.number(1)
		} else {
			d.number(0)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		d.text = binary.AppendVarint(d.text, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		d.number(v.Uint())
	case reflect.String:
		d.number(uint64(v.Len()))
		d.text = append(d.text, v.String()...)
	case reflect.Func, reflect.Chan:
		d.number(uint64(1))
		if v.IsNil() {
			d.text[len(d.text)-1] = 0
		}
	case reflect.Pointer:
		d.describePointer(v)
	case reflect.Interface:
		if v.IsNil() {
			d.number(0)
			return
		}
		inner := reflect.New(v.Elem().Type()).Elem()
		inner.Set(v.Elem())
		d.text = append(d.text, inner.Type().String()...)
		d.describe(inner)
	case reflect.Struct:
		d.describeStruct(v)
	case reflect.Array:
		for i := range v.Len() {
			d.describe(v.Index(i))
		}
	case reflect.Slice:
		d.number(uint64(v.Len()))
		for i := range v.Len() {
			d.describe(v.Index(i))
		}
	case reflect.Map:
		d.describeMap(v)
	default:
		panic("the describer does not know " + t.String())
	}
}

func (d *describer) describePointer(v reflect.Value) {
	at := reference{v.UnsafePointer(), v.Type()}
	switch number, known := d.seen[at]; {
	case v.IsNil():
		d.number(0)
	case known:
		d.number(number)
	default:
		d.seen[at] = uint64(len(d.seen) + 1)
		d.number(d.seen[at])
		if record, ok := v.Interface().(*kgo.Record); ok {
			d.number(uint64(record.Offset))
			return
		}
		d.describe(v.Elem())
	}
}

func (d *describer) describeStruct(v reflect.Value) {
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		d.text = binary.AppendVarint(d.text, v.Interface().(time.Time).Unix())
		return
	case reflect.TypeFor[tb.Transfer]():
		t := v.Interface().(tb.Transfer)
		t.Timestamp /= uint64(time.Second)
		d.text = append(d.text, transferBytes(&t)...)
		return
	}
	for i, is := range fieldsOf(v.Type()) {
		if is {
			d.describe(open(v.Field(i)))
		}
	}
}

// unsaid are fields that decide nothing of what comes next.
var unsaid = map[reflect.Type][]string{
	reflect.TypeFor[actor]():     {"description", "state"},
	reflect.TypeFor[common]():    {"config", "on", "log", "metrics", "started", "unasked", "recoded", "register"},
	reflect.TypeFor[partition](): {"message", "chain", "ids", "encoder", "inbox", "pace", "nextDue"}, // reused, empty between two events, see plot.begin, a bound of what is described
	reflect.TypeFor[flight]():    {"hopAt", "taken"},
	reflect.TypeFor[offsets]():   {"changed"},
	reflect.TypeFor[stretch]():   {"open", "end"},
	reflect.TypeFor[entry]():     {"taken"}, // for the front door
	// When a bank was asked decides only if it is silent, and with so few questions LQ02 is far.
	reflect.TypeFor[questions](): {"second", "answered", "recent", "old", "stuck"},
	reflect.TypeFor[silence]():   {"stuck", "psps"},
}

var said = map[reflect.Type][]bool{}

// fieldsOf returns which fields of a type are described.
func fieldsOf(t reflect.Type) []bool {
	if _, known := said[t]; !known {
		fields := make([]bool, t.NumField())
		for i := range fields {
			fields[i] = !slices.Contains(unsaid[t], t.Field(i).Name)
		}
		said[t] = fields
	}
	return said[t]
}

func transferBytes(t *tb.Transfer) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(t)), unsafe.Sizeof(*t))
}

func (d *describer) describeMap(v reflect.Value) {
	type entry struct {
		key   []byte
		value reflect.Value
	}
	var entries []entry
	for found := v.MapRange(); found.Next(); {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.Set(found.Key())
		value.Set(found.Value())
		of := &describer{}
		of.describe(key)
		entries = append(entries, entry{of.text, value})
	}
	slices.SortFunc(entries, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	d.number(uint64(len(entries)))
	for _, e := range entries {
		d.text = append(d.text, e.key...)
		d.describe(e.value)
	}
}
