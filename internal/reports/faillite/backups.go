package faillite

import (
	"fmt"
	"slices"
	"strings"

	"gearshift/env/evaluation"
	"gearshift/internal/splitmix"
	"gearshift/router/balance"
	"gearshift/router/fleet"
)

// assignment is a fixed assignment of backups: for each task the replica that answers, once the
// host is lost, those of its requests that the lost host would have had.
type assignment []int

// assignments returns all that there are for the tasks of a table whose hosts are alike, but for
// the order of the hosts that stay: each task's backup is one variant on one of these.
func assignments(t *fleet.Table, lost int) (list []assignment) {
	var hosts []int
	for h := range t.Hosts {
		if h != lost {
			hosts = append(hosts, h)
		}
	}
	replica := func(variant, host int) int {
		return slices.IndexFunc(t.Replicas, func(r fleet.Replica) bool { return r.Variant == variant && r.Host == host })
	}
	var extend func(so assignment, used int)
	extend = func(so assignment, used int) {
		if len(so) == len(t.Tasks) {
			list = append(list, slices.Clone(so))
			return
		}
		for h := range min(used+1, len(hosts)) { // a host more than before is any of those that are left
			for v := range t.Variants {
				if r := replica(v, hosts[h]); r >= 0 {
					extend(append(so, r), max(used, h+1))
				}
			}
		}
	}
	extend(nil, 0)
	return list
}

// name lists the backups in the order of the tasks.
func (a assignment) name(t *fleet.Table) string {
	var list []string
	for _, r := range a {
		list = append(list, t.Replicas[r].Name)
	}
	return strings.Join(list, " ")
}

// uniform reports whether all tasks have the same backup.
func (a assignment) uniform() bool {
	return !slices.ContainsFunc(a, func(r int) bool { return r != a[0] })
}

// fixed is a policy with fixed backups. Each of the hosts is the primary of every so-many-th
// request. From the loss on, the requests whose primary is lost go to their task's backup, and the
// policy routes all others among the hosts that stay: it sees what the backups have to do.
type fixed struct {
	policy   evaluation.Decider
	balancer balance.Balancer
	backups  assignment
	loss     loss
	hosts    uint64
}

// withBackups returns the contestant with fixed backups.
func withBackups(c evaluation.Contestant, b balance.Balancer, a assignment, l loss) evaluation.Contestant {
	t := c.Fleet.Table
	c.Name = fmt.Sprintf("%s with backups %s", c.Name, a.name(t))
	c.Decider = &fixed{c.Decider, b, a, l, uint64(len(t.Hosts))}
	return c
}

// Scratch implements [evaluation.Decider].
func (f *fixed) Scratch() int { return f.policy.Scratch() }

// Decide implements [evaluation.Decider].
func (f *fixed) Decide(v *fleet.View, r *fleet.Request, scratch []float32) int {
	return f.policy.Decide(v, r, scratch)
}

// Place implements [evaluation.Placer].
func (f *fixed) Place(v *fleet.View, r *fleet.Request, scratch []float32) int {
	if r.Arrival >= f.loss.at && r.ID%f.hosts == uint64(f.loss.host) && v.Available(f.backups[r.Task]) {
		return f.backups[r.Task]
	}
	if p, ok := f.policy.(evaluation.Placer); ok {
		return p.Place(v, r, scratch)
	}
	return f.balancer.Pick(v, r, f.policy.Decide(v, r, scratch), splitmix.Next(r.ID))
}
