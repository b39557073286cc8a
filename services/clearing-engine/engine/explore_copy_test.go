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

	"github.com/liquida/liquida/services/clearing-engine/metrics"
)

// Half a million steps copy an actor and describe it. So reflection looks at each type once, and makes
// functions of it that take the address of a value: a deepening and a telling.

// A copier copies an actor with all that it refers to: what its partition shares, its partition, what is in flight.
// Two schedules then go on from one state. It copies whatever fields these types have, so a new one
// is not forgotten.
type copier struct{ made []copied }

// copied is a value that has a copy already. There are few, so a search beats a map.
type copied struct {
	of       reflect.Type
	from, to unsafe.Pointer
}

// lasting are pointers to what never changes, or decides nothing: copies share it. Nobody waits on a sync.Cond.
var lasting = map[reflect.Type]bool{
	reflect.TypeFor[*Config](): true, reflect.TypeFor[*zap.Logger](): true, reflect.TypeFor[*metrics.Metrics](): true,
	reflect.TypeFor[*sync.Cond]():  true,
	reflect.TypeFor[*kgo.Record](): true, reflect.TypeFor[*ledger.ReturnTrace](): true, reflect.TypeFor[*state](): true,
	reflect.TypeFor[*register.State](): true,
}

// reused are buffers that hold nothing between two events.
var reused = map[reflect.Type]bool{reflect.TypeFor[[]byte](): true, reflect.TypeFor[[]tb.Transfer](): true,
	reflect.TypeFor[[]tb.Uint128](): true}

var actorType = reflect.TypeFor[actor]()

func (a *actor) copy() *actor {
	c := &copier{made: make([]copied, 0, 32)}
	return (*actor)(c.copy(actorType, unsafe.Pointer(a)))
}

// copy returns the only copy of the value of a type at an address.
func (c *copier) copy(of reflect.Type, from unsafe.Pointer) unsafe.Pointer {
	for i := range c.made {
		if m := &c.made[i]; m.from == from && m.of == of {
			return m.to
		}
	}
	made := reflect.New(of)
	made.Elem().Set(reflect.NewAt(of, from).Elem())
	to := made.UnsafePointer()

	c.made = append(c.made, copied{of, from, to})
	if deepen := deepening(of); deepen != nil {
		deepen(c, to)
	}

	return to
}

// A deepen makes a shallow copy of a value a deep one.
type deepen func(c *copier, at unsafe.Pointer)

var deepenings = map[reflect.Type]deepen{}

// deepening returns what deepens values of a type, or nil if their shallow copies are deep.
func deepening(t reflect.Type) deepen {
	d, known := deepenings[t]
	if !known {
		d = newDeepening(t)
		deepenings[t] = d
	}

	return d
}

func newDeepening(t reflect.Type) deepen {
	switch kind := t.Kind(); {
	case isShared(t):
		return nil
	case t == reflect.TypeFor[orderMessage](): // reused, too, and points into itself
		return func(_ *copier, at unsafe.Pointer) { *(*orderMessage)(at) = orderMessage{} }
	case kind == reflect.Pointer:
		of := t.Elem()

		return func(c *copier, at unsafe.Pointer) {
			if to := (*unsafe.Pointer)(at); *to != nil {
				*to = c.copy(of, *to)
			}
		}
	case kind == reflect.Interface:
		return func(c *copier, at unsafe.Pointer) {
			v := reflect.NewAt(t, at).Elem()
			if v.IsNil() {
				return
			}

			if deepen := deepening(v.Elem().Type()); deepen != nil {
				inner := reflect.New(v.Elem().Type())
				inner.Elem().Set(v.Elem())
				deepen(c, inner.UnsafePointer())
				v.Set(inner.Elem())
			}
		}
	case kind == reflect.Struct:
		return newDeepeningOfStruct(t)
	case kind == reflect.Map:
		return func(c *copier, at unsafe.Pointer) {
			v := reflect.NewAt(t, at).Elem()
			if v.IsNil() {
				return
			}

			to := reflect.MakeMapWithSize(t, v.Len())
			if v.Len() > 0 {
				deepen := deepening(t.Elem())

				key, value := reflect.New(t.Key()), reflect.New(t.Elem())
				for entries := v.MapRange(); entries.Next(); {
					key.Elem().SetIterKey(entries)
					value.Elem().SetIterValue(entries)

					if deepen != nil {
						deepen(c, value.UnsafePointer())
					}
					to.SetMapIndex(key.Elem(), value.Elem())
				}
			}
			v.Set(to)
		}
	case kind == reflect.Slice:
		return func(c *copier, at unsafe.Pointer) {
			v := reflect.NewAt(t, at).Elem()
			if v.IsNil() {
				return
			}
			to := reflect.MakeSlice(t, v.Len(), v.Len())
			reflect.Copy(to, v)

			if deepen := deepening(t.Elem()); deepen != nil {
				for i := range to.Len() {
					deepen(c, to.Index(i).Addr().UnsafePointer())
				}
			}
			v.Set(to)
		}
	default:
		panic("the copier does not know " + t.String())
	}
}

