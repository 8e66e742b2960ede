package scenario

import (
	"fmt"
	"iter"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gearshift/env/evaluation"
	"gearshift/router/balance"
	"gearshift/router/fleet"
	"gearshift/router/observation"
	"gearshift/router/policy"
	"gearshift/serving/config/setting"
	"gearshift/serving/engines/address"
	"gearshift/serving/engines/agents"
	"gearshift/serving/engines/informed"
	"gearshift/workloads"
)

func (c *checker) workload() {
	shape := c.s.Workload
	tasks := c.s.tasks()
	if !c.knownTasks() || len(tasks) == 0 {
		shape.Mix, tasks = nil, []fleet.Task{{}} // no names to hold the mix against
	}
	c.own("workload", shape.Validate(tasks))
	c.carriedPrompts()
}

// scale must be one that a process can run at.
func (c *checker) scale(key string, factor Scale) {
	if err := workloads.CheckScale(float64(factor)); err != nil {
		c.judge(key, "%v", err)
	}
}

// maxSeconds bounds every duration: eleven days.
const maxSeconds = 1e6

func (c *checker) seconds(key string, s float64) {
	c.judgeIf(!(s > 0 && s <= maxSeconds), key, "want seconds above 0 and at most %d, not %v", int(maxSeconds), s)
}

func (c *checker) training() {
	if len(c.s.Training.Observation) == 0 && !c.s.assumed.observation {
		c.judge("training.observation", "at least one feature is needed; leave the key out for those that follow from the fleet")
	}
	c.observation("training.observation", c.s.Training.Observation)
	if !c.s.assumed.load {
		c.load("training.load", c.s.Training.Load)
	}
	if from := c.s.Training.PresetsFrom; from != "" && !slices.Contains(workloads.ScenarioNames(), from) {
		c.judge("training.presets_from", "unknown scenario %q; %s", from, hint(from, workloads.ScenarioNames()))
	} else if len(c.s.Training.Presets) == 0 {
		c.judge("training.presets", "at least one is needed")
	}
	for name, preset := range sorted(c.s.Training.Presets) {
		key := child("training.presets", name)
		c.name(key, name)
		c.own(key, preset.Validate())
		c.observation(child(key, "observation"), preset.Observation)
		c.candidate(key, preset)
		c.advised(key, preset)
		if preset.Load != (workloads.Load{}) {
			c.load(child(key, "load"), preset.Load)
		}
	}
}

func (c *checker) load(key string, load workloads.Load) {
	c.own(key, load.Validate())
	requests := child(key, "min_phase_requests")
	if _, given := c.lines[requests]; given && load.MinPhaseRequests == 0 {
		c.judge(requests, "0 is not a number of requests above 0; leave the key out for the default, %d", workloads.DefaultPhaseRequests)
	}
}

// observation holds each feature by itself against the Spec's own rules.
func (c *checker) observation(key string, features []observation.Feature) {
	c.features(key, features, observation.Kinds, "feature 0: ", func(t *fleet.Table, f observation.Feature) error {
		_, err := observation.NewSpec(t, []observation.Feature{f})
		return err
	})
}

// features holds each feature's kind against those known, then the feature
// against the Spec that it alone makes, whose faults begin with the prefix.
func (c *checker) features(key string, features []observation.Feature, known []observation.Kind, prefix string,
	spec func(*fleet.Table, observation.Feature) error) {
	names := &fleet.Table{Tasks: c.s.tasks(), Variants: c.s.variants(), Models: c.s.models(), Measured: true}
	for i, f := range features {
		at := item(key, i)
		if !slices.Contains(known, f.Kind) {
			var kinds []string
			for _, k := range known {
				kinds = append(kinds, string(k))
			}
			c.judge(child(at, "kind"), "unknown kind %q; %s", f.Kind, hint(string(f.Kind), kinds))
			continue
		}
		c.judgeIf(i > 0 && f.Kind == observation.Advice, at, "advice comes before every other feature, and once")
		if err := spec(names, f); err != nil && !c.unread["variants"] {
			c.judge(at, "%s", strings.TrimPrefix(err.Error(), prefix))
		}
	}
}

