package validation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gearshift/internal/calibrate/loadgen"
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/serving/config/setting"
)

// MeasuredAt returns the replica of a variant that is measured and validated, one on the host
// where it has the most neighbours, and these.
func MeasuredAt(t *fleet.Table, variant int) (own int, beside []int) {
	neighbours := func(r int) []int { return t.ReplicasOn(t.Replicas[r].Host) }
	own = t.ReplicasOf(variant)[0]
	for _, r := range t.ReplicasOf(variant) {
		if len(neighbours(r)) > len(neighbours(own)) {
			own = r
		}
	}
	return own, slices.DeleteFunc(slices.Clone(neighbours(own)), func(r int) bool { return r == own })
}

// loaded returns the replicas that each run loads: those of the variants one by one, and
// then, host by host, those that share a host. What is left out is noted.
func (l *validator) loaded() (sets [][]int) {
	served := l.Upstreams != "" || l.scenario.Serving.Backend == scenario.Upstream
	if !served || !l.wants(Alone) && !l.wants(CoResident) {
		return nil
	}
	t := l.fleet.Table
	wanted := func(r int) bool {
		return len(l.Only) == 0 || slices.Contains(l.Only, t.Variants[t.Replicas[r].Variant].Name)
	}
	var own []int
	for v := range t.Variants {
		r, _ := MeasuredAt(t, v)
		if l.Upstreams != "" { // one server, which is the first host's
			i := slices.IndexFunc(t.ReplicasOn(0), func(r int) bool { return t.Replicas[r].Variant == v })
			if i < 0 {
				l.out.Notes = append(l.out.Notes, fmt.Sprintf("%s is not validated: it is not on %s, whose server --upstreams is; serving.upstreams would name its own", t.Variants[v].Name, t.Hosts[0].Name))
				continue
			}
			r = t.ReplicasOn(0)[i]
		}
		if wanted(r) {
			own = append(own, r)
		}
	}
	if l.wants(Alone) {
		for _, r := range own {
			sets = append(sets, []int{r})
		}
	}
	if !l.wants(CoResident) {
		return sets
	}
	return append(sets, l.besideEachOther(own, wanted)...)
}

// besideEachOther returns those of the hosts of the replicas that stand there with others.
// Variants that never do are noted.
func (l *validator) besideEachOther(own []int, wanted func(replica int) bool) (sets [][]int) {
	t := l.fleet.Table
	for h := range t.Hosts {
		together := slices.DeleteFunc(slices.Clone(t.ReplicasOn(h)), func(r int) bool { return !wanted(r) })
		if slices.ContainsFunc(own, func(r int) bool { return t.Replicas[r].Host == h }) && len(together) > 1 {
			sets = append(sets, together)
		}
	}
	var lonely []string
	for _, r := range own {
		v := t.Replicas[r].Variant
		if !slices.ContainsFunc(slices.Concat(sets...), func(r int) bool { return t.Replicas[r].Variant == v }) {
			lonely = append(lonely, t.Variants[v].Name)
		}
	}
	if len(lonely) > 0 {
		l.out.Notes = append(l.out.Notes, fmt.Sprintf("not co-resident, since no other variant that is validated shares the host: %s", strings.Join(lonely, ", ")))
	}
	return sets
}

// server returns where a replica is asked.
func (l *validator) server(replica int) (target loadgen.Target, err error) {
	r := &l.fleet.Table.Replicas[replica]
	url, model, key := l.Upstreams, l.fleet.Table.Variants[r.Variant].Name, ""
	if url == "" {
		at := l.scenario.Serving.Upstreams[r.Name]
		url, model = at.URL, cmp.Or(at.Model, model)
		if at.Key != "" {
			if key, err = setting.Key(at.Key, "its key"); err != nil {
				return target, fmt.Errorf("replica %s: %w", r.Name, err)
			}
		}
	}
	if target, err = loadgen.Parse(url); err != nil {
		return target, fmt.Errorf("replica %s: %w", r.Name, err)
	}
	target.Model, target.Key = model, key
	return target, nil
}

// Upstreams returns the servers of a scenario's replicas, of which it has none where the
// router computes.
func Upstreams(s *scenario.Scenario) (list []loadgen.Target) {
	if s.Serving.Backend == scenario.Upstream {
		for _, at := range s.Serving.Upstreams {
			list = append(list, loadgen.Target{URL: at.URL})
		}
	}
	return list
}