func newDeepeningOfStruct(t reflect.Type) deepen {
	type field struct {
		offset uintptr
		deepen deepen
	}
	var fields []field

	for i := range t.NumField() {
		if f := t.Field(i); deepening(f.Type) != nil {
			fields = append(fields, field{f.Offset, deepening(f.Type)})
		}
	}

	return func(c *copier, at unsafe.Pointer) {
		for i := range fields {
			fields[i].deepen(c, unsafe.Add(at, fields[i].offset))
		}
	}
}

// isShared reports whether a value of a type refers to nothing that changes.
func isShared(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Func, reflect.Chan:
		return true
	case reflect.Pointer, reflect.Slice:
		return lasting[t] || reused[t]
	case reflect.Interface, reflect.Map, reflect.UnsafePointer:
		return false
	case reflect.Array:
		return isShared(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if t != reflect.TypeFor[time.Time]() && !isShared(t.Field(i).Type) {
				return false
			}
		}
	}

	return true
}

// A describer describes an actor: equal descriptions go on equally. Times count in whole seconds,
// because the ledger's timestamps differ by nanoseconds and no limit is that near.
type describer struct {
	text []byte
	seen []seen
}

// seen is a value that is described already. Its place in the list stands for it.
type seen struct {
	of reflect.Type
	at unsafe.Pointer
}

func (a *actor) describe() string {
	d := &describer{text: make([]byte, 0, 2048), seen: make([]seen, 0, 32)}
	d.point(actorType, unsafe.Pointer(a))
	return string(d.text)
}

// untold are types of which nothing decides what comes next.
var untold = map[reflect.Type]bool{
	reflect.TypeFor[sync.Mutex](): true, reflect.TypeFor[sync.RWMutex](): true, reflect.TypeFor[*sync.Cond](): true,
}

func (d *describer) number(n uint64) { d.text = binary.AppendUvarint(d.text, n) }

// point describes the value of a type at an address once.
func (d *describer) point(of reflect.Type, at unsafe.Pointer) {
	if at == nil {
		d.number(0)
		return
	}

	for i := range d.seen {
		if d.seen[i] == (seen{of, at}) {
			d.number(uint64(i + 1))
			return
		}
	}
	d.seen = append(d.seen, seen{of, at})
	d.number(uint64(len(d.seen)))
	telling(of)(d, at)
}

// A tell appends the description of a value.
type tell func(d *describer, at unsafe.Pointer)

var tellings = map[reflect.Type]tell{}

// telling returns what describes values of a type.
func telling(t reflect.Type) tell {
	described, known := tellings[t]
	if !known {
		described = newTelling(t)
		tellings[t] = described
	}

	return described
}