// candidate holds each feature that distinguishes replicas by itself against the
// Spec's own rules.
func (c *checker) candidate(preset string, p Preset) {
	key := child(preset, "candidate")
	c.features(key, p.Candidate, observation.CandidateKinds, "candidate feature 0: ", func(t *fleet.Table, f observation.Feature) error {
		_, err := observation.NewSpec(t, []observation.Feature{{Kind: observation.TaskOneHot}}, f)
		return err
	})
	c.judgeIf(len(p.Candidate) > 0 && p.Dueling, child(preset, "dueling"), "has no meaning with candidates, whose network has one output; want false, or no candidate")
}

// advised holds what the preset says of advice, which is of variants, against the
// observation that it trains on.
func (c *checker) advised(preset string, p Preset) {
	advice := c.s.Trained(p).advised()
	switch {
	case len(p.Candidate) > 0 && (advice || p.AdviceMargin > 0):
		c.judge(child(preset, "candidate"), "advice is of variants, candidates are replicas; want no advice feature and no advice_margin, or no candidate")
	case p.AdviceMargin > 0 && !advice:
		c.judge(child(preset, "advice_margin"), "the observation gives no advice; want {kind: advice, rule: …} as its first feature")
	}
}

func (c *checker) serving() {
	s := c.s.Serving
	c.address("serving.addr", s.Addr)
	c.balancer()
	c.judgeIf(s.Tuning != TuningOn && s.Tuning != TuningOff, "serving.tuning", "want on or off, not %q", s.Tuning)
	c.judgeIf(s.MaxInFlight < 0, "serving.max_in_flight", "want 1 or more, or 0 for no bound, not %d", s.MaxInFlight)
	if task := s.Server.DefaultTask; task != "" && c.knownTasks() && !slices.Contains(c.s.taskNames(), task) {
		c.judge("serving.default_task", "unknown task %q; %s", task, hint(task, c.s.taskNames()))
	}
	served := s.Config()
	c.own("serving", served.Validate())
	_, peers := c.lines["serving.peers"]
	c.judgeIf(peers && !served.Peers.On(), "serving.peers", "names no routers; want urls or dns, or no serving.peers")
	if c.knownTasks() {
		c.own("serving", served.FitClasses(c.s.classed()))
	}
	c.listeners()
	c.backend()
	c.engines()
}

// balancer checks its name, and the variants that have a counter of their own.
func (c *checker) balancer() {
	s := c.s.Serving
	_, ok, err := c.s.rule()
	if !ok && err == nil {
		if _, err = balance.Make(s.Balancer, balance.Known{}); err != nil {
			err = fmt.Errorf("%w; by what engines say of their load: %s", err, informed.Forms)
		}
	}
	if err != nil {
		c.judge("serving.balancer", "%v", err)
	}
	if c.unread["variants"] {
		return
	}
	for name := range sorted(s.Server.Signals.Counters) {
		c.judgeIf(!slices.Contains(c.s.variantNames(), name), child("serving.signals.counters", name), "unknown variant; %s", hint(name, c.s.variantNames()))
	}
}

func (c *checker) address(key, addr string) {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	c.judgeIf(err != nil, key, "%q is not an address; want host:port, such as 127.0.0.1:8080", addr)
}

// listeners reports two listeners on one address.
func (c *checker) listeners() {
	const key = "serving.admin.addr"
	host, port, err := net.SplitHostPort(c.s.Serving.Addr)
	other, admin, failed := net.SplitHostPort(c.s.Serving.Server.Admin.Addr)
	all := func(host string) bool { return host == "" || host == "0.0.0.0" || host == "::" }
	if err == nil && failed == nil && port == admin && port != "0" && (host == other || all(host) || all(other)) {
		c.judge(key, "%q is taken by serving.addr, %q; want another port", c.s.Serving.Server.Admin.Addr, c.s.Serving.Addr)
	}
}

