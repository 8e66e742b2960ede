package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/router/rollout"
	"gearshift/serving/discovery/settings"
	"gearshift/workloads"
)

// checker judges a decoded scenario beyond its types. A judgement that rests
// on a key which could not be read is left out: one mistake, one line.
type checker struct {
	*report
	s         *Scenario
	bareHosts map[int]bool // those whose memory is already reported as too little for a host
}

func check(r *report, s *Scenario) {
	c := &checker{report: r, s: s}
	c.name("name", s.Name)
	if s.drawn() != nil {
		c.drawnFile()
		return
	}
	c.tasks()
	c.variants()
	c.hosts()
	c.weights()
	c.modalities()
	c.models()
	c.kinds()
	c.own("engine", s.Engine.Validate())
	c.generated()
	c.slots()
	c.placements()
	c.engine()
	c.workload()
	for _, d := range s.sections {
		d.judge(c)
	}
	c.training()
	c.serving()
	c.rules()
}

// own reports what another package finds wrong with its section: joined
// errors, each "key: message" with the key under the section's.
func (c *checker) own(section string, err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			c.own(section, e)
		}
		return
	}
	key, message, ok := strings.Cut(err.Error(), ": ")
	if keyed := (*workloads.KeyError)(nil); errors.As(err, &keyed) {
		key, message, ok = keyed.Key, keyed.Reason, true
	}
	if !ok {
		c.judge(section, "%v", err)
		return
	}
	c.judge(child(section, key), "%s", message)
}

// nameForm keeps names apart from the signs that join them ("variant@host",
// "static:VARIANT") and fit for headers and labels.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]*$`)

func (c *checker) name(key, name string) {
	c.judgeIf(!nameForm.MatchString(name), key, "%q is not a name; want letters, digits and . _ : / -, the first a letter or digit", name)
}

// names checks the names of a list's items.
func (c *checker) names(list string, names []string) {
	c.judgeIf(len(names) == 0, list, "at least one is needed")
	first := map[string]int{}
	for i, name := range names {
		key := child(item(list, i), "name")
		c.name(key, name)
		if j, again := first[name]; again {
			c.judge(key, "%q is taken by %s on line %d", name, item(list, j), c.line(child(item(list, j), "name")))
		} else {
			first[name] = i
		}
	}
}

// known reports whether the names of a list could all be read, so that a
// reference to none of them is a fault.
func (c *checker) known(list string, n int) bool {
	if c.unread[list] || c.unread[""] {
		return false
	}
	for i := range n {
		if !c.sound(child(item(list, i), "name")) {
			return false
		}
	}
	return true
}

func (c *checker) knownVariants() bool { return c.known("variants", len(c.s.Variants)) }
func (c *checker) knownHosts() bool    { return c.known("hosts", len(c.s.Hosts)) }
func (c *checker) knownTasks() bool    { return c.known("tasks", len(c.s.Tasks)) }

func (c *checker) variants() {
	c.names("variants", c.s.variantNames())
	for i, name := range c.s.variantNames() {
		c.judgeIf(name == "auto", child(item("variants", i), "name"), `"auto" is the model that lets the policy choose; no variant can have the name`)
	}
}

func (c *checker) hosts() {
	c.names("hosts", c.s.hostNames())
	for i, h := range c.s.Hosts {
		if at := child(item("hosts", i), "slowdown"); h.Slowdown != nil {
			c.slowdown(at, h.Slowdown)
		}
		c.resources(item("hosts", i), &h)
	}
}

func (c *checker) slowdown(at string, s *Slowdown) {
	for _, times := range []struct {
		name string
		x    float64
	}{{"min", s.Min}, {"max", s.Max}} {
		c.judgeIf(times.x < 1./maxRatio || times.x > maxRatio, child(at, times.name), "a slowdown is at least %v and at most %d, not %v", 1./maxRatio, maxRatio, times.x)
	}
	c.judgeIf(s.Max < s.Min, child(at, "max"), "the greatest slowdown, %v, is below the least, %v", s.Max, s.Min)
	c.judgeIf(s.MeanS < 0.01 || s.MeanS > 3600, child(at, "mean_s"), "a slowdown holds for at least 0.01 s and at most an hour, not %v", s.MeanS)
}

