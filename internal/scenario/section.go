package scenario

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"gearshift/internal/scenario/slots"
	"gearshift/router/fleet"
)

// section is a part of the file that registers itself: what the package does with it,
// besides what follows from its type. T is a struct; its yaml tags are the keys, and
// docs/scenario.md describes each. A key without a default, and without omitempty in its tag,
// is required where the section is given.
//
// To add a section, add an entry to [sections], and read it with [Of].
type section[T any] struct {
	// key is where the section stands, as "evaluation" or "serving.policies".
	key string
	// in is the field of the scenario that holds it. Nil keeps it with the others; see [Of].
	in func(s *Scenario) *T
	// initial has the defaults; nil is the zero value.
	initial func() T
	// check judges what the types do not say. Nil takes any value.
	check func(c *checker, v *T)
	// world leaves of v what policies are trained and judged in, which [Scenario.Hash] covers.
	// Nil leaves nothing. A section that is kept with the others counts unless it is the default.
	world func(v *T)
	// offline says that a running router does not use the section, so that a reload ignores it.
	offline bool
	// live are the keys under the section's, each standing for what lies under it, whose new
	// values a running router takes over. "" is all of them. The others take a restart.
	live []string
}

// registered is a section of any type.
type registered interface {
	path() string
	kept() bool                   // with the others, rather than in a field of its own
	begin(s *Scenario)            // gives it its defaults
	value(s *Scenario) any        // pointer to it
	judge(c *checker)             // finds its faults
	hashed(world *Scenario) any   // what counts of it, if it is kept; nil is nothing. Of another it takes out the rest
	changes(a, b *Scenario) delta // by key
	takeOver(to, from *Scenario)  // of what may change
}

// delta is by which keys two values of a section differ.
type delta struct{ live, restart []string }

func (d section[T]) path() string { return d.key }
func (d section[T]) kept() bool   { return d.in == nil }
func (d section[T]) value(s *Scenario) any {
	return d.of(s)
}

// of returns the section's value: its default where nothing has been decoded.
func (d section[T]) of(s *Scenario) *T {
	if d.in != nil {
		return d.in(s)
	}
	if v, ok := s.kept[d.key].(*T); ok {
		return v
	}
	v := d.fresh()
	return &v
}

func (d section[T]) fresh() (v T) {
	if d.initial != nil {
		v = d.initial()
	}
	return v
}

func (d section[T]) begin(s *Scenario) {
	v := d.fresh()
	if d.in != nil {
		*d.in(s) = v
		return
	}
	s.kept[d.key] = &v
}

func (d section[T]) judge(c *checker) {
	if d.check != nil {
		d.check(c, d.of(c.s))
	}
}

func (d section[T]) hashed(world *Scenario) any {
	if d.world == nil {
		return nil
	}
	if d.in != nil {
		d.world(d.in(world))
		return nil
	}
	v, usual := *d.of(world), d.fresh()
	d.world(&v)
	d.world(&usual)
	if reflect.DeepEqual(v, usual) {
		return nil
	}
	return v
}

func (d section[T]) changes(a, b *Scenario) (out delta) {
	if d.offline {
		return out
	}
	differing(d.key, reflect.ValueOf(d.of(a)).Elem(), reflect.ValueOf(d.of(b)).Elem(), func(key string, _, _ reflect.Value) {
		if d.mayChange(key) {
			out.live = append(out.live, key)
		} else {
			out.restart = append(out.restart, key)
		}
	})
	return out
}

func (d section[T]) takeOver(to, from *Scenario) {
	if d.offline || len(d.live) == 0 {
		return
	}
	v := *d.of(to) // which is of a scenario that others read
	differing(d.key, reflect.ValueOf(&v).Elem(), reflect.ValueOf(d.of(from)).Elem(), func(key string, a, b reflect.Value) {
		if d.mayChange(key) {
			a.Set(b)
		}
	})
	if d.in != nil {
		*d.in(to) = v
		return
	}
	to.set(d.key, &v)
}

func (d section[T]) mayChange(key string) bool {
	return slices.ContainsFunc(d.live, func(l string) bool {
		l = strings.TrimSuffix(child(d.key, l), ".") // of "" the section itself
		return key == l || strings.HasPrefix(key, l+".")
	})
}

// differing calls f for the keys by which two values of a type differ: fields of structs,
// and of the structs in them. Lists and maps differ as a whole.
func differing(key string, a, b reflect.Value, f func(key string, a, b reflect.Value)) {
	if a.Kind() != reflect.Struct {
		if !reflect.DeepEqual(a.Interface(), b.Interface()) {
			f(key, a, b)
		}
		return
	}
	theirs := map[string]reflect.Value{}
	eachField(b, func(name string, field reflect.Value, _ bool) { theirs[name] = field })
	eachField(a, func(name string, field reflect.Value, _ bool) { differing(child(key, name), field, theirs[name], f) })
}

// Of returns the section of the type, as the package that registered it knows it. It is the zero value
// if the scenario was not parsed.
func Of[T any](s *Scenario) *T {
	for _, v := range s.kept {
		if v, ok := v.(*T); ok {
			return v
		}
	}
	return new(T)
}

// set gives the scenario another value of a section. What s was copied from keeps its own.
func (s *Scenario) set(key string, v any) {
	s.kept = maps.Clone(s.kept)
	s.kept[key] = v
}

// register begins a scenario that has these sections.
func (s *Scenario) register(list []registered) {
	s.sections, s.kept = list, map[string]any{}
	for _, d := range list {
		if d.kept() {
			d.begin(s)
		}
	}
}

// Changed returns the keys of registered sections that differ and that a running router takes
// over, by [Scenario.TakeOver].
func (s *Scenario) Changed(o *Scenario) (keys []string) {
	for _, d := range s.sections {
		keys = append(keys, d.changes(s, o).live...)
	}
	return keys
}

