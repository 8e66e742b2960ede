package scenario

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gearshift/env/engine"
	"gearshift/internal/scenario/slots"
	"gearshift/router/fleet"
	"gearshift/router/profile"
)

// Bounds that keep the product of a block and a token within an int64, a block's
// bookkeeping small, and simulated time within a clock of nanoseconds.
const (
	maxKVBytes     = 1 << 40
	maxBlockTokens = 1 << 16
	maxCostMS      = longestDeadline
	maxRatio       = 1000
)

// models checks the profiles section by itself.
func (c *checker) models() {
	for i := range c.s.Models {
		m, at := &c.s.Models[i], item("profiles", i)
		c.variantRef(child(at, "variant"), m.Variant)
		c.judgeIf(m.Hosts != nil && len(m.Hosts) == 0, child(at, "hosts"), "lists no host; leave the key out for every host")
		for j, host := range m.Hosts {
			c.hostRef(item(child(at, "hosts"), j), host)
		}
		c.costs(at, m)
		c.overlap(i)
	}
}

// costs checks the numbers of a latency model.
func (c *checker) costs(at string, m *LatencyModel) {
	p := &m.Profile
	eachField(reflect.ValueOf(p).Elem(), func(name string, v reflect.Value, _ bool) {
		switch ms := strings.HasSuffix(name, "_ms"); {
		case v.CanFloat() && v.Float() < 0 || v.CanInt() && v.Int() < 0:
			c.judge(child(at, name), "a cost is at least 0, not %v", v)
		case v.CanFloat() && ms && v.Float() > maxCostMS:
			c.judge(child(at, name), "a cost is at most an hour, %d ms, not %v", maxCostMS, v)
		case v.CanFloat() && !ms && v.Float() > maxRatio:
			c.judge(child(at, name), "a ratio is at most %d, not %v", maxRatio, v)
		}
	})
	c.timed(at, m)
	if m.tabled() {
		c.batches(at, m)
		return
	}
	c.judgeIf(p.KVBytes == 0 || p.KVBytes > maxKVBytes, child(at, "kv_bytes_per_token"), "a cached token takes at least 1 byte and at most %d, not %d", maxKVBytes, p.KVBytes)
	if ms, _ := p.Step(1, 1, 0, 0); profile.Duration(ms) == 0 {
		c.judge(at, "a step of one token takes no time; at least one of the times in ms is above 0")
	}
}

// overlap reports the hosts of a model on which an earlier one of the same
// variant holds already.
func (c *checker) overlap(i int) {
	m := &c.s.Models[i]
	for j := range i {
		earlier := &c.s.Models[j]
		if m.Variant != earlier.Variant || !c.sound(child(item("profiles", j), "hosts")) {
			continue
		}
		shared := slices.DeleteFunc(c.s.hostNames(), func(host string) bool { return !m.on(host) || !earlier.on(host) })
		if len(shared) > 0 {
			c.judge(child(item("profiles", i), "variant"), "%q has a profile on line %d already (on %s)",
				m.Variant, c.line(item("profiles", j)), strings.Join(shared, ", "))
		}
	}
}

func (c *checker) variantRef(key, name string) {
	c.judgeIf(c.knownVariants() && c.s.variantIndex(name) < 0, key, "unknown variant %q; %s", name, hint(name, c.s.variantNames()))
}

func (c *checker) hostRef(key, name string) {
	c.judgeIf(c.knownHosts() && c.s.hostIndex(name) < 0, key, "unknown host %q; %s", name, hint(name, c.s.hostNames()))
}