func newTelling(t reflect.Type) tell {
	switch t {
	case reflect.TypeFor[time.Time]():
		return func(d *describer, at unsafe.Pointer) { d.number(uint64((*time.Time)(at).Unix())) }
	case reflect.TypeFor[tb.Transfer]():
		return func(d *describer, at unsafe.Pointer) {
			t := *(*tb.Transfer)(at)
			t.Timestamp /= uint64(time.Second)
			d.text = append(d.text, bytesAt(unsafe.Pointer(&t), unsafe.Sizeof(t))...)
		}
	case reflect.TypeFor[kgo.Record]():
		return func(d *describer, at unsafe.Pointer) { d.number(uint64((*kgo.Record)(at).Offset)) }
	}

	if untold[t] {
		return func(*describer, unsafe.Pointer) {}
	}

	switch t.Kind() {
	case reflect.Bool, reflect.Int8, reflect.Uint8:
		return func(d *describer, at unsafe.Pointer) { d.text = append(d.text, *(*byte)(at)) }
	case reflect.Int16, reflect.Uint16:
		return func(d *describer, at unsafe.Pointer) { d.number(uint64(*(*uint16)(at))) }
	case reflect.Int32, reflect.Uint32:
		return func(d *describer, at unsafe.Pointer) { d.number(uint64(*(*uint32)(at))) }
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64:
		return func(d *describer, at unsafe.Pointer) { d.number(*(*uint64)(at)) }
	case reflect.String:
		return func(d *describer, at unsafe.Pointer) {
			s := *(*string)(at)
			d.number(uint64(len(s)))
			d.text = append(d.text, s...)
		}
	case reflect.Func, reflect.Chan:
		return func(d *describer, at unsafe.Pointer) {
			is := byte(0)
			if *(*unsafe.Pointer)(at) != nil {
				is = 1
			}
			d.text = append(d.text, is)
		}
	case reflect.Pointer:
		of := t.Elem()
		return func(d *describer, at unsafe.Pointer) { d.point(of, *(*unsafe.Pointer)(at)) }
	case reflect.Interface:
		return func(d *describer, at unsafe.Pointer) {
			v := reflect.NewAt(t, at).Elem()
			if v.IsNil() {
				d.number(0)
				return
			}
			v = v.Elem()
			d.text = append(d.text, v.Type().String()...)
			inner := reflect.New(v.Type())
			inner.Elem().Set(v)
			telling(v.Type())(d, inner.UnsafePointer())
		}
	case reflect.Struct:
		return newTellingOfStruct(t)
	case reflect.Array:
		n, of := t.Len(), t.Elem()
		return func(d *describer, at unsafe.Pointer) { d.all(of, at, n) }
	case reflect.Slice:
		of := t.Elem()

		return func(d *describer, at unsafe.Pointer) {
			v := reflect.NewAt(t, at).Elem()
			d.number(uint64(v.Len()))
			d.all(of, v.UnsafePointer(), v.Len())
		}
	case reflect.Map:
		return func(d *describer, at unsafe.Pointer) { d.describeMap(reflect.NewAt(t, at).Elem()) }
	default:
		panic("the describer does not know " + t.String())
	}
}

// all describes n values of a type that lie one after the other.
func (d *describer) all(of reflect.Type, at unsafe.Pointer, n int) {
	if of.Kind() == reflect.Uint8 {
		d.text = append(d.text, bytesAt(at, uintptr(n))...)
		return
	}

	for i := range n {
		telling(of)(d, unsafe.Add(at, uintptr(i)*of.Size()))
	}
}

func bytesAt(at unsafe.Pointer, n uintptr) []byte { return unsafe.Slice((*byte)(at), n) }

// unsaid are fields that decide nothing of what comes next.
var unsaid = map[string][]string{
	"engine.actor":  {"description", "state"},
	"engine.common": {"config", "on", "log", "metrics", "unasked", "recoded", "register"},
	// reused, empty between two events, see plot.begin, a bound of what is described
	"engine.partition": {"message", "chain", "ids", "encoder", "inbox", "pace", "nextDue"},
	"engine.flight":    {"hopAt", "taken"},
	"engine.offsets":   {"changed"},
	"engine.stretch":   {"open", "end"},
	"engine.entry":     {"taken"}, // for the front door
	"room.Room":        {"started"},
	// When a bank was asked decides only if it is silent, and with so few questions LQ02 is far.
	"room.questions": {"second", "answered", "recent", "old", "stuck", "apart"},
	"room.asked":     {"second"},
	"room.answerer":  {"apart", "since"},
	"room.silence":   {"stuck", "psps"},
}

func newTellingOfStruct(t reflect.Type) tell {
	type field struct {
		offset uintptr
		tell   tell
	}
	var fields []field

	for i := range t.NumField() {
		if f := t.Field(i); !slices.Contains(unsaid[t.String()], f.Name) && !untold[f.Type] {
			fields = append(fields, field{f.Offset, telling(f.Type)})
		}
	}

	return func(d *describer, at unsafe.Pointer) {
		for i := range fields {
			fields[i].tell(d, unsafe.Add(at, fields[i].offset))
		}
	}
}

func (d *describer) describeMap(v reflect.Value) {
	d.number(uint64(v.Len()))

	if v.Len() == 0 {
		return
	}
	type entry struct {
		key   []byte
		value unsafe.Pointer
	}
	var entries []entry

	for found := v.MapRange(); found.Next(); {
		key, value := reflect.New(v.Type().Key()), reflect.New(v.Type().Elem())
		key.Elem().SetIterKey(found)
		value.Elem().SetIterValue(found)
		of := &describer{}
		telling(v.Type().Key())(of, key.UnsafePointer())
		entries = append(entries, entry{of.text, value.UnsafePointer()})
	}
	slices.SortFunc(entries, func(a, b entry) int { return bytes.Compare(a.key, b.key) })

	for _, e := range entries {
		d.text = append(d.text, e.key...)
		telling(v.Type().Elem())(d, e.value)
	}
}
