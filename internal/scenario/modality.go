package scenario

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gearshift/router/modality"
)

// A model with modalities answers with any subset of its inputs. Each subset is a variant;
// all variants of the model share one engine on each host.

// mostModalities have as many combinations as a planner takes.
const mostModalities = 6

// JobPlanning is how jobs are planned: which inputs of a model their requests use.
type JobPlanning struct {
	// Policy is one of [modality.Names], or names a stored policy as [modality.IsStored] has it.
	Policy string `yaml:"policy"`
	// Mixing says whether the requests of a job may use different inputs.
	Mixing modality.Mixing `yaml:"mixing"`
	// Table is the size of the largest job for which strategies are worked out.
	Table int `yaml:"table"`
	// FixedEstimates has plans keep to the profiles, whatever batches really take.
	FixedEstimates bool `yaml:"fixed_estimates,omitempty"`
}

// storedPolicy matches the names of stored policies. The store has the last word on them.
var storedPolicy = regexp.MustCompile(`^(store:[a-z0-9][a-z0-9._-]*(@[a-z0-9._-]+)?|[a-z0-9][a-z0-9._-]*@[a-z0-9._-]+)$`)

// jobsSection describes how a router plans jobs. It is not of the world that policies of single
// requests are trained in.
func jobsSection() registered {
	return section[JobPlanning]{
		key:     "modality",
		initial: func() JobPlanning { return JobPlanning{Policy: modality.Names[0], Mixing: modality.Mixed, Table: 64} },
		check: func(c *checker, v *JobPlanning) {
			if !storedPolicy.MatchString(v.Policy) && modality.CheckName(v.Policy) != nil {
				c.judge("modality.policy", "unknown policy %q; %s (a stored one is NAME@VERSION or store:NAME)", v.Policy, hint(v.Policy, modality.Names))
			}
			if mixings := []string{string(modality.Mixed), string(modality.Uniform)}; !slices.Contains(mixings, string(v.Mixing)) {
				c.judge("modality.mixing", "unknown mixing %q; %s", v.Mixing, hint(string(v.Mixing), mixings))
			}
			c.judgeIf(v.Table < 1 || v.Table > modality.MaxBatch, "modality.table", "want a number of requests from 1 to %d, not %d", modality.MaxBatch, v.Table)
			_, given := c.lines["modality"]
			combined := slices.ContainsFunc(c.s.Weights, func(m Model) bool { return len(m.Modalities) > 0 })
			c.judgeIf(given && !combined && c.sound("models"), "modality", "no model of the file has modalities; want them at one, or no such section")
		},
	}
}

// subsets adds the variants of models with modalities for which the file lists none: all
// subsets, named after the model and the modalities. It runs between decoding and checking.
func (s *Scenario) subsets() {
	for _, m := range s.Weights {
		n := len(m.Modalities)
		if n == 0 || n > mostModalities || slices.ContainsFunc(s.Variants, func(v Variant) bool { return v.Model == m.Name }) {
			continue
		}
		for _, mask := range modality.Combinations(n) {
			v := Variant{Model: m.Name, Modalities: m.subset(mask)}
			v.Name = m.Name + "-" + strings.Join(v.Modalities, "-")
			s.Variants = append(s.Variants, v)
		}
	}
}