func (c *checker) backend() {
	s := c.s.Serving
	c.locals()
	c.judgeIf(s.Profiles != DeclaredProfiles && s.Profiles != LearnedProfiles, "serving.profiles", "unknown %q; want %s or %s", s.Profiles, DeclaredProfiles, LearnedProfiles)
	c.judgeIf(s.Profiles == LearnedProfiles && s.Server.Routers > 1, "serving.profiles", "cannot be %s with serving.routers above 1: a router does not see what others send", LearnedProfiles)
	switch s.Backend {
	case Simulated, ONNX:
		c.judgeIf(len(s.Upstreams) > 0, "serving.upstreams", "has no meaning with backend: %s; want backend: %s, or no upstreams", s.Backend, Upstream)
	case Upstream:
		c.upstreams()
	default:
		c.judge("serving.backend", "unknown backend %q; want %s, %s or %s", s.Backend, Simulated, Upstream, ONNX)
	}
	for replica, e := range sorted(s.Upstreams) {
		c.endpoint(child("serving.upstreams", replica), e)
	}
}

// upstreams holds the endpoints against the replicas.
func (c *checker) upstreams() {
	if !c.sound("replicas") {
		return
	}
	var replicas []string
	groups := c.s.groups()
	for _, p := range c.s.placedReplicas() {
		name := c.s.engineName(p)
		if slices.Contains(replicas, name) || c.s.Replicas[p.placement].On() {
			continue
		}
		replicas = append(replicas, name)
		if p.worker > 0 && c.s.Serving.Upstreams[name].Lifecycle != "" {
			c.judge(child(child("serving.upstreams", name), "lifecycle"), "an engine that variants share stays up: nothing is loaded or put to sleep; want no lifecycle")
		}
	}
	for name, e := range sorted(c.s.Serving.Upstreams) {
		if slices.Contains(groups, name) {
			c.judgeIf(e.URL != "", child(child("serving.upstreams", name), "url"), "is found by serving.discovery; want no url")
			c.judgeIf(e.Lifecycle != "", child(child("serving.upstreams", name), "lifecycle"), "engines of slots come with their models; want no lifecycle")
			continue
		}
		if host, all := strings.CutPrefix(name, onHost); all {
			c.hostRef(child("serving.upstreams", name), host)
			continue
		}
		c.judgeIf(!slices.Contains(replicas, name), child("serving.upstreams", name), "unknown replica; %s", hint(name, slices.Concat(replicas, groups)))
	}
	var without []string
	for _, name := range replicas {
		_, ok := c.s.Serving.Upstreams[name]
		_, wide := c.s.Serving.Upstreams[onHost+hostOf(name)]
		if !ok && !wide {
			without = append(without, name)
		}
	}
	if len(without) > 0 && !c.unread["serving.upstreams"] {
		key := "serving.backend"
		if len(c.s.Serving.Upstreams) > 0 {
			key = "serving.upstreams"
		}
		c.add(key, "backend: %s needs a url for each replica; none for %s", Upstream, strings.Join(without, ", "))
	}
}

var envForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// UpstreamURL reads the URL of an upstream.
func UpstreamURL(text string) (*url.URL, error) {
	if _, err := address.Parse(text); err != nil {
		return nil, err
	}
	return url.Parse(setting.Trim(text))
}

func (c *checker) endpoint(key string, e Endpoint) {
	slots := strings.HasSuffix(key, onSlots)
	if _, err := UpstreamURL(e.URL); err != nil && !slots {
		c.judge(child(key, "url"), "%v", err)
	}
	c.judgeIf(e.Key != "" && !envForm.MatchString(e.Key), child(key, "api_key_env"), "want the name of an environment variable, not the key itself")
	if err := e.TLS.Validate(); err != nil {
		c.judge(child(key, "tls"), "%v", err)
	}
	if to, err := UpstreamURL(e.URL); e.TLS.On() && err == nil && to.Scheme != "https" {
		c.judge(child(key, "tls"), "has no meaning with the url %s; want https://", e.URL)
	}
	if e.Context < 0 {
		c.judge(child(key, "context"), "%d is negative; want the tokens that a prompt and its answer may have together, or no context for what the server says", e.Context)
	}
	if _, err := agents.DialectNamed(e.Lifecycle); err != nil {
		c.judge(child(key, "lifecycle"), "%v", err)
	}
	for _, name := range e.Timeouts.Negative() {
		c.judge(child(child(key, "timeouts"), name), "is negative; want a time such as 30s, or 0s for that of serving.timeouts")
	}
}

