package scenario

import (
	"fmt"
	"math"
	"net"
	"slices"
	"strings"

	"gearshift/env/evaluation"
	"gearshift/router/fleet"
)

// Inspect is [Load] with warnings: what is valid, and probably not what was meant. They
// are by line, as faults are.
//
// Judges look at more than this package knows. What they refuse is an error.
func Inspect(ref string, judges ...Judge) (*Scenario, Faults, error) {
	text, err := Text(ref)
	if err != nil {
		return nil, nil, err
	}
	return InspectText(fileName(ref), text, judges...)
}

// Judge names what is wrong with keys of a scenario that is sound by itself: what cannot work, and what is
// probably not meant.
type Judge func(s *Scenario, refuse, warn func(key, format string, args ...any))

// InspectText is [Parse] with warnings, as [Inspect] has them.
func InspectText(name string, data []byte, judges ...Judge) (*Scenario, Faults, error) {
	s, r, err := parse(name, data)
	if err == nil {
		err = s.refuseDrawn(r)
	}
	if err != nil {
		return nil, nil, err
	}
	w, refused := &warner{report: r, s: s}, *r
	for _, judge := range judges {
		judge(s, refused.judge, w.warn)
	}
	if err := refused.err(); err != nil {
		return nil, nil, err
	}
	w.order()
	w.qualities()
	w.deadlines()
	w.placing()
	w.unchanging()
	w.gaps()
	w.starting()
	w.unused()
	w.caches()
	w.rates()
	w.sizes()
	for i := range s.Models {
		w.profile(i)
	}
	w.numbers()
	w.durations()
	w.rewards()
	w.asking()
	w.looping()
	w.rolling()
	_ = r.err() // sorts them
	return s, r.faults, nil
}

// warner collects warnings in a report that has no faults.
type warner struct {
	*report
	s          *Scenario
	places     []placedReplica
	expected   *expected
	capacities map[float64][]Capacity // by deadline, of which tasks have few
}

// placed are the replicas of the scenario.
func (w *warner) placed() []placedReplica {
	if w.places == nil {
		w.places = w.s.placedReplicas()
	}
	return w.places
}

// fleet holds what capacities follow from.
func (w *warner) fleet() *expected {
	if w.expected == nil {
		w.expected = w.s.expected()
	}
	return w.expected
}

// capacitiesAt returns those of the replicas at a deadline.
func (w *warner) capacitiesAt(deadlineMS float64) []Capacity {
	list, known := w.capacities[deadlineMS]
	if !known {
		if list = w.fleet().capacities(deadlineMS); w.capacities == nil {
			w.capacities = map[float64][]Capacity{}
		}
		w.capacities[deadlineMS] = list
	}
	return list
}

// given reports whether the key stands in the file.
func (w *warner) given(key string) bool { _, ok := w.lines[key]; return ok }

// warn notes what is wrong with a key that the file has, or with the one above it.
func (w *warner) warn(key, format string, args ...any) {
	w.add(key, "%s", fmt.Sprintf(format, args...))
}

// rewards warns of presets that cannot be trained for the file's objective.
func (w *warner) rewards() {
	by := w.s.Training.Objective
	for name, p := range sorted(w.s.Training.Presets) {
		for key, on := range map[string]bool{"marginal": p.MarginalRewards, "difference": p.DifferenceRewards} {
			if on && by != evaluation.MeanUtility {
				w.warn(child(child("training.presets", name), key+"_rewards"), "true, and training.objective is %s: %s rewards are of utility, so that train refuses the preset; want false, or the objective utility", by, key)
			}
		}
	}
}

// plain returns a number for a message: three digits.
func plain(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.6f", Round(x, 3)), "0"), ".")
}

// byVariant returns the capacity of each variant on a host, under a deadline.
func (w *warner) byVariant(host int, deadlineMS float64) map[int]Capacity {
	caps, found := w.capacitiesAt(deadlineMS), map[int]Capacity{}
	for i, p := range w.placed() {
		if p.host == host {
			found[p.variant] = caps[i]
		}
	}
	return found
}

// order warns of a larger variant that is quicker than a smaller one on the same host.
func (w *warner) order() {
	said := map[string]bool{}
	for h, host := range w.s.Hosts {
		on := w.byVariant(h, longestDeadline)
		for large := 1; large < len(w.s.Variants); large++ {
			small := large - 1
			a, both := on[small]
			b, alsoHere := on[large]
			if !both || !alsoHere || b.Alone >= 0.98*a.Alone || w.s.combined(small, large) {
				continue
			}
			larger, smaller := w.s.Variants[large].Name, w.s.Variants[small].Name
			key := item("profiles", w.s.modelsFor(larger, host.Name)[0])
			if said[key] {
				continue
			}
			said[key] = true
			w.warn(key, "%s takes %s ms per token alone, and %s, listed before it as quicker, %s ms; want larger times here, smaller ones there, or the other order in variants",
				larger, plain(b.Alone), smaller, plain(a.Alone))
		}
	}
}