// subset returns the modalities of a bit mask, in the model's order.
func (m *Model) subset(mask uint) []string {
	var names []string
	for i, name := range m.Modalities {
		if mask>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return names
}

// mask returns the modalities as bits in the model's order. Names that are none of its leave no
// bit.
func (m *Model) mask(names []string) (mask uint) {
	for i, name := range m.Modalities {
		if slices.Contains(names, name) {
			mask |= 1 << i
		}
	}
	return mask
}

// spares reports whether the key may be left out where the others are given: a placement names a variant, or a
// model for all of its variants; and hosts or slots.
func (p *Placement) spares(given map[string]bool, key string) bool {
	return key == "variant" && given["model"] || key == "hosts" && given["slots"]
}

// spares reports whether the key may be left out: variants are those of the models, where
// these have modalities; failover places replicas, or draws all.
func (s *Scenario) spares(given map[string]bool, key string) bool {
	return key == "variants" && given["models"] || key == "replicas" && given["failover"] || s.drawn() != nil
}

// runs lists the variants of the placement, by index; −1 is an unknown one.
func (s *Scenario) runs(p *Placement) []int {
	if p.Model == "" {
		return []int{s.variantIndex(p.Variant)}
	}
	var list []int
	for i, v := range s.Variants {
		if v.Model == p.Model {
			list = append(list, i)
		}
	}
	return list
}

// key returns that under replicas which names what the replica runs.
func (p *placedReplica) key(s *Scenario) string {
	if s.Replicas[p.placement].Model != "" {
		return "model"
	}
	return "variant"
}

// engineName returns what the serving section calls the replica's engine: after the replica, or
// after the model where variants share it.
func (s *Scenario) engineName(p placedReplica) string {
	if p.worker == 0 {
		p.second = false // it has the engine of the listed one
		return s.replicaName(p)
	}
	at := &s.Replicas[p.placement]
	return at.Model + "@" + at.Hosts[p.nth]
}

// EngineNames are what the serving section calls the engines of the replicas, in the table's
// order. Replicas that share an engine have the same name.
func (s *Scenario) EngineNames() (list []string) {
	for _, p := range s.placedReplicas() {
		list = append(list, s.engineName(p))
	}
	return list
}

// shareUpstreams has each replica of a shared engine answer where the engine does, which
// knows the model by its name.
func (s *Scenario) shareUpstreams() {
	if len(s.Serving.Upstreams) == 0 && len(s.templates) == 0 {
		return
	}
	all := map[string]Endpoint{}
	for _, p := range s.placedReplicas() {
		e := s.upstream(p)
		if p.worker > 0 { // an engine that variants share stays up
			e.Model, e.Lifecycle = cmp.Or(e.Model, s.Replicas[p.placement].Model), ""
		}
		all[s.replicaName(p)] = e
	}
	s.Serving.Upstreams = all
}

// runsVariant reports whether the variant is one of the placement.
func (s *Scenario) runsVariant(p *Placement, name string) bool {
	i := s.variantIndex(name)
	return i >= 0 && slices.Contains(s.runs(p), i)
}

// takeTurns has engines that several variants share answer one batch after another: next to
// a busy variant the others of its engine take twice as long, where the profile does not say
// otherwise.
func (s *Scenario) takeTurns(r *report) {
	for i := range s.Models {
		v := s.variantIndex(s.Models[i].Variant)
		if _, given := r.lines[child(item("profiles", i), "contention")]; given || v < 0 || len(s.Variants[v].Modalities) == 0 {
			continue
		}
		s.Models[i].Contention = 1
	}
}

// modalities checks those of models and of variants.
func (c *checker) modalities() {
	for i, m := range c.s.Weights {
		key := child(item("models", i), "modalities")
		if m.Modalities != nil && len(m.Modalities) == 0 {
			c.judge(key, "lists none; want those of the model's inputs that may be left out or alone, such as [image, audio]")
		}
		if len(m.Modalities) > mostModalities {
			c.judge(key, "at most %d, which have %d combinations, not %d", mostModalities, 1<<mostModalities-1, len(m.Modalities))
		}
		c.distinct(key, m.Modalities)
	}
	if !c.known("models", len(c.s.Weights)) {
		return
	}
	first := map[string]int{}
	for i := range c.s.Variants {
		c.combination(i, first)
	}
}

// distinct checks names of modalities.
func (c *checker) distinct(key string, names []string) {
	for i, name := range names {
		c.name(item(key, i), name)
		if slices.Index(names, name) < i {
			c.judge(item(key, i), "%q is there twice", name)
		}
	}
}

// combination checks the modalities of a variant. First has the variants before it, by model
// and combination.
func (c *checker) combination(i int, first map[string]int) {
	v, at := &c.s.Variants[i], item("variants", i)
	key := child(at, "modalities")
	m := indexOf(c.s.modelNames(), v.Model)
	switch {
	case v.Modalities == nil && (m < 0 || c.s.Weights[m].Modalities == nil), !c.sound(key):
		if v.ImageDetail != "" {
			c.judge(child(at, "image_detail"), "is of a model that takes images; want modalities with image in it")
		}
		return
	case v.Model == "":
		c.judge(child(at, "model"), "missing; modalities are of a model: want its name in models")
		return
	case m < 0:
		return // said of its own key
	}
	model := &c.s.Weights[m]
	switch {
	case model.Modalities == nil:
		c.judge(key, "the model %s on line %d lists no modalities; want all of them there", v.Model, c.line(item("models", m)))
		return
	case v.Modalities == nil:
		c.judge(key, "missing; %s takes any of %s, so that its variants say which they use", v.Model, strings.Join(model.Modalities, ", "))
		return
	case len(v.Modalities) == 0:
		c.judge(key, "lists none; want some of %s", strings.Join(model.Modalities, ", "))
		return
	}
	before := len(c.faults)
	for j, name := range v.Modalities {
		if !slices.Contains(model.Modalities, name) {
			c.judge(item(key, j), "unknown modality %q of %s; %s", name, v.Model, hint(name, model.Modalities))
		}
	}
	if c.distinct(key, v.Modalities); len(c.faults) > before {
		return
	}
	if detail := child(at, "image_detail"); v.ImageDetail != "" {
		c.judgeIf(v.ImageDetail != LowDetail, detail, "%q; want %s, or leave it out", v.ImageDetail, LowDetail)
		c.judgeIf(!slices.Contains(v.Modalities, "image"), detail, "%s uses no image", v.Name)
	}
	same := fmt.Sprintf("%d %b %s", m, model.mask(v.Modalities), v.ImageDetail)
	if j, again := first[same]; again {
		c.judge(key, "the same as those of %s on line %d", c.s.Variants[j].Name, c.line(item("variants", j)))
		return
	}
	first[same] = i
}

// shared checks a placement of all variants of a model.
func (c *checker) shared(i int) {
	p, at := &c.s.Replicas[i], item("replicas", i)
	key := child(at, "model")
	if p.Variant != "" {
		c.judge(key, "stands next to variant; want one of the two: a replica is of a variant, or of all variants of a model")
	}
	if p.State != "" && p.initial() != initialStates[0] {
		c.judge(child(at, "state"), "%s: an engine that variants share stays up; want no state", p.State)
	}
	if !c.known("models", len(c.s.Weights)) {
		return
	}
	switch m := indexOf(c.s.modelNames(), p.Model); {
	case m < 0 && len(c.s.Weights) == 0:
		c.judge(key, "unknown model %q; the file lists none, want it in models", p.Model)
	case m < 0:
		c.judge(key, "unknown model %q; %s", p.Model, hint(p.Model, c.s.modelNames()))
	case c.s.Weights[m].Modalities == nil:
		c.judge(key, "the model %s on line %d lists no modalities, which is what its variants would share; want variant: here, or modalities there",
			p.Model, c.line(item("models", m)))
	}
}

// timed checks that the profile of a combination has its times by batch.
func (c *checker) timed(at string, m *LatencyModel) {
	i := c.s.variantIndex(m.Variant)
	if i < 0 {
		return
	}
	if len(c.s.Variants[i].Modalities) == 0 {
		if m.Memory > 0 {
			c.judge(child(at, "memory"), "is of combinations of modalities, which %s is not; want weight_bytes and activation_bytes", m.Variant)
		}
		return
	}
	if w := indexOf(c.s.modelNames(), c.s.Variants[i].Model); w >= 0 && m.Memory > c.s.Weights[w].Memory {
		c.judge(child(at, "memory"), "%v is more than the %v that %s takes, of which this is a part", m.Memory, c.s.Weights[w].Memory, c.s.Weights[w].Name)
	}
	if c.s.speaks(i) && !m.tabled() {
		return // a language model, which leaves parts out of messages
	}
	switch what := c.s.combinationOf(i); {
	case m.Kinds != nil:
		c.judge(child(at, "kinds"), "%s is %s; want batch_ms, the times of its batches", m.Variant, what)
	case m.BatchMS == nil && c.sound(child(at, "batch_ms")):
		c.judge(at, "%s is %s; want batch_ms, the times of its batches, such as {1: 5, 2: 7, 4: 11}", m.Variant, what)
	}
}

// speaks reports whether the variant is of a model that takes text among other inputs.
func (s *Scenario) speaks(variant int) bool {
	m := indexOf(s.modelNames(), s.Variants[variant].Model)
	return m >= 0 && slices.Contains(s.Weights[m].Modalities, "text")
}

// LeavesOut names the modalities of its model that the variant does not use.
func (s *Scenario) LeavesOut(variant int) []string {
	v := &s.Variants[variant]
	m := indexOf(s.modelNames(), v.Model)
	if m < 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Weights[m].Modalities), func(name string) bool { return slices.Contains(v.Modalities, name) })
}

