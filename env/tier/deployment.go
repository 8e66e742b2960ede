package tier

import (
	"time"

	"gearshift/router/balance"
	"gearshift/router/control"
	"gearshift/router/fleet"
)

// Tier is the tier as its controller sees it and changes it: the replicas of all models on all
// hosts, most of them cold. It is an actuator, and has what a controller otherwise asks of a
// ledger. It may be used while the controller observes or is awake.
type Tier struct{ r *run }

var _ control.Actuator = (*Tier)(nil)

// deployed is what changes: the states of replicas, and what is measured of them.
type deployed struct {
	models     []deployment // by model
	slots      []slot       // by model and host
	loading    []float64    // by host, seconds of a core that loads took in the period
	loads      int          // actions that were done until the last period ended
	unloads    int
	controller control.Controller
	now, wakes time.Duration // when it was woken, and will be next
}

// deployment is what there is of a model.
type deployment struct {
	on      []int   // the hosts, by the number by which clients know a replica
	active  int     // how many replicas take requests
	changed uint32  // rises as which they are changes
	first   int     // the first version of the model
	part    float64 // of the requests for the model's name
	load    ModelLoad
	last    ModelLoad // of the last period
}

// slot is a replica: of one model, on one host.
type slot struct {
	state    fleet.State
	drained  bool
	acting   bool
	action   control.Action
	seen     uint64 // the latest epoch of an action
	running  int    // requests
	cold     int    // how many of the next requests take longer
	served   float64
	answered int
	last     ReplicaLoad
}

// begin has it take a request.
func (s *slot) begin(x *request, m *Model) {
	s.running++
	if s.cold > 0 {
		s.cold--
		x.work = time.Duration(float64(x.work) * m.Coldness)
	}
}

// end has it answer one.
func (s *slot) end(x *request) {
	s.running--
	s.answered++
	s.served += x.work.Seconds()
}

func (s *slot) takes() bool { return s.state == fleet.Up && !s.drained }

func (r *run) slot(model, host int) *slot { return &r.deployed.slots[model*len(r.hosts)+host] }

// begin places the first replicas. Without a controller those are all that there will be.
func (r *run) begin() {
	all := &r.deployed
	all.slots, all.loading = make([]slot, len(r.Models)*len(r.hosts)), make([]float64, len(r.hosts))
	for i := range all.slots {
		all.slots[i].state = fleet.Cold
	}
	for i := range r.Models {
		m := &r.Models[i]
		d := deployment{on: m.Replicas, active: len(m.Replicas), first: r.first(i)}
		if d.first == i {
			d.part = 1
		}
		if r.Control != nil {
			d.changed, d.on = 1, make([]int, len(r.hosts))
			for h := range d.on {
				d.on[h] = h
			}
		}
		for _, h := range m.Replicas {
			r.slot(i, h).state = fleet.Up
			r.hosts[h].memory.taken += m.Memory
		}
		all.models = append(all.models, d)
	}
	r.share(0)
}

// allow has a client know which of the model's replicas take requests.
func (r *run) allow(k *balance.Knowledge, model int) {
	k.Restrict()
	for replica, on := range r.deployed.models[model].on {
		if r.slot(model, on).takes() {
			k.Allow(replica)
		}
	}
}

// count finds out which replicas of the model take requests after one has changed.
func (t *Tier) count(model int) {
	d := &t.r.deployed.models[model]
	d.active = 0
	for h := range t.r.hosts {
		if t.r.slot(model, h).takes() {
			d.active++
		}
	}
	d.changed++
}

// share works out how likely each model is to be asked for.
func (r *run) share(now time.Duration) {
	r.shares = r.shares[:0]
	parts := make([]float64, len(r.Models)) // of all versions, by the first of them
	for i := range r.Models {
		parts[r.deployed.models[i].first] += r.deployed.models[i].part
	}
	sum := 0.0
	for i := range r.Models {
		d := &r.deployed.models[i]
		x := r.Models[d.first].Share * d.part / parts[d.first]
		if r.ShareAt != nil {
			x *= r.ShareAt(d.first, now)
		}
		sum += x
		r.shares = append(r.shares, sum)
	}
}
