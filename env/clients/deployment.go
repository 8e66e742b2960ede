package clients

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gearshift/router/balance"
	"gearshift/router/control"
	"gearshift/router/fleet"
)

// Fleet is the hosts and replicas as a controller sees and changes them: those of all models on
// all hosts, most of them cold. A replica that is loaded is warm, and takes requests once it is
// activated. The fleet may be used while the controller observes or is awake.
type Fleet struct{ r *run }

var _ control.Actuator = (*Fleet)(nil)

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

// count finds out which replicas of the model take requests after one has changed.
func (r *run) count(model int) {
	d := &r.deployed.models[model]
	d.active = 0
	for i := range d.on {
		x := r.replica(model, i)
		if x.takes = r.deployed.ledger.State(d.from+i) == fleet.Up; x.takes {
			d.active++
		}
	}
	if r.Control != nil || r.Losses != nil {
		d.changed++
	}
}

// Turned implements [env.Follower].
func (r *run) Turned(host int) {
	for i := range r.deployed.replicas {
		if x := &r.deployed.replicas[i]; x.host == host {
			r.count(x.model)
		}
	}
}

// allow has a client know which of the model's replicas take requests.
func (r *run) allow(k *balance.Knowledge, model int) {
	k.Restrict()
	for i := range r.deployed.models[model].on {
		if r.replica(model, i).takes {
			k.Allow(i)
		}
	}
}

// Act implements [control.Actuator]: Load brings a cold replica into memory, which takes time
// and work of its host, and leaves it warm; Activate has a warm one take requests; Unload gives
// its memory back at once, and breaks the requests that it still has.
func (f *Fleet) Act(a control.Action) error {
	err := f.act(a)
	if err != nil {
		f.r.result.Refused++
	}
	return err
}

func (f *Fleet) act(a control.Action) error {
	l := f.r.deployed.ledger
	switch a.Verb {
	case control.Activate:
		if is := l.State(a.Replica); is != fleet.Warm {
			return fmt.Errorf("cannot %v: it is %v", a, is)
		}
		l.Place(a.Replica, fleet.Up)
	case control.Load, control.Unload:
		if err := f.r.sim.Act(a); err != nil {
			return err
		}
		if a.Verb == control.Load {
			l.Place(a.Replica, fleet.Loading)
			return nil
		}
		l.SetDrained(a.Replica, false)
		l.Place(a.Replica, fleet.Cold)
	default:
		return fmt.Errorf("cannot %v: clients' replicas are loaded, activated and unloaded, and nothing else", a)
	}
	f.r.count(f.Model(a.Replica))
	return nil
}

// Observe implements [control.Controller]: it follows the ends of actions before the controller
// that ordered them does.
func (f *Fleet) Observe(e control.Event) {
	switch e.Kind {
	case control.Loaded:
		x := &f.r.deployed.replicas[e.Replica]
		x.cold = f.r.Models[x.model].Cold
		f.r.deployed.loading[x.host] += f.r.Models[x.model].LoadWork.Seconds()
		f.r.deployed.ledger.Place(e.Replica, fleet.Warm)
		f.r.result.Loads++
	case control.Unloaded:
		f.r.result.Unloads++
	}
}

// Wake implements [control.Controller].
func (f *Fleet) Wake(time.Duration) time.Duration { return control.Never }

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

// SetDrained has a replica take no more requests, or take them again.
func (f *Fleet) SetDrained(replica int, drained bool) {
	f.r.deployed.ledger.SetDrained(replica, drained)
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