// combined reports whether both variants are combinations of modalities of one model, which
// have no order from the quickest to the best.
func (s *Scenario) combined(a, b int) bool {
	v, w := &s.Variants[a], &s.Variants[b]
	return len(v.Modalities) > 0 && len(w.Modalities) > 0 && v.Model == w.Model
}

// combinationOf says in words what a variant with modalities is.
func (s *Scenario) combinationOf(variant int) string {
	v := &s.Variants[variant]
	return fmt.Sprintf("the combination %s of %s", strings.Join(v.Modalities, "+"), v.Model)
}

// lacking returns what is missing of a profile of the variant.
func (s *Scenario) lacking(variant int) string {
	v := &s.Variants[variant]
	if len(v.Modalities) == 0 {
		return fmt.Sprintf("no profile of %q", v.Name)
	}
	return fmt.Sprintf("no profile of %q, %s; want one with batch_ms, or the combinations that are used as variants", v.Name, s.combinationOf(variant))
}

// needs returns what a replica has to hold: the model, or of a combination alone what its profile
// says.
func (s *Scenario) needs(p placedReplica, model int) Bytes {
	if p.worker == 0 {
		if list := s.modelsFor(s.Variants[p.variant].Name, s.Hosts[p.host].Name); len(list) > 0 && s.Models[list[0]].Memory > 0 {
			return s.Models[list[0]].Memory
		}
	}
	return s.Weights[model].Memory
}
