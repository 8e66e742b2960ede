package scenario

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"gearshift/env/evaluation"
	"gearshift/internal/scenario/syntax"
	"gearshift/rl"
	"gearshift/router/health"
	"gearshift/serving/backend"
	"gearshift/serving/config"
	"gearshift/serving/config/setting"
	"gearshift/serving/engines/gauges"
)

// decoder fills Go values from YAML, going on after each fault so that all are
// reported at once. The yaml package's own KnownFields mode names Go types
// instead of key paths, has no required keys, stops at a duplicate key, and
// drops the positions that later checks need.
//
// A struct's keys are its yaml tags, inlining included. A key may be left out
// if it is tagged omitempty, the struct holds a default for it already, or the
// struct is one of those that are [lenient].
type decoder struct {
	*report
	form string // what the file is called where it is not well-formed
	// sections are those that are kept apart from the structs that their keys stand under,
	// in s.
	sections []registered
	s        *Scenario
}

// lenient are the structs whose keys may all be left out: a zero is a default
// of their package's, or its validation says which keys belong together.
var lenient = map[reflect.Type]bool{
	reflect.TypeFor[rl.Discount]():            true,
	reflect.TypeFor[config.Config]():          true,
	reflect.TypeFor[config.PhaseTimeouts]():   true,
	reflect.TypeFor[config.Retries]():         true,
	reflect.TypeFor[health.Config]():          true,
	reflect.TypeFor[gauges.Config]():          true,
	reflect.TypeFor[config.Drift]():           true,
	reflect.TypeFor[backend.UpstreamConfig](): true,
}

// defaulter fills in a value's defaults before its keys are read.
type defaulter interface{ defaults() }

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

func (d *decoder) value(key string, n *yaml.Node, v reflect.Value) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode {
		d.texts[key] = n.Value
	}
	if v.CanAddr() && v.Type() == reflect.TypeFor[evaluation.Objective]() {
		d.objective(key, n, v.Addr().Interface().(*evaluation.Objective))
		return
	}
	if v.CanAddr() && v.Addr().Type().Implements(textUnmarshaler) {
		d.text(key, n, v.Addr().Interface().(encoding.TextUnmarshaler))
		return
	}
	switch v.Kind() {
	case reflect.Pointer: // to a section without which the file means something else
		v.Set(reflect.New(v.Type().Elem()))
		d.value(key, n, v.Elem())
	case reflect.Struct:
		d.structure(key, n, v)
	case reflect.Map:
		d.mapping(key, n, v)
	case reflect.Slice:
		d.list(key, n, v)
	default:
		d.scalar(key, n, v)
	}
}

func (d *decoder) structure(key string, n *yaml.Node, v reflect.Value) {
	fields := map[string]reflect.Value{}
	var names, required, partial []string
	eachField(v, func(name string, field reflect.Value, optional bool) {
		fields[name], names = field, append(names, name)
		switch {
		case !optional && field.IsZero():
			required = append(required, name)
		case !optional && field.Kind() == reflect.Struct: // it may have defaults for some of its keys alone
			partial = append(partial, name)
		}
	})
	for _, sec := range d.sections {
		if name, under := sectionUnder(key, sec); under {
			fields[name], names = reflect.ValueOf(sec.value(d.s)).Elem(), append(names, name)
		}
	}
	pairs := d.pairs(key, n)
	given := map[string]bool{}
	for _, p := range pairs {
		given[p.name] = true
	}
	for _, p := range pairs {
		if field, ok := fields[p.name]; ok {
			d.value(child(key, p.name), p.node, field)
			continue
		}
		d.add(child(key, p.name), "unknown key; %s", hint(p.name, names))
		// The key that was meant is not missing as well.
		if meant := closest(p.name, names); meant != "" && !given[meant] {
			given[meant] = true
			d.breaks(child(key, meant))
		}
	}
	spares := func(string) bool { return false }
	if x, ok := v.Addr().Interface().(sparing); ok {
		spares = func(name string) bool { return x.spares(given, name) }
	}
	for _, name := range required {
		if spares(name) {
			continue
		}
		if at := child(key, name); n.Kind == yaml.MappingNode && !given[name] {
			d.unreadable(at, "missing; it has no default")
		}
	}
	for _, name := range partial {
		if n.Kind == yaml.MappingNode && !given[name] {
			d.structure(child(key, name), &yaml.Node{Kind: yaml.MappingNode, Line: n.Line}, fields[name])
		}
	}
}