// longestDeadline is one hour a token, in milliseconds.
const longestDeadline = 3_600_000

// maxWorth bounds weights and qualities, so that no sum of utilities is infinite.
const maxWorth = 1e6

func (c *checker) tasks() {
	c.names("tasks", c.s.taskNames())
	for i, t := range c.s.Tasks {
		at := item("tasks", i)
		c.deadlines(at, &t)
		c.judgeIf(t.Decay != Hard && t.Decay != Soft, child(at, "decay"), "unknown decay %q; want %s or %s", t.Decay, Hard, Soft)
		c.judgeIf(!(t.Weight > 0 && t.Weight <= maxWorth), child(at, "weight"), "a weight is above 0 and at most %d, not %v", int(maxWorth), t.Weight)
		c.quality(child(at, "quality"), t.Quality)
	}
}

// deadlines wants one at least of a task, and each within bounds.
func (c *checker) deadlines(at string, t *Task) {
	none := true
	for _, d := range []struct {
		key string
		ms  float64
	}{{"deadline_ms", t.DeadlineMS}, {"first_token_ms", t.FirstTokenMS}, {"total_ms", t.TotalMS}} {
		key := child(at, d.key)
		if _, given := c.lines[key]; !given && c.sound(key) {
			continue
		}
		none = false
		c.judgeIf(profile.Duration(min(d.ms, longestDeadline)) <= 0 || d.ms > longestDeadline, key, "a deadline is above 0 ms and at most an hour, not %v", d.ms)
	}
	if none {
		c.judge(child(at, "deadline_ms"), "missing; a task has a deadline per output token (deadline_ms), to the first of them (first_token_ms) or to the end of the answer (total_ms)")
	}
	if t.FirstTokenMS > 0 && t.TotalMS > 0 && t.FirstTokenMS > t.TotalMS {
		c.judge(child(at, "first_token_ms"), "%v ms to the first token are more than the %v ms to the end of the answer (total_ms)", t.FirstTokenMS, t.TotalMS)
	}
}

// quality holds a row of the matrix against the variants. Those that it leaves out do not
// answer the task.
func (c *checker) quality(key string, row map[string]float64) {
	known, names := c.knownVariants(), c.s.variantNames()
	for name, q := range sorted(row) {
		c.judgeIf(known && !slices.Contains(names, name), child(key, name), "unknown variant; %s", hint(name, names))
		c.judgeIf(!(q >= 0 && q <= maxWorth), child(key, name), "a quality is at least 0 and at most %d, not %v", int(maxWorth), q)
	}
	if known && !c.unread[key] {
		c.unanswered(key, row, names)
	}
}

func (s *Scenario) taskNames() []string {
	return namesOf(s.Tasks, func(t Task) string { return t.Name })
}

func (s *Scenario) variantNames() []string {
	return namesOf(s.Variants, func(v Variant) string { return v.Name })
}

func (s *Scenario) hostNames() []string {
	return namesOf(s.Hosts, func(h Host) string { return h.Name })
}

func namesOf[T any](list []T, name func(T) string) []string {
	names := make([]string, len(list))
	for i := range list {
		names[i] = name(list[i])
	}
	return names
}

func indexOf(names []string, name string) int { return slices.Index(names, name) }

// mostVariants bounds the variants where a task is not answered by some of them.
const mostVariants = 64

