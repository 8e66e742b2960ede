package clients

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gearshift/env"
	"gearshift/router/balance"
	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
)

// Fleet is the hosts and replicas as controllers see them: those of all models on all hosts, most of them cold.
// Controllers want states of replicas by claims. The fleet may be used while a controller observes or is awake.
type Fleet struct {
	r     *run
	owner *lifecycle.Controller
}

// newFleet returns a fleet whose replicas have an owner of their states.
func (r *run) newFleet(a env.ControlAccess) *Fleet {
	f := &Fleet{r: r}
	f.owner = lifecycle.New(r.deployed.ledger, f, lifecycle.Options{DrainTimeout: r.Length, InFlight: f.InFlight, Nudge: a.Rouse})
	return f
}

// Claim returns the claims of a rank of controllers; see [lifecycle.Controller.Claim].
func (f *Fleet) Claim(rank lifecycle.Rank, observe func(control.Event)) *lifecycle.Claims {
	return f.owner.Claim(rank, observe)
}

// deployed is what changes: which replicas take requests, and what is measured of them.
type deployed struct {
	models   []deployment // by model
	replicas []replica    // by their numbers in the table
	ledger   *fleet.Ledger
	loading  []float64 // by host, seconds of a core that loads took in the period
	loads    int       // actions that were done until the last period ended
	unloads  int
}

// deployment is what there is of a model.
type deployment struct {
	on      []int   // the hosts, by the number by which clients know a replica
	from    int     // the number of the first replica in the table
	active  int     // how many replicas take requests
	changed uint32  // rises as which they are changes
	first   int     // the first version of the model
	part    float64 // of the requests for the model's name
	load    ModelLoad
	last    ModelLoad // of the last period
}

// replica is one of a model on a host.
type replica struct {
	model, host, slot int
	takes             bool // requests
	hidden            bool // from clients
	running           int  // requests
	cold              int  // how many of the next requests take longer
	served            float64
	answered          int
	last              ReplicaLoad
}

// replica returns the i-th of a model.
func (r *run) replica(model, i int) *replica {
	return &r.deployed.replicas[r.deployed.models[model].from+i]
}

// table lists what may be deployed. Without a controller that is what there is at the start.
func (c *Config) table() (*fleet.Table, error) {
	task := fleet.Task{Name: "requests", Deadline: time.Second}
	var variants []fleet.Variant
	var models []fleet.Model
	var replicas []fleet.Replica
	hosts := slices.Clone(c.Hosts)
	for h := range hosts {
		hosts[h].Name = cmp.Or(hosts[h].Name, fmt.Sprint("h", h))
	}
	for i := range c.Models {
		m := c.Models[i].Model
		if c.first(i) != i {
			m.Name += " " + m.Version
		}
		models, variants, task.Quality = append(models, m), append(variants, fleet.Variant{Name: m.Name, Model: i}), append(task.Quality, 1)
		on := c.Models[i].Replicas
		if c.Control != nil {
			on = nil
			for h := range c.Hosts {
				on = append(on, h)
			}
		}
		for _, h := range on {
			x := fleet.Replica{Name: fmt.Sprint(m.Name, "@", h), Variant: i, Host: h, Initial: fleet.Cold}
			if slices.Contains(c.Models[i].Replicas, h) {
				x.Initial = fleet.Up
			}
			replicas = append(replicas, x)
		}
	}
	return fleet.NewTable([]fleet.Task{task}, variants, hosts, replicas, models...)
}

// deploy places the first replicas.
func (r *run) deploy(t *fleet.Table) {
	all := &r.deployed
	all.loading, all.ledger = make([]float64, len(r.Hosts)), fleet.NewLedger(t)
	for i := range r.Models {
		d := deployment{from: len(all.replicas), first: r.first(i)}
		if d.first == i {
			d.part = 1
		}
		for _, n := range t.ReplicasOf(i) {
			x := &t.Replicas[n]
			d.on = append(d.on, x.Host)
			all.replicas = append(all.replicas, replica{model: i, host: x.Host, slot: slices.Index(t.ReplicasOn(x.Host), n)})
		}
		all.models = append(all.models, d)
		r.count(i)
	}
	r.share(0)
}

// count finds out which replicas of the model take requests after some may have changed.
func (r *run) count(model int) {
	d, changed := &r.deployed.models[model], false
	d.active = 0
	for i := range d.on {
		x := r.replica(model, i)
		took := x.takes
		if x.takes = !x.hidden && r.deployed.ledger.State(d.from+i) == fleet.Up; x.takes {
			d.active++
		}
		changed = changed || x.takes != took
	}
	if changed && (r.Control != nil || r.Losses != nil) {
		d.changed++
	}
}

// countAll does so for all models.
func (r *run) countAll() {
	for i := range r.deployed.models {
		r.count(i)
	}
}

// Turned implements [env.Follower].
func (r *run) Turned(int) { r.countAll() }

// allow has a client know which of the model's replicas take requests.
func (r *run) allow(k *balance.Knowledge, model int) {
	k.Restrict()
	for i := range r.deployed.models[model].on {
		if r.replica(model, i).takes {
			k.Allow(i)
		}
	}
}

// Act implements [control.Actuator], for the owner of states.
func (f *Fleet) Act(a control.Action) error {
	err := f.r.sim.Act(a)
	if err != nil {
		f.r.result.Refused++
	}
	return err
}

// Observe implements [control.Controller].
func (f *Fleet) Observe(e control.Event) {
	switch e.Kind {
	case control.Loaded:
		x := &f.r.deployed.replicas[e.Replica]
		x.cold = f.r.Models[x.model].Cold
		f.r.deployed.loading[x.host] += f.r.Models[x.model].LoadWork.Seconds()
		f.r.result.Loads++
	case control.Unloaded:
		f.r.result.Unloads++
	}
	f.owner.Observe(e)
}

// Wake implements [control.Controller]. Which replicas take requests follows from their states.
func (f *Fleet) Wake(now time.Duration) time.Duration {
	next := f.owner.Wake(now)
	f.r.countAll()
	return next
}

// Replica returns the number of a model's replica on a host, as actions have it.
func (f *Fleet) Replica(model, host int) int { return f.r.deployed.models[model].from + host }

// Model returns the model of a replica.
func (f *Fleet) Model(replica int) int { return f.r.deployed.replicas[replica].model }

// Host returns the host of a replica.
func (f *Fleet) Host(replica int) int { return f.r.deployed.replicas[replica].host }

// State returns the state that a replica is in.
func (f *Fleet) State(replica int) fleet.State { return f.r.deployed.ledger.State(replica) }

// InFlight returns how many requests a replica has.
func (f *Fleet) InFlight(replica int) int { return f.r.deployed.replicas[replica].running }

// Hide has clients not choose a replica, or choose it again.
func (f *Fleet) Hide(replica int, hidden bool) {
	f.r.deployed.replicas[replica].hidden = hidden
	f.r.count(f.Model(replica))
}

// SetPart has a model get a part of the requests for its name, relative to its other versions,
// of which one at least must have more than 0.
func (f *Fleet) SetPart(model int, part float64) {
	f.r.deployed.models[model].part = part
	f.r.share(f.r.sim.Now())
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