// sectionUnder returns the last key of a section that is kept apart, if it stands right under
// the key.
func sectionUnder(key string, d registered) (name string, under bool) {
	if !d.kept() || parent(d.path()) != key {
		return "", false
	}
	return strings.TrimPrefix(d.path(), child(key, "")), true
}

// eachField calls f for the keys of a struct, in order.
func eachField(v reflect.Value, f func(name string, field reflect.Value, optional bool)) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, flags, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch {
		case flags == "inline":
			eachField(v.Field(i), f)
		case name != "" && name != "-" && field.IsExported():
			f(name, v.Field(i), lenient[v.Type()] || slices.Contains(strings.Split(flags, ","), "omitempty"))
		}
	}
}

func (d *decoder) mapping(key string, n *yaml.Node, v reflect.Value) {
	m := reflect.MakeMap(v.Type())
	for _, p := range d.pairs(key, n) {
		m.SetMapIndex(reflect.ValueOf(p.name).Convert(v.Type().Key()), d.element(child(key, p.name), p.node, v.Type().Elem()))
	}
	v.Set(m)
}

func (d *decoder) list(key string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		d.noList(key, n)
		return
	}
	list := reflect.MakeSlice(v.Type(), 0, len(n.Content))
	for i, c := range n.Content {
		at := item(key, i)
		d.lines[at] = c.Line
		list = reflect.Append(list, d.element(at, c, v.Type().Elem()))
	}
	v.Set(list)
}

func (d *decoder) element(key string, n *yaml.Node, t reflect.Type) reflect.Value {
	e := reflect.New(t)
	if x, ok := e.Interface().(defaulter); ok {
		x.defaults()
	}
	d.value(key, n, e.Elem())
	return e.Elem()
}

func (d *decoder) text(key string, n *yaml.Node, v encoding.TextUnmarshaler) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		d.want(key, "a single value", n)
	} else if err := v.UnmarshalText([]byte(n.Value)); err != nil {
		d.unreadable(key, "%v", err)
	}
}

func (d *decoder) scalar(key string, n *yaml.Node, v reflect.Value) {
	tag := n.ShortTag()
	var what string
	var ok bool
	switch kind := v.Kind(); {
	case v.Type() == reflect.TypeFor[time.Duration]():
		x, err := time.ParseDuration(n.Value)
		what, ok = "a time such as 30s or 10m", err == nil
		v.SetInt(int64(x))
	case kind == reflect.String:
		what, ok = "text", tag == "!!str"
		v.SetString(setting.Trim(n.Value)) // a block of text ends in a line break
	case kind == reflect.Bool:
		var x bool
		what, ok = "true or false", n.Decode(&x) == nil && tag == "!!bool"
		v.SetBool(x)
	case kind == reflect.Float64:
		x, number := finite(n)
		what, ok = "a number", number
		v.SetFloat(x)
	case v.CanInt():
		// By way of a float, for 1e6. Above 2⁵³ no whole number is meant.
		x, number := finite(n)
		what, ok = "a whole number", number && x == math.Trunc(x) && math.Abs(x) <= 1<<53 && !v.OverflowInt(int64(x))
		v.SetInt(int64(x))
	default:
		panic(fmt.Sprintf("scenario: no decoding into %v at %s", v.Type(), key))
	}
	if !ok || n.Kind != yaml.ScalarNode {
		v.SetZero()
		d.want(key, what, n)
	}
}

// finite returns the number that a node holds, if it holds one.
func finite(n *yaml.Node) (x float64, ok bool) {
	tag := n.ShortTag()
	ok = (tag == "!!int" || tag == "!!float") && n.Decode(&x) == nil && !math.IsInf(x, 0) && !math.IsNaN(x)
	return x, ok
}

// pair is one entry of a mapping.
type pair struct {
	name string
	node *yaml.Node
}