// TakeOver gives s those values of o that may change while a router runs. What s was copied
// from stays as it is.
func (s *Scenario) TakeOver(o *Scenario) {
	for _, d := range s.sections {
		d.takeOver(s, o)
	}
}

// setKey sets the value of a path of keys in what a file says.
func setKey(keys map[string]any, path string, value any) {
	name, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		keys[name] = value
		return
	}
	under, ok := keys[name].(map[string]any)
	if !ok {
		under = map[string]any{}
		keys[name] = under
	}
	setKey(under, rest, value)
}

// Differences names the sections in which two scenarios differ and which a router
// is built on: they take a restart. Replicas that o leaves out, or has in another state, are
// not among them: see [Scenario.StatesIn]. Those of the serving section that the server
// itself owns are not among them, nor is what only training and evaluation read.
func (s *Scenario) Differences(o *Scenario) []string {
	var list []string
	for _, section := range []struct {
		key  string
		a, b any
	}{
		{"tasks", s.Tasks, o.Tasks},
		{"variants", s.Variants, o.Variants},
		{"hosts", s.steadyHosts(), o.steadyHosts()},
		{"replicas", nil, o.besides(s)},
		{"replicas", s.selected(), o.selected()},
		{"profiles", s.Models, o.Models},
		{"engine", s.Engine, o.Engine},
		{"workload", s.declared(), o.declared()},
		{"serving.balancer", s.Serving.Balancer, o.Serving.Balancer},
		{"serving.fallback", s.Serving.Fallback, o.Serving.Fallback},
		{"serving.tuning", s.Serving.Tuning, o.Serving.Tuning},
		{"serving.profiles", s.Serving.Profiles, o.Serving.Profiles},
		{"serving.max_in_flight", s.Serving.MaxInFlight, o.Serving.MaxInFlight},
		{"serving.backend", s.Serving.Backend, o.Serving.Backend},
		{"serving.models", s.Serving.Models, o.Serving.Models},
	} {
		if !reflect.DeepEqual(section.a, section.b) {
			list = append(list, section.key)
		}
	}
	for _, d := range s.sections {
		list = append(list, d.changes(s, o).restart...)
	}
	return list
}

// steadyHosts returns the hosts without what only the simulator reads of them.
func (s *Scenario) steadyHosts() []Host {
	hosts := slices.Clone(s.Hosts)
	for i := range hosts {
		hosts[i].Slowdown = nil
	}
	return hosts
}

// selected returns the templates of the entries that have slots.
func (s *Scenario) selected() (list []slots.Template) {
	for _, p := range s.Replicas {
		if p.On() {
			list = append(list, p.Template)
		}
	}
	return list
}

// ofSlot reports whether the host belongs to a slot.
func (s *Scenario) ofSlot(host string) bool {
	for _, own := range s.templates {
		if slices.Contains(own, host) {
			return true
		}
	}
	return false
}

// groups returns the names of the entries with slots, for the serving section.
func (s *Scenario) groups() (list []string) {
	for i := range s.Replicas {
		if p := &s.Replicas[i]; p.On() {
			list = append(list, p.Entry()+onSlots)
		}
	}
	return list
}

// Slots returns the replicas whose engines come and go, by name, with their entries in the file.
func (s *Scenario) Slots() map[string]*Placement {
	list := map[string]*Placement{}
	for i := range s.Replicas {
		for _, host := range s.Replicas[i].Hosts {
			if p := &s.Replicas[i]; p.On() {
				list[p.Entry()+"@"+host] = p
			}
		}
	}
	return list
}

// besides names the replicas that s has and o has not, or with other memory; nil if there are
// none.
func (s *Scenario) besides(o *Scenario) any {
	known := map[string]Memory{}
	for _, p := range o.placedReplicas() {
		known[o.replicaName(p)] = o.Replicas[p.placement].Memory
	}
	var list []string
	for _, p := range s.placedReplicas() {
		if memory, ok := known[s.replicaName(p)]; !ok || memory != s.Replicas[p.placement].Memory {
			list = append(list, s.replicaName(p))
		}
	}
	if list == nil {
		return nil
	}
	return list
}

// StatesIn returns the states in which o wants the replicas of s, by the index of s: cold where o
// does not list them.
func (s *Scenario) StatesIn(o *Scenario) []fleet.State {
	wanted := map[string]fleet.State{}
	for _, p := range o.placedReplicas() {
		wanted[o.replicaName(p)] = p.state
	}
	var states []fleet.State
	for _, p := range s.placedReplicas() {
		state, ok := wanted[s.replicaName(p)]
		if !ok {
			state = fleet.Cold
		}
		states = append(states, state)
	}
	return states
}

// Keep has s go on with what o says of the engines of replicas that only o lists: where they
// answer, and what is loaded for them.
func (s *Scenario) Keep(o *Scenario) {
	var names []string
	for _, p := range s.placedReplicas() {
		names = append(names, s.replicaName(p))
	}
	gone := map[string]bool{}
	for _, p := range o.placedReplicas() {
		if name := o.replicaName(p); !slices.Contains(names, name) {
			gone[name] = true
		}
	}
	keep(&s.Serving.Upstreams, o.Serving.Upstreams, gone)
	keep(&s.Serving.Models, o.Serving.Models, gone)
}

// keep copies the entries of the names into a map that lacks them.
func keep[T any](into *map[string]T, from map[string]T, names map[string]bool) {
	for name, value := range from {
		if _, ok := (*into)[name]; !ok && names[name] {
			if *into = maps.Clone(*into); *into == nil {
				*into = map[string]T{}
			}
			(*into)[name] = value
		}
	}
}