// placements checks the replicas section against all that it joins.
func (c *checker) placements() {
	if !c.sound("replicas") && len(c.s.Replicas) == 0 {
		return
	}
	c.judgeIf(len(c.s.Replicas) == 0, "replicas", "at least one is needed")
	for i, p := range c.s.Replicas {
		at := item("replicas", i)
		if p.Name != "" {
			c.name(child(at, "name"), p.Name)
			c.judgeIf(p.Model != "", child(at, "name"), "has no meaning with model, whose variants share one engine on a host; want no name")
		}
		if p.Model != "" {
			c.shared(i)
		} else {
			c.variantRef(child(at, "variant"), p.Variant)
		}
		c.judgeIf(len(p.Hosts) == 0 && !p.On(), child(at, "hosts"), "at least one is needed")
		for j, host := range p.Hosts {
			c.hostRef(item(child(at, "hosts"), j), host)
		}
	}
	c.stated()
	c.repeated()
	c.unplaced()
	c.filled()
	c.fitted()
	c.held()
}

// repeated reports replicas of one name, and what stands twice on a host where it may not: an application that
// failover keeps answered, which it has once on a host.
func (c *checker) repeated() {
	first, on := map[string]placedReplica{}, map[[2]int]placedReplica{}
	for _, p := range c.s.placedReplicas() {
		if p.variant < 0 || p.host < 0 {
			continue
		}
		name := c.s.replicaName(p)
		if q, again := first[name]; again {
			c.judge(hostKey(p), "%q is on %q by line %d already; want another host, or a name of its own", nameOf(name), c.s.Hosts[p.host].Name, c.line(hostKey(q)))
			continue
		}
		first[name] = p
		place := [2]int{p.variant, p.host}
		q, again := on[place]
		switch {
		case !again:
			on[place] = p
		case c.s.failing && !c.s.Places():
			c.judge(hostKey(p), "%q is on %q by line %d already, and failover has one replica of a variant on a host; want another host, or serving.placement, which decides on the further ones", c.s.Variants[p.variant].Name, c.s.Hosts[p.host].Name, c.line(hostKey(q)))
		}
	}
}

func hostKey(p placedReplica) string {
	return item(child(item("replicas", p.placement), "hosts"), p.nth)
}

// unplaced reports the variants that no replica runs, unless a replica names
// something unknown that may be one of them.
func (c *checker) unplaced() {
	if !c.sound("replicas") || slices.ContainsFunc(c.s.Replicas, func(p Placement) bool {
		list := c.s.runs(&p)
		return len(list) == 0 || list[0] < 0
	}) {
		return
	}
	for i, v := range c.s.Variants {
		if !slices.ContainsFunc(c.s.Replicas, func(p Placement) bool { return c.s.runsVariant(&p, v.Name) }) {
			c.judge(child(item("variants", i), "name"), "no replica runs %q", v.Name)
		}
	}
}

// filled reports the replica with which its host's memory is exceeded at the start, and
// those that could not be loaded there alone.
func (c *checker) filled() {
	taken := make([]Bytes, len(c.s.Hosts))
	counted := map[string]bool{} // a repeated replica is one mistake, not two; an engine is one, whatever variants it runs
	var found hostFaults
	for _, p := range c.s.placedReplicas() {
		worker := fmt.Sprint(p.worker)
		if !c.measured(p) || counted[c.s.replicaName(p)] || counted[worker] {
			continue
		}
		counted[c.s.replicaName(p)], counted[worker] = true, p.worker > 0
		before, all := taken[p.host], c.s.Hosts[p.host].Memory
		if p.state != fleet.Up {
			if p.memory > all && !c.bare(p.host) {
				found.add(memoryKey(p), c.s.Hosts[p.host].Name, fmt.Sprintf("once loaded it takes %v of a host that has %v", p.memory, all))
			}
			continue
		}
		taken[p.host] += p.memory
		if before <= all && taken[p.host] > all && !c.bare(p.host) {
			found.add(memoryKey(p), c.s.Hosts[p.host].Name, fmt.Sprintf("with this the replicas take %v of a host that has %v", taken[p.host], all))
		}
	}
	c.group(found)
}

// leastHost is what every host has more memory than.
const leastHost = 256 << 20

