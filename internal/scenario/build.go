package scenario

import (
	"fmt"
	"slices"

	"gearshift/router/balance"
	"gearshift/router/fleet"
	"gearshift/router/observation"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// placedReplica is one replica that the file places: an entry of Replicas on one of its hosts.
type placedReplica struct {
	placement, nth int // indexes into Replicas and its Hosts
	variant, host  int // indexes, −1 if unknown
	memory         Bytes
	state          fleet.State // at the start
	worker         int         // the engine that it shares with others of the number; 0: it has its own
	second         bool        // it takes turns with the listed one: see seconds
}

// placedReplicas lists the replicas in the order of the table: as listed, host by host, and in a
// scenario that is sound those after them that take turns with some.
func (s *Scenario) placedReplicas() []placedReplica {
	all := s.listedReplicas()
	if s.checked {
		all = append(all, s.seconds()...)
	}
	return all
}

// listedReplicas are those of the file.
func (s *Scenario) listedReplicas() []placedReplica {
	var all []placedReplica
	workers := 0
	for i, p := range s.Replicas {
		variants := s.runs(&p)
		for j, name := range p.Hosts {
			x := placedReplica{placement: i, nth: j, host: s.hostIndex(name), state: p.initial()}
			if x.host >= 0 {
				x.memory = p.Memory.On(s.Hosts[x.host].Memory)
			}
			if p.Model != "" {
				workers++
				x.worker = workers
			}
			for _, x.variant = range variants {
				all = append(all, x)
			}
		}
	}
	return all
}

// Table returns the fleet that the simulator runs: without bounds on the requests
// in flight, since its queues persist. Replicas stand in the order of the
// file, named "variant@host" where they have no names of their own.
func (s *Scenario) Table() *fleet.Table { return s.table(0) }

// ServingTable returns the same fleet with serving.max_in_flight on each replica.
// Indexes are those of [Scenario.Table].
func (s *Scenario) ServingTable() *fleet.Table { return s.table(s.Serving.MaxInFlight) }

func (s *Scenario) table(limit int) *fleet.Table {
	t, err := s.newTable(limit)
	if err != nil {
		panic(err) // Parse has checked all that NewTable does
	}
	return t
}

func (s *Scenario) newTable(limit int) (*fleet.Table, error) {
	var replicas []fleet.Replica
	tokens := s.KVTokens()
	for i, p := range s.placedReplicas() {
		replicas = append(replicas, fleet.Replica{
			Name: s.replicaName(p), Variant: p.variant, Host: p.host,
			Limit: limit, KVTokens: tokens[i], Memory: int64(p.memory), Initial: p.state, Worker: p.worker,
		})
	}
	t, err := fleet.NewTable(s.tasks(), s.variants(), s.hosts(), replicas, s.models()...)
	if err != nil {
		return nil, err
	}
	t.Measured = s.Measures()
	return t, nil
}

func (s *Scenario) replicaName(p placedReplica) string {
	at := &s.Replicas[p.placement]
	name := at.Name
	switch {
	case name != "":
	case p.variant >= 0:
		name = s.Variants[p.variant].Name
	default:
		name = at.Variant
	}
	name += "@" + at.Hosts[p.nth]
	if p.second {
		name += secondSuffix
	}
	return name
}

func (s *Scenario) tasks() []fleet.Task {
	tasks := make([]fleet.Task, len(s.Tasks))
	for i, t := range s.Tasks {
		tasks[i] = fleet.Task{
			Name: t.Name, Kind: t.Kind, Deadline: profile.Duration(t.DeadlineMS), FirstToken: profile.Duration(t.FirstTokenMS), Total: profile.Duration(t.TotalMS),
			Decay: fleet.Hard{}, Weight: t.Weight,
			Quality: make([]float64, len(s.Variants)),
		}
		if t.DeadlineMS == 0 {
			tasks[i].Pace = profile.Duration(s.PaceMS(&t))
		}
		if t.Decay == Soft {
			tasks[i].Decay = fleet.PaperSoft()
		}
		for j, v := range s.Variants {
			q, ok := t.Quality[v.Name]
			if tasks[i].Quality[j] = q; !ok {
				tasks[i].Without |= 1 << j
			}
		}
	}
	return tasks
}

// PaceMS returns the time per output token to plan with for a task, in ms: its deadline, or else
// what that for the whole answer comes to per token of its mean length. A first token alone
// leaves those after it as long as they like.
func (s *Scenario) PaceMS(t *Task) float64 {
	switch {
	case t.DeadlineMS > 0:
		return t.DeadlineMS
	case t.TotalMS > 0:
		_, output := s.Workload.Of(t.Name)
		return t.TotalMS / max(1, output.Expected())
	}
	return longestDeadline
}

func (s *Scenario) variants() []fleet.Variant {
	variants := make([]fleet.Variant, len(s.Variants))
	for i, v := range s.Variants {
		variants[i] = fleet.Variant{Name: v.Name, Model: indexOf(s.modelNames(), v.Model)}
	}
	return variants
}

// Profiles returns the latency model of each replica, by its index. Replicas of one
// entry of the file share it; it is read-only.
func (s *Scenario) Profiles() []*profile.Profile {
	var profiles []*profile.Profile
	for _, p := range s.placedReplicas() {
		host := s.Replicas[p.placement].Hosts[p.nth]
		profiles = append(profiles, &s.Models[s.modelsFor(s.Variants[p.variant].Name, host)[0]].Profile)
	}
	return profiles
}

// modelsFor lists the indexes of the latency models of a variant on a host. In a
// parsed scenario there is exactly one for each replica.
func (s *Scenario) modelsFor(variant, host string) []int {
	var found []int
	for i := range s.Models {
		if s.Models[i].Variant == variant && s.Models[i].on(host) {
			found = append(found, i)
		}
	}
	return found
}

// on reports whether the model holds for the host.
func (m *LatencyModel) on(host string) bool {
	if len(m.Hosts) == 0 {
		return true
	}
	for _, h := range m.Hosts {
		if h == host {
			return true
		}
	}
	return false
}

// KVTokens returns how many tokens each replica's KV cache holds, by its index; 0 where batches
// run to their end, without one.
func (s *Scenario) KVTokens() []int {
	var tokens []int
	profiles := s.Profiles()
	for i, p := range s.placedReplicas() {
		tokens = append(tokens, profiles[i].KVTokens(int64(p.memory), s.Engine.BlockTokens))
	}
	return tokens
}

// SmallestCache returns the tokens that any replica can hold, as placed and alone on its
// host, where static policies are evaluated.
func (s *Scenario) SmallestCache() int {
	least := smallest(s.KVTokens())
	for _, v := range s.Variants {
		alone, err := s.Alone(v.Name)
		if err != nil {
			panic(err) // the variant is the scenario's own
		}
		least = min(least, smallest(alone.KVTokens()))
	}
	return least
}

// Alone returns the same scenario with the replicas of one variant only, each with the
// memory of evaluation.static_memory, and with requests going to the smallest
// batch, as the paper runs its baselines (LBE-8, LBE-18). Beside the variant's own
// hosts they stand on those of the others, so that it has as many as the policies
// that it is held against. Tasks and variants stay, and with them their indexes. All
// replicas are up at the start. A variant that does not answer every task cannot stand
// alone: then it is the scenario itself.
func (s *Scenario) Alone(variant string) (*Scenario, error) {
	if s.variantIndex(variant) < 0 {
		return nil, fmt.Errorf("cannot place %q alone: no such variant; %s", variant, hint(variant, s.variantNames()))
	}
	alone := *s
	if !s.answersAll(variant) {
		return &alone, nil
	}
	alone.Replicas, alone.alone = nil, true
	alone.Serving.Balancer = balance.SmallestBatch{}.Name()
	memory := Memory{Share: s.Evaluation.StaticMemory}
	for _, p := range s.Replicas {
		if !s.runsVariant(&p, variant) {
			continue
		}
		p.Hosts = slices.DeleteFunc(slices.Clone(p.Hosts), func(host string) bool { // it is there once, with all that memory
			return slices.ContainsFunc(alone.Replicas, func(q Placement) bool { return slices.Contains(q.Hosts, host) })
		})
		p.Name, p.Variant, p.Model, p.Memory, p.State = "", variant, "", memory, ""
		if len(p.Hosts) > 0 {
			alone.Replicas = append(alone.Replicas, p)
		}
	}
	if hosts := s.elsewhere(variant); len(hosts) > 0 {
		alone.Replicas = append(alone.Replicas, Placement{Variant: variant, Hosts: hosts, Memory: memory})
	}
	return &alone, nil
}

// elsewhere lists the hosts on which other variants stand and this one could, alone:
// where it has a profile, and a KV cache no smaller than the smallest of the
// scenario, by which workloads cut their requests.
func (s *Scenario) elsewhere(variant string) []string {
	var own, others, found []string
	for _, p := range s.Replicas {
		if s.runsVariant(&p, variant) {
			own = append(own, p.Hosts...)
		} else {
			others = append(others, p.Hosts...)
		}
	}
	least := smallest(s.KVTokens())
	for _, h := range s.Hosts {
		models := s.modelsFor(variant, h.Name)
		if len(models) == 0 || slices.Contains(own, h.Name) || !slices.Contains(others, h.Name) {
			continue
		}
		memory := s.Evaluation.StaticMemory.Of(h.Memory)
		if s.Models[models[0]].holds(int64(memory), least, s.Engine.BlockTokens) {
			found = append(found, h.Name)
		}
	}
	return found
}

// Spec returns what a policy of this scenario sees and chooses from.
func (s *Scenario) Spec() observation.Spec {
	spec, err := observation.NewSpec(s.Table(), s.Training.Observation, s.Training.Candidate...)
	if err != nil {
		panic(err) // Parse has checked every feature
	}
	return spec
}

// Measures reports whether the file has policies see how busy hosts are, which is measured for them then while it is
// simulated or served.
func (s *Scenario) Measures() bool {
	features := slices.Concat(s.Training.Observation, s.Training.Candidate)
	for _, p := range s.Training.Presets {
		features = slices.Concat(features, p.Observation, p.Candidate)
	}
	return !s.alone && slices.ContainsFunc(features, func(f observation.Feature) bool { return f.Kind == observation.HostBusy })
}

// Trained returns the scenario as the preset trains on it: with its observation and
// load, where it has its own, its candidates, and what its objective adds. With candidates, the
// observation that is assumed gives no advice, which is of variants.
func (s *Scenario) Trained(p Preset) *Scenario {
	trained := *s
	trained.Training.Candidate = p.Candidate
	switch {
	case len(p.Observation) > 0:
		trained.Training.Observation, trained.assumed.observation = p.Observation, false
	case len(p.Candidate) > 0 && s.assumed.observation:
		trained.Training.Observation = slices.DeleteFunc(slices.Clone(s.Training.Observation), func(f observation.Feature) bool { return f.Kind == observation.Advice })
		trained.assumed.observation = false
	}
	if p.Load != (workloads.Load{}) {
		trained.Training.Load = p.Load
	}
	trained.Training.Observation = trained.observationFor(trained.Training.Objective)
	return &trained
}

func (s *Scenario) variantIndex(name string) int { return indexOf(s.variantNames(), name) }

func (s *Scenario) hostIndex(name string) int {
	return slices.IndexFunc(s.Hosts, func(h Host) bool { return h.Name == name })
}

// initial returns the state of the placement's replicas at the start; [fleet.Down] if it is
// none.
func (p *Placement) initial() fleet.State {
	if p.State == "" {
		return fleet.Up
	}
	for _, s := range initialStates {
		if p.State == s.String() {
			return s
		}
	}
	return fleet.Down
}

// initialStates are those in which a replica can be at the start.
var initialStates = []fleet.State{fleet.Up, fleet.Cold, fleet.Warm}

func (s *Scenario) hosts() []fleet.Host {
	hosts := make([]fleet.Host, len(s.Hosts))
	for i, h := range s.Hosts {
		hosts[i] = fleet.Host{Name: h.Name, Site: h.Site, Memory: int64(h.Memory), Compute: h.Compute * 1e12, Bandwidth: h.Bandwidth * 1e9}
	}
	return hosts
}

func (s *Scenario) models() []fleet.Model {
	models := make([]fleet.Model, len(s.Weights))
	for i, m := range s.Weights {
		models[i] = fleet.Model{
			Name: m.Name, Memory: int64(m.Memory), Version: m.Version, Load: profile.Duration(m.LoadMS),
			Sleep: profile.Duration(m.SleepMS), Wake: profile.Duration(m.WakeMS), FirstAnswer: profile.Duration(m.FirstAnswerMS),
		}
	}
	return models
}

func (s *Scenario) modelNames() []string {
	return namesOf(s.Weights, func(m Model) string { return m.Name })
}

// answers reports whether the variant answers the task.
func (t *Task) answers(variant string) bool {
	_, ok := t.Quality[variant]
	return ok
}

// answersAll reports whether the variant answers every task.
func (s *Scenario) answersAll(variant string) bool {
	return !slices.ContainsFunc(s.Tasks, func(t Task) bool { return !t.answers(variant) })
}

// WithProfiles returns the scenario with other latency models, by replica. Replicas of a variant whose
// models are equal share an entry.
func (s *Scenario) WithProfiles(list []*profile.Profile) *Scenario {
	next := *s
	next.Models = nil
	for i, p := range s.placedReplicas() {
		variant, host := s.Variants[p.variant].Name, s.Replicas[p.placement].Hosts[p.nth]
		if len(next.modelsFor(variant, host)) > 0 {
			continue
		}
		same := func(m LatencyModel) bool { return m.Variant == variant && m.Profile == *list[i] }
		if k := slices.IndexFunc(next.Models, same); k >= 0 {
			next.Models[k].Hosts = append(next.Models[k].Hosts, host)
			continue
		}
		m := s.Models[s.modelsFor(variant, host)[0]]
		m.Profile, m.Hosts = *list[i], []string{host}
		next.Models = append(next.Models, m)
	}
	return &next
}