// pairs lists a mapping's entries in order, without repetitions.
func (d *decoder) pairs(key string, n *yaml.Node) []pair {
	if n.Kind != yaml.MappingNode {
		d.want(key, "a mapping", n)
		return nil
	}
	var pairs []pair
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		at := child(key, k.Value)
		line, again := first[k.Value]
		switch {
		case k.Kind != yaml.ScalarNode || k.Value == "":
			d.addAt(k.Line, key, "a key must be plain text")
		case k.ShortTag() == "!!merge":
			d.addAt(k.Line, key, "merge keys (<<) are not read; write the keys out, or use an alias for the whole value")
		case again:
			d.addAt(k.Line, at, "duplicate key; the first is on line %d", line)
		default:
			first[k.Value], d.lines[at] = k.Line, k.Line
			pairs = append(pairs, pair{k.Value, n.Content[i+1]})
		}
	}
	return pairs
}

// noList says what stands instead of a list: items without the space after their
// dash are the keys of a mapping.
func (d *decoder) noList(key string, n *yaml.Node) {
	if n.Kind == yaml.MappingNode && len(n.Content) > 0 && strings.HasPrefix(n.Content[0].Value, "-") {
		item := n.Content[0]
		d.addAt(item.Line, key, "%q is not an item of a list; want a space after the dash, as in \"- %s\"", item.Value, strings.TrimPrefix(item.Value, "-"))
		d.breaks(key)
		return
	}
	d.want(key, "a list", n)
}

// want says in YAML's terms what the key takes and what stands there.
func (d *decoder) want(key, what string, n *yaml.Node) {
	found := n.Value
	switch {
	case n.Kind == yaml.MappingNode:
		found = "a mapping"
	case n.Kind == yaml.SequenceNode:
		found = "a list"
	case n.ShortTag() == "!!null":
		found = "nothing"
	case n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		found = fmt.Sprintf("the quoted text %q", n.Value)
	case n.ShortTag() == "!!str":
		found = strconv.Quote(n.Value)
	}
	d.unreadable(key, "want %s, found %s", what, found)
}

// Decode reads a text of JSON, or of YAML, into the struct that v points to, as a scenario is read:
// its keys are its yaml tags, unknown keys are refused, and those without omitempty are required.
// The error names every fault by its line in the file.
func Decode(file string, text []byte, v any) error {
	r := newReport(file)
	(&decoder{report: r, form: "JSON"}).read(escapes.ReplaceAllFunc(text, unescaped), v)
	return r.err()
}

// escapes are those of JSON's strings, two halves of a sign as one.
var escapes = regexp.MustCompile(`\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|.)`)

// unescaped returns the sign of an escape that JSON has and YAML has not, and leaves others as they are.
func unescaped(escape []byte) []byte {
	var sign string
	if escape[1] != '/' && len(escape) == 2 || json.Unmarshal(fmt.Appendf(nil, `"%s"`, escape), &sign) != nil {
		return escape
	}
	return []byte(sign)
}

// decode reads the one document of data into the struct that v points to.
func decode(r *report, data []byte, v any) {
	d := &decoder{report: r, form: "YAML"}
	if s, ok := v.(*Scenario); ok {
		d.s, d.sections = s, s.sections
	}
	d.read(data, v)
}

// read reads the one document of data.
func (d *decoder) read(data []byte, v any) {
	var doc, next yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(data))
	switch err := documents.Decode(&doc); {
	case errors.Is(err, io.EOF):
		d.unreadable("", "the file is empty")
		return
	case err != nil:
		d.syntax(data, err)
		return
	}
	if root := doc.Content[0]; root.Kind != yaml.MappingNode {
		d.lines[""] = root.Line
	}
	d.value("", doc.Content[0], reflect.ValueOf(v).Elem())
	if err := documents.Decode(&next); err == nil {
		d.addAt(next.Line, "", "a second document begins; want one")
	} else if !errors.Is(err, io.EOF) {
		d.syntax(data, err)
	}
}

// syntax reports what is not YAML. Nothing of the file can be judged then.
func (d *decoder) syntax(data []byte, err error) {
	line, message := syntax.Fault(data, err)
	d.addAt(line, "", "not %s: %s", d.form, message)
	d.breaks("")
}