// rules come last: they are made of the whole fleet.
func (c *checker) rules() {
	c.advice("training.observation", c.s.Training.Observation)
	for name, preset := range sorted(c.s.Training.Presets) {
		key := child("training.presets", name)
		c.advice(child(key, "observation"), preset.Observation)
		c.estimates(child(key, "candidate"), preset.Candidate)
	}
	if c.s.NamesFallback() {
		c.rule("serving.fallback", c.s.Serving.Fallback)
	}
	for i, ref := range c.s.Evaluation.Rules {
		c.rule(item("evaluation.rules", i), ref)
	}
	c.rulesFor()
}

// rulesFor checks the rules for objectives. One that is written in two ways would have two
// lists.
func (c *checker) rulesFor() {
	const section = "evaluation.rules_for"
	listed := map[evaluation.Objective]string{}
	for text, rules := range sorted(c.s.Evaluation.RulesFor) {
		key := child(section, text)
		o, err := readObjective(text)
		switch {
		case err != nil:
			c.judge(key, "%v", err)
		case o == evaluation.MeanUtility:
			c.judge(key, "the rules for utility are those of evaluation.rules")
		case listed[o] != "":
			c.judge(key, "is %v, whose rules %s lists; want one list", o, listed[o])
		default:
			listed[o] = key
		}
		for i, ref := range rules {
			c.rule(item(key, i), ref)
		}
	}
}

func (c *checker) advice(key string, features []observation.Feature) {
	for i, f := range features {
		if f.Kind == observation.Advice && f.Rule != "" {
			c.rule(child(item(key, i), "rule"), f.Rule)
		}
	}
}

// estimates checks the rules that candidates are estimated by: those that choose alone make no estimates.
func (c *checker) estimates(key string, candidate []observation.Feature) {
	for i, f := range candidate {
		if f.Kind != observation.Estimates || f.Rule == "" {
			continue
		}
		at := child(item(key, i), "rule")
		if kind, _, _ := strings.Cut(f.Rule, ":"); kind != policy.Untuned {
			c.judge(at, "%q makes no estimates; want universal, with its parameters", f.Rule)
			continue
		}
		c.rule(at, f.Rule)
	}
}

func (c *checker) rule(key, ref string) {
	if !policy.IsRule(ref) {
		c.judge(key, "%q is not a rule; want %s", ref, policy.RuleForms)
		return
	}
	if !c.sound("replicas") { // there are none to build a fleet of
		return
	}
	for _, f := range c.faults {
		if !strings.HasPrefix(f.Key, "training") && !strings.HasPrefix(f.Key, "serving") && !strings.HasPrefix(f.Key, "evaluation.rules") && !c.registered(f.Key) {
			return // the fleet cannot be built
		}
	}
	maker := policy.Maker{Table: c.s.Table(), Profiles: c.s.Profiles(), Balancer: balance.SmallestBatch{}}
	if _, err := maker.Parse(ref); err != nil {
		c.judge(key, "%v", err)
	}
}

// registered reports whether the key is of a section that does not belong to the fleet.
func (c *checker) registered(key string) bool {
	return slices.ContainsFunc(c.s.sections, func(d registered) bool {
		return d.kept() && (key == d.path() || strings.HasPrefix(key, d.path()+"."))
	})
}

// sorted ranges over a map in the order of its keys.
func sorted[T any](m map[string]T) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// publicKey is the form of a key that policies are signed with: 32 bytes in base64.
var publicKey = regexp.MustCompile(`^ed25519:[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$`)