// bare reports whether the host's memory cannot be that of a host, which is then said of it,
// instead of all that does not fit in.
func (c *checker) bare(host int) bool {
	key, memory := child(item("hosts", host), "memory"), c.s.Hosts[host].Memory
	if memory >= leastHost {
		return false
	}
	if !c.bareHosts[host] {
		if c.bareHosts == nil {
			c.bareHosts = map[int]bool{}
		}
		c.bareHosts[host] = true
		c.judge(key, "%s is less than the replicas on %s take; want GiB, as in 24GiB", cmp.Or(c.texts[key], fmt.Sprint(int64(memory))), c.s.Hosts[host].Name)
	}
	return true
}

// measured reports whether the replica's memory in bytes is known.
func (c *checker) measured(p placedReplica) bool {
	return p.host >= 0 && c.sound(child(item("hosts", p.host), "memory")) && c.sound(memoryKey(p))
}

func memoryKey(p placedReplica) string { return child(item("replicas", p.placement), "memory") }

// fitted reports the replicas without exactly one profile, and those that have
// no room for their weights or for the longest request, as placed or alone.
func (c *checker) fitted() {
	var found hostFaults
	alone := c.s.Evaluation.StaticMemory
	for _, p := range c.s.placedReplicas() {
		if p.variant < 0 || p.host < 0 {
			continue
		}
		host, variant := c.s.Hosts[p.host], c.s.Variants[p.variant].Name
		models := c.s.modelsFor(variant, host.Name)
		if len(models) == 0 && c.sound("profiles") {
			found.add(child(item("replicas", p.placement), p.key(c.s)), host.Name, c.s.lacking(p.variant))
		}
		if len(models) != 1 || !c.measured(p) || !c.sound(item("profiles", models[0])) {
			continue
		}
		m := &c.s.Models[models[0]].Profile
		if why := c.tooSmall(m, p.memory); why != "" && !(p.memory < leastHost && c.bare(p.host)) {
			found.add(memoryKey(p), host.Name, fmt.Sprintf("%v for %s: %s", p.memory, variant, why))
		}
		if why := c.tooSmall(m, alone.Of(host.Memory)); why != "" && !c.bare(p.host) {
			found.add("evaluation.static_memory", host.Name, fmt.Sprintf("%v for %s: %s", alone.Of(host.Memory), variant, why))
		}
	}
	c.group(found)
}

// tooSmall says what a replica lacks with so much memory, or nothing.
func (c *checker) tooSmall(p *profile.Profile, memory Bytes) string {
	if need := Bytes(p.WeightBytes + p.ActivationBytes); memory <= need {
		return fmt.Sprintf("its weights and activations need %v, and the KV cache comes on top", need)
	}
	block := c.s.Engine.BlockTokens
	if p.Batches != nil { // it has no cache
		return ""
	}
	if block < 1 || block > maxBlockTokens || p.KVBytes < 1 || p.KVBytes > maxKVBytes || !c.sound("engine.block_tokens") {
		return "" // said of their own keys
	}
	longest, sure := c.longestRequest()
	if tokens := p.KVTokens(int64(memory), block); tokens < max(1, longest) {
		if tokens == 0 || !sure {
			return fmt.Sprintf("that leaves a KV cache of %d tokens, less than a block of %d", tokens, block)
		}
		return fmt.Sprintf("that leaves a KV cache of %d tokens; the longest request takes %d", tokens, longest)
	}
	return ""
}

// longestRequest returns the most tokens that a request of the workload takes, or the
// usual one where lengths have no bound, unless the workload is itself at fault.
func (c *checker) longestRequest() (tokens int, ok bool) {
	w := c.s.Workload
	if !c.lengthsSound() {
		return 0, false
	}
	prompt, output := w.Longest()
	return prompt + output, true
}

// lengthsSound reports whether all lengths of the workload can be relied on.
func (c *checker) lengthsSound() bool {
	for _, key := range []string{"workload.prompt_tokens", "workload.output_tokens", "workload.task_lengths"} {
		if !c.sound(key) {
			return false
		}
	}
	return c.s.Workload.ValidateLengths() == nil
}