// qualities warns of a row in which a larger variant is worth no more.
func (w *warner) qualities() {
	if w.s.Predictor() != "" {
		return // for some prompts it is worth more
	}
	for i, t := range w.s.Tasks {
		row := child(item("tasks", i), "quality")
		names := slices.DeleteFunc(w.s.variantNames(), func(name string) bool { return !t.answers(name) })
		for v := 1; v < len(names); v++ {
			smaller, larger := names[v-1], names[v]
			switch q, before := t.Quality[larger], t.Quality[smaller]; {
			case w.s.combined(w.s.variantIndex(smaller), w.s.variantIndex(larger)):
			case q == before:
				w.warn(child(row, larger), "%v is that of %s too, which is quicker: %s would never be the better choice; want more, or leave %s out", q, smaller, larger, larger)
			case q < before:
				w.warn(child(row, larger), "%v is below the %v of %s, which is quicker; want more than that, or the other order in variants", q, before, smaller)
			}
		}
		for name, q := range sorted(t.Quality) {
			if q > 1.5 {
				w.warn(child(row, name), "%v is a quality, usually from 0 to 1; want %s if percent are meant", q, plain(q/100))
			}
		}
	}
}

// idle is how many times the time per token of its largest batch a deadline may be, and
// still be a matter of what is chosen.
const idle = 4

// deadlines warns of those that no size can meet, and of those that every size meets.
func (w *warner) deadlines() {
	for i, t := range w.s.Tasks {
		w.firstToken(i, &t)
		if t.DeadlineMS == 0 {
			w.total(i, &t)
			continue
		}
		key := child(item("tasks", i), "deadline_ms")
		least, most := math.Inf(1), 0.
		places := w.placed()
		for j, c := range w.capacitiesAt(t.DeadlineMS) {
			if !t.answers(w.s.Variants[places[j].variant].Name) {
				continue
			}
			least, most = min(least, c.Alone), max(most, c.Alone, c.MostPace)
		}
		switch {
		case least > t.DeadlineMS && t.DeadlineMS <= 1 && 1000*t.DeadlineMS >= least:
			w.warn(key, "%v ms per output token: not even a single request meets it, the quickest size takes %s ms; want %s if seconds are meant", t.DeadlineMS, plain(least), plain(1000*t.DeadlineMS))
		case least > t.DeadlineMS:
			w.warn(key, "%v ms per output token: not even a single request meets it, the quickest size takes %s ms; want more than that", t.DeadlineMS, plain(least))
		case t.DeadlineMS > idle*most:
			w.warn(key, "%v ms per output token: every size meets it at any load, the slowest takes %s ms in its largest batch; it is per token, not for the whole answer; want less than %s for the choice to matter",
				t.DeadlineMS, plain(most), plain(most))
		}
	}
}

// firstToken warns of a deadline to the first token that the prompt alone takes longer than.
func (w *warner) firstToken(i int, t *Task) {
	prompt, _ := w.s.Workload.Of(t.Name)
	least := math.Inf(1)
	for _, p := range w.fleet().profiles {
		least = min(least, p.Prefill(int(prompt.Expected()), 0))
	}
	if t.FirstTokenMS > 0 && least > t.FirstTokenMS {
		w.warn(child(item("tasks", i), "first_token_ms"), "%v ms to the first token: not even a single request of a mean prompt meets it, the quickest size takes %s ms; want more than that", t.FirstTokenMS, plain(least))
	}
}

// total warns of a deadline to the end of an answer that not even a single one meets.
func (w *warner) total(i int, t *Task) {
	_, output := w.s.Workload.Of(t.Name)
	least, pace := math.Inf(1), w.s.PaceMS(t)
	for _, c := range w.capacitiesAt(pace) {
		least = min(least, c.Alone)
	}
	if t.TotalMS > 0 && least > pace {
		w.warn(child(item("tasks", i), "total_ms"), "%v ms to the end of the answer: not even a single request of mean length meets it, the quickest size takes %s ms; want more than that", t.TotalMS, plain(least*max(1, output.Expected())))
	}
}

// placing warns of hosts that nothing runs on. Variants without a replica are a fault.
func (w *warner) placing() {
	for h, host := range w.s.Hosts {
		if !slices.ContainsFunc(w.placed(), func(p placedReplica) bool { return p.host == h }) {
			w.warn(child(item("hosts", h), "name"), "no replica is on %s; want it in the hosts of one, or leave it out", host.Name)
		}
	}
}

// caches warns of a KV cache that one request of mean length fills.
func (w *warner) caches() {
	mean := w.s.meanRequest()
	said := map[string]bool{}
	for i, c := range w.capacitiesAt(longestDeadline) {
		p := w.placed()[i]
		key := memoryKey(p)
		if c.Most > 1 || c.KVTokens == 0 || said[key] || w.s.Engine.MaxSequences == 1 {
			continue
		}
		said[key] = true
		w.warn(key, "the KV cache of %d tokens has room for %d of the workload's mean requests, %s tokens each, at a time; want more memory, or a shorter workload",
			c.KVTokens, c.Most, plain(mean.prompt+mean.output))
	}
}