// weights checks the models section, and who names one.
func (c *checker) weights() {
	if c.s.Weights != nil {
		c.names("models", c.s.modelNames())
	}
	for i, m := range c.s.Weights {
		for _, t := range []struct {
			key, what string
			ms        float64
		}{{"load_ms", "a load", m.LoadMS}, {"sleep_ms", "a sleep", m.SleepMS}, {"wake_ms", "a wake", m.WakeMS}, {"first_answer_ms", "a first answer", m.FirstAnswerMS}} {
			c.judgeIf(!(t.ms >= 0 && t.ms <= maxCostMS), child(item("models", i), t.key), "%s takes at least 0 ms and at most an hour, %d ms, not %v", t.what, maxCostMS, t.ms)
		}
		if err := rollout.CheckVersion(m.Version); m.Version != "" && err != nil {
			c.judge(child(item("models", i), "version"), "%v", err)
		}
	}
	if !c.known("models", len(c.s.Weights)) {
		return
	}
	for i, v := range c.s.Variants {
		switch key := child(item("variants", i), "model"); {
		case v.Model == "" || slices.Contains(c.s.modelNames(), v.Model):
		case len(c.s.Weights) == 0:
			c.judge(key, "unknown model %q; the file lists none, want it in models", v.Model)
		default:
			c.judge(key, "unknown model %q; %s", v.Model, hint(v.Model, c.s.modelNames()))
		}
	}
}

// resources checks what a host has in addition to its memory.
func (c *checker) resources(at string, h *Host) {
	if h.Site != "" {
		c.name(child(at, "site"), h.Site)
	}
	for _, r := range []struct {
		name, unit string
		x          float64
	}{{"compute", "TFLOP/s", h.Compute}, {"bandwidth", "GB/s", h.Bandwidth}} {
		c.judgeIf(!(r.x >= 0 && r.x <= math.MaxInt32), child(at, r.name), "want a number of %s, not %v", r.unit, r.x)
	}
}

// stated checks the states of replicas at the start.
func (c *checker) stated() {
	names := namesOf(initialStates, fleet.State.String)
	for i := range c.s.Replicas {
		if p := &c.s.Replicas[i]; p.initial() == fleet.Down {
			c.judge(child(item("replicas", i), "state"), "unknown state %q; %s", p.State, hint(p.State, names))
		}
	}
}

// held reports the replicas that have less memory than their model takes.
func (c *checker) held() {
	var found hostFaults
	worker := 0 // the last one
	for _, p := range c.s.placedReplicas() {
		if p.variant < 0 || !c.measured(p) || p.worker > 0 && p.worker == worker || p.memory < leastHost && c.bare(p.host) {
			continue
		}
		worker = p.worker
		v := c.s.Variants[p.variant]
		i := indexOf(c.s.modelNames(), v.Model)
		if i < 0 || !c.sound(item("models", i)) {
			continue
		}
		if needs := c.s.needs(p, i); p.memory < needs {
			found.add(memoryKey(p), c.s.Hosts[p.host].Name, fmt.Sprintf("%v for %s: its model %s takes %v", p.memory, nameOf(c.s.engineName(p)), v.Model, needs))
		}
	}
	c.group(found)
}

// unanswered reports a task that no variant answers, and gaps of more variants than can be
// told apart.
func (c *checker) unanswered(key string, row map[string]float64, known []string) {
	n := 0
	for _, name := range known {
		if _, ok := row[name]; ok {
			n++
		}
	}
	switch {
	case n == 0 && len(row) == 0:
		c.judge(key, "lists no variant; want the quality of each that answers the task: %s", strings.Join(known, ", "))
	case n < len(known) && len(known) > mostVariants:
		c.judge(key, "leaves out %d of %d variants; with more than %d each needs a quality", len(known)-n, len(known), mostVariants)
	}
}