// engine checks what the engine's own validation cannot know.
func (c *checker) engine() {
	e := c.s.Engine
	c.judgeIf(e.BlockTokens > maxBlockTokens, "engine.block_tokens", "at most %d, not %d", maxBlockTokens, e.BlockTokens)
	c.judgeIf(e.MaxPrompts > 0 && e.Scheduler == engine.ChunkedPrefill, "engine.max_prompts", "has no meaning with %s", engine.ChunkedPrefill)
	if e.Scheduler != engine.PrefillFirst || c.s.tabled() || e.MaxBatchTokens < 1 || !c.lengthsSound() {
		return
	}
	if most, _ := c.s.Workload.Longest(); e.MaxBatchTokens < most {
		c.judge("engine.max_batch_tokens", "%d is below the longest prompt, %d tokens, which %s does not split", e.MaxBatchTokens, most, engine.PrefillFirst)
	}
}

// hostFaults are faults that hosts may share, so that four equal hosts make
// one line and not four.
type hostFaults []hostFault

type hostFault struct {
	key, message string
	hosts        []string
}

func (f *hostFaults) add(key, host, message string) {
	for i := range *f {
		if x := &(*f)[i]; x.key == key && x.message == message {
			x.hosts = append(x.hosts, host)
			return
		}
	}
	*f = append(*f, hostFault{key, message, []string{host}})
}

func (c *checker) group(found hostFaults) {
	for _, f := range found {
		c.judge(f.key, "%s (on %s)", f.message, strings.Join(f.hosts, ", "))
	}
}

// onSlots ends the name of an upstream for all slots of an entry of replicas.
const onSlots = "@*"

// endpoint returns the replica's entry, or else that of its host or of all slots, with its name in the file.
func (s *Scenario) endpoint(p placedReplica) (name string, e Endpoint) {
	name = s.engineName(p)
	if _, own := s.Serving.Upstreams[name]; own {
		return name, s.Serving.Upstreams[name]
	}
	if name = onHost + hostOf(name); s.Replicas[p.placement].On() {
		name = s.Replicas[p.placement].Entry() + onSlots
	}
	return name, s.Serving.Upstreams[name]
}

// Entry names the placement's replicas without their hosts.
func (p *Placement) Entry() string { return cmp.Or(p.Name, p.Variant) }

// expandSlots gives each slot its own host, a copy of the one that its entry names. The copies replace it in the
// file. Faults of the entries are left to the check.
func (s *Scenario) expandSlots(r *report) {
	like, place := map[string]Host{}, map[string]int{} // templates by name; where the first slot stands
	for i, h := range s.Hosts {
		like[h.Name], place[h.Name] = h, i
	}
	for i := range s.Replicas {
		p, at := &s.Replicas[i], item("replicas", i)
		host, known := like[p.Host]
		if !known || p.Slots < 1 || p.Slots > slots.Most || len(p.Hosts) > 0 || p.Model != "" || !r.sound(at) {
			continue
		}
		if s.templates == nil {
			s.templates = map[string][]string{}
		}
		p.Hosts = p.Template.Hosts(p.Entry())
		for j, name := range p.Hosts {
			r.copyKeys(child(at, "slots"), item(child(at, "hosts"), j))
			n, first := place[p.Host], len(s.templates[p.Host]) == 0
			if !first {
				s.Hosts = append(s.Hosts, host)
				r.copyKeys(item("hosts", n), item("hosts", len(s.Hosts)-1))
				n = len(s.Hosts) - 1
			}
			s.Hosts[n].Name = name
			s.templates[p.Host] = append(s.templates[p.Host], name)
		}
	}
	if len(s.templates) == 0 {
		return
	}
	for i := range s.Models {
		s.Models[i].Hosts = s.inSlots(s.Models[i].Hosts)
	}
	for i, groups := 0, Of[Tiers](s).Groups; i < len(groups); i++ {
		groups[i].Hosts = s.inSlots(groups[i].Hosts)
	}
}

// inSlots replaces template hosts in the list by the hosts of their slots.
func (s *Scenario) inSlots(hosts []string) []string {
	var list []string
	for _, name := range hosts {
		if own := s.templates[name]; len(own) > 0 {
			list = append(list, own...)
		} else {
			list = append(list, name)
		}
	}
	return list
}