// rates warns of arrivals far from what the fleet answers in time.
func (w *warner) rates() {
	fleet := w.s.FleetRate()
	for _, r := range []struct {
		key  string
		most float64
	}{
		{"training.load.max_rate", w.s.Training.Load.MaxRate},
		{"evaluation.stable_rates", slices.Max(w.s.Evaluation.StableRates)},
		{"evaluation.rate_scale", paperPeak * float64(w.s.Evaluation.RateScale)},
	} {
		key := r.key
		if key == "training.load.max_rate" && w.s.assumed.load {
			continue
		}
		if key == "evaluation.rate_scale" && (w.s.assumed.scale || !w.given(key) && !w.given("training.load")) {
			continue
		}
		if key == "evaluation.stable_rates" && w.s.assumed.rates {
			continue
		}
		switch {
		case r.most > 8*fleet:
			w.warn(key, "up to %s requests per second, of which the fleet answers %s in time; want about %s", plain(r.most), plain(fleet), w.wanted(key, fleet))
		case r.most < fleet/15:
			w.warn(key, "at most %s requests per second, of %s that the fleet answers in time: every size keeps up; want about %s", plain(r.most), plain(fleet), w.wanted(key, fleet))
		}
	}
}

// paperPeak is the highest rate of the paper's workloads, per second.
const paperPeak = 48

func (w *warner) wanted(key string, fleet float64) string {
	if key == "evaluation.rate_scale" {
		return plain(Round(fleet/paperRate, 2))
	}
	return "up to " + plain(Round(1.25*fleet, 2))
}

// gaps warns of the one quality that a file leaves out, of all tasks and variants: it may have
// been forgotten.
func (w *warner) gaps() {
	var task, variant, n int
	for i := range w.s.Tasks {
		for j, v := range w.s.Variants {
			if !w.s.Tasks[i].answers(v.Name) {
				task, variant, n = i, j, n+1
			}
		}
	}
	if n == 1 {
		w.warn(child(item("tasks", task), "quality"), "leaves out %s alone, so that no request of %s goes to it; want its quality, unless that is meant", w.s.Variants[variant].Name, w.s.Tasks[task].Name)
	}
}

// starting warns of tasks that nothing answers at the start.
func (w *warner) starting() {
	for i, t := range w.s.Tasks {
		up := false
		for _, p := range w.placed() {
			up = up || p.state == fleet.Up && t.answers(w.s.Variants[p.variant].Name)
		}
		if !up {
			w.warn(child(item("tasks", i), "name"), "no replica that answers %s is up at the start: its requests fail until one is loaded; want state: up in the replicas of one", t.Name)
		}
	}
}

// asking warns of a balancer that asks engines for their load which have no page of it.
func (w *warner) asking() {
	rule, ok, err := w.s.rule()
	if !ok || err != nil || !rule.Polls {
		return
	}
	for name, e := range sorted(w.s.Serving.Upstreams) {
		if slices.Contains([]string{"vllm", "triton", "ollama"}, e.Lifecycle) {
			w.warn("serving.balancer", "%s asks engines for their load at /v1/loads before a choice, which %s does not have, as %s: there it knows its own requests alone, and what gauges said last; want power-of-two, or engines that have the page", w.s.Serving.Balancer, e.Lifecycle, name)
			return
		}
	}
}

// looping warns of engines at an address on which the router itself listens.
func (w *warner) looping() {
	said := map[string]bool{}
	for name, e := range sorted(w.s.Serving.Upstreams) {
		if !w.given(child("serving.upstreams", name)) { // its host's has become one for each replica
			name = onHost + hostOf(name)
		}
		to, err := UpstreamURL(e.URL)
		if err != nil || !here(to.Hostname()) || said[name] {
			continue
		}
		said[name] = true
		for key, addr := range sorted(map[string]string{"serving.addr": w.s.Serving.Addr, "serving.admin.addr": w.s.Serving.Server.Admin.Addr}) {
			if host, port, err := net.SplitHostPort(addr); err == nil && port == to.Port() && (host == "" || here(host)) {
				w.warn(child(child("serving.upstreams", name), "url"), "%s is where the router itself listens, by %s; want the engine's address, or another there", e.URL, key)
			}
		}
	}
}

// here reports whether the name of a host is one of this machine by every reading.
func here(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// unused warns of models that no variant runs.
func (w *warner) unused() {
	for i, m := range w.s.Weights {
		used := false
		for _, v := range w.s.Variants {
			used = used || v.Model == m.Name
		}
		if !used {
			w.warn(child(item("models", i), "name"), "no variant runs %s; want it as the model of one, or leave it out", m.Name)
		}
	}
}