// slots checks the entries of replicas that have slots.
func (c *checker) slots() {
	first := map[string]int{}
	for i := range c.s.Replicas {
		p, at := &c.s.Replicas[i], item("replicas", i)
		hosts := len(p.Hosts)
		if _, given := c.lines[child(at, "hosts")]; !given {
			hosts = 0 // these are the slots' own
		}
		p.Judge(hosts, func(key, format string, args ...any) { c.judge(child(at, key), format, args...) })
		for j, host := range p.Hosts {
			c.judgeIf(hosts > 0 && len(c.s.templates[host]) > 0, item(child(at, "hosts"), j), "%q is the host of slots; want another host", host)
		}
		if !p.On() {
			continue
		}
		c.judgeIf(p.Model != "", child(at, "slots"), "has no meaning with model, whose variants share one engine on a host; want a variant")
		c.judgeIf(p.State != "", child(at, "state"), "has no meaning with slots, whose engines come and go; want no state")
		if p.Host != "" && len(c.s.templates[p.Host]) == 0 {
			known := slices.DeleteFunc(c.s.hostNames(), c.s.ofSlot)
			known = append(known, slices.Sorted(maps.Keys(c.s.templates))...)
			c.judgeIf(c.knownHosts() && !slices.Contains(known, p.Host), child(at, "host"), "unknown host %q; %s", p.Host, hint(p.Host, known))
		}
		j, again := first[p.Entry()]
		c.judgeIf(again, at, "the slots of %q are on line %d already; want a name of its own", p.Entry(), c.line(item("replicas", j)))
		first[p.Entry()] = i
	}
}

// discoverySection registers the section that finds the engines of slots.
func discoverySection() registered {
	return section[settings.Config]{key: "serving.discovery", initial: settings.Default, check: (*checker).discovery}
}

func (c *checker) discovery(d *settings.Config) {
	const key = "serving.discovery"
	c.own(key, d.Validate())
	s, on := c.s, slices.IndexFunc(c.s.Replicas, func(p Placement) bool { return p.On() })
	if !c.sound("replicas") || !c.sound("serving") {
		return
	}
	c.judgeIf(d.On() && on < 0, key, "finds engines for slots, and no entry of replicas has slots; want slots in one, or no serving.discovery")
	c.judgeIf(d.On() && s.Serving.Backend != Upstream, key, "finds servers, and has no meaning with backend: %s; want backend: %s", s.Serving.Backend, Upstream)
	c.judgeIf(on >= 0 && !d.On() && s.Serving.Backend == Upstream, item("replicas", max(on, 0))+".slots", "nothing finds the engines of slots; want serving.discovery with file, kubernetes or dns")
	c.judgeIf(on >= 0 && s.failing, "failover", "tracks hosts by their addresses, and those of slots change; want no failover, or no slots")
	var known []string
	for i := range s.Replicas {
		p, at := &s.Replicas[i], item("replicas", i)
		if !p.On() {
			continue
		}
		same := slices.IndexFunc(s.Replicas[:i], func(o Placement) bool { return o.Variant != p.Variant && o.Alike(&p.Template, d.Labels.Variant) })
		c.judgeIf(d.Kubernetes != nil && same >= 0, child(at, "selector"), "line %d has the same for another variant, and the same port; want labels or a port that tell their pods apart", c.line(item("replicas", max(same, 0))))
		known = append(known, p.Entry())
		if !slices.Contains(known, p.Variant) {
			known = append(known, p.Variant)
		}
		c.judgeIf(d.Kubernetes != nil && d.Kubernetes.Pool == "" && p.Port == 0, child(at, "port"), "missing; want the port of the engines, or serving.discovery.kubernetes.pool, whose ports are used")
		c.judgeIf(d.DNS != nil && p.Port == 0 && !strings.HasPrefix(cmp.Or(d.DNS.Names[p.Entry()], d.DNS.Names[p.Variant]), "_"), child(at, "port"), "missing; want the port of the engines, or a name of SRV records, which begins with an underscore")
		if d.DNS != nil && len(d.DNS.Names) > 0 {
			c.judgeIf(d.DNS.Names[p.Entry()] == "" && d.DNS.Names[p.Variant] == "", key+".dns.names", "has none for the slots of %q; want one for each variant with slots", p.Entry())
		}
		c.judgeIf(d.Kubernetes != nil && len(p.Selector) == 0 && d.Labels.Variant == "", child(at, "selector"), "missing; want the labels of the pods, or serving.discovery.labels.variant")
	}
	if d.DNS != nil {
		for name := range sorted(d.DNS.Names) {
			c.judgeIf(!slices.Contains(known, name), key+".dns.names."+name, "unknown variant or entry of replicas with slots; %s", hint(name, known))
		}
	}
}
