package clients

import (
	"math"
	"time"

	"gearshift/env"
	"gearshift/router/balance"
	"gearshift/router/signals"
)

// views are what the clients know, made as they send their first requests.
type views struct {
	clients  []*balance.Client
	known    []*balance.Knowledge // by client and model
	changed  []uint32             // by client and model: which change of the model's replicas is known
	models   []balance.Replicas
	polled   []int
	chosen   int     // requests
	uneven   float64 // sum over the measured of them
	measured int
	probes   pool[probe] // that are not answered yet
}

// probe is a question to a replica that a client does not wait for.
type probe struct {
	k              *balance.Knowledge
	model, replica int
}

func newViews(r *run) views {
	v := views{clients: make([]*balance.Client, r.Clients), known: make([]*balance.Knowledge, r.Clients*len(r.Models)), changed: make([]uint32, r.Clients*len(r.Models))}
	for i := range r.Models {
		var power []float64
		for _, on := range r.deployed.models[i].on {
			power = append(power, r.Hosts[on].Compute)
		}
		v.models = append(v.models, balance.Replicas{Hosts: r.deployed.models[i].on, Power: power, Mean: r.Models[i].Mean})
	}
	return v
}

// knowledge is the client's of the model's replicas.
func (r *run) knowledge(client, model int) *balance.Knowledge {
	if r.Board > 0 {
		client = 0 // all read the same board
	}
	key := client*len(r.Models) + model
	k := r.views.known[key]
	if k == nil {
		if r.views.clients[client] == nil {
			r.views.clients[client] = balance.NewClient(r.Chooser, len(r.Hosts))
		}
		k = r.views.clients[client].Knowledge(&r.views.models[model])
		r.views.known[key] = k
	}
	if changed := r.deployed.models[model].changed; r.views.changed[key] != changed {
		r.views.changed[key] = changed
		r.allow(k, model)
	}
	return k
}

// choose has the client choose a replica of the model, and reports how long it waited for
// those that it asked.
func (r *run) choose(client, model int, now time.Duration) (replica int, waited time.Duration) {
	k := r.knowledge(client, model)
	r.compare(now)
	polled := r.views.polled[:0]
	for {
		asked := len(polled)
		polled = r.Chooser.Polled(k, now, r.random, polled)
		if len(polled) == asked {
			break
		}
		for _, i := range polled[asked:] {
			k.Hear(i, r.poll(model, i, now), balance.Polled, now)
		}
		waited += r.PollTakes
	}
	r.result.Sent++
	r.result.Polls += len(polled)
	replica = r.Chooser.Choose(k, polled, now, r.random)
	k.Own[replica]++
	if p, ok := r.Chooser.(balance.Prober); ok {
		polled = p.Probed(k, now, r.random, polled[:0])
		for _, i := range polled {
			r.probe(probe{k, model, i}, now)
		}
	}
	r.views.polled = polled
	return replica, waited
}

// probe asks a replica that nobody waits for.
func (r *run) probe(p probe, now time.Duration) {
	r.result.Probes++
	r.sim.Schedule(env.Item{At: now + r.PollTakes, Kind: probeAnswered, Index: r.views.probes.put(p)})
}

// probed has the client hear the answer to a probe.
func (r *run) probed(at int, now time.Duration) {
	p := r.views.probes.list[at]
	r.views.probes.drop(at)
	p.k.Hear(p.replica, r.poll(p.model, p.replica, now), balance.Probed, now)
}

// poll has a replica say its counters to a client that asks for them.
func (r *run) poll(model, replica int, now time.Duration) signals.Counters {
	x := r.replica(model, replica)
	if r.PollWork > 0 {
		r.hosts[x.host].Poll(r.PollWork, now)
		r.sim.Changed(x.host)
	}
	return r.hosts[x.host].Counters(x.slot)
}

// write has all clients learn what all replicas say.
func (r *run) write(now time.Duration) {
	for model := range r.Models {
		k := r.knowledge(0, model)
		for i := range r.deployed.models[model].on {
			x := r.replica(model, i)
			k.Hear(i, r.hosts[x.host].Counters(x.slot), balance.Published, now)
		}
	}
	if now+r.Board < r.Length {
		r.sim.Schedule(env.Item{At: now + r.Board, Kind: boardWritten})
	}
}

// compared is at how many requests once the hosts are compared.
const compared = 64

// compare measures how uneven the work of the hosts is.
func (r *run) compare(now time.Duration) {
	v := &r.views
	if v.chosen++; v.chosen%compared > 0 || now < r.Warmup {
		return
	}
	mean, square := 0.0, 0.0
	for _, h := range r.hosts {
		w := float64(h.Work()) / h.Cores
		mean += w / float64(len(r.hosts))
		square += w * w / float64(len(r.hosts))
	}
	v.uneven += math.Sqrt(max(0, square-mean*mean))
	v.measured++
	r.result.Uneven = time.Duration(v.uneven / float64(v.measured))
}
