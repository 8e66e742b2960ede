package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gearshift/env"
	"gearshift/env/applications"
	"gearshift/internal/scenario"
)

// before sets how long before the first loss the simulation begins: hosts that were slow to report as
// they loaded their models are waited for longer for some time.
const before = 2 * time.Minute

// since is a time of the run in the simulation.
func (p *phase) since(t time.Time) time.Duration { return t.Sub(p.began) + before }

// stalls are the times in which hosts were silent that nothing had befallen: six of them share the
// processors, and while some load models the heartbeats of others are late. The controller waits
// longer for a host after that, so that the simulator has to know of it.
func (p *phase) stalls() (list []env.HostLoss) {
	for _, n := range p.notices {
		host := -1
		for h := range failoverHosts {
			if hostName(h) == n.Host {
				host = h
			}
		}
		silence := time.Duration(n.TookMS * float64(time.Millisecond))
		from, to := p.since(n.Time.Add(-silence)), p.since(n.Time)
		lost := func(x loss) bool { return x.host == host && x.at.Before(n.Time) && n.Time.Add(-silence).Before(x.back) }
		if n.Kind == "false alarm" && host >= 0 && from > 0 && !slices.ContainsFunc(p.losses, lost) {
			list = append(list, env.HostLoss{Host: host, From: from, To: to, Silent: true})
		}
	}
	return list
}

// simulate plays the same losses in the simulator, and prints how far apart the recoveries are: with
// what the scenario says alone, as they are predicted beforehand, and with what was measured in the
// run, for how long ports did not refuse yet after a kill, and when hosts were silent. The latter is
// judged where there were many, and backups held ready: of loads after a loss the simulator knows how
// long each takes alone on the machine, which loads beside each other exceed.
func (p *phase) simulate(judged bool) {
	var alone, measured applications.Config
	for _, x := range p.losses {
		l := env.HostLoss{Host: x.host, From: p.since(x.at), To: p.since(x.back), Silent: x.kind != killed}
		alone.Losses = append(alone.Losses, l)
		l.Refuses = x.refuses
		measured.Losses = append(measured.Losses, l)
	}
	measured.Losses = append(measured.Losses, p.stalls()...)
	predicted, informed := p.simulated(alone), p.simulated(measured)
	for _, kind := range lossKinds {
		y := p.tally(kind)
		if y.losses == 0 {
			continue
		}
		real := times{meanOf(y.detection), meanOf(y.recovery)}
		p.t.Logf("%s, %s: from the loss to recovery %v; simulated from the scenario alone %v; with what was measured %v", p.policy, kind, real, predicted[kind], informed[kind])
		if off := math.Abs(real.sum() - informed[kind].sum()); judged && off > 15 && off > 0.15*real.sum() {
			p.t.Errorf("%s, %s: the simulator is %.0f ms off", p.policy, kind, off)
		}
	}
}

// times are means in ms: from the loss to its detection, and from there to recovery.
type times struct{ detection, recovery float64 }

func (x times) sum() float64 { return x.detection + x.recovery }

func (x times) String() string {
	return fmt.Sprintf("%.1f ms (detection %.1f, recovery %.1f)", x.sum(), x.detection, x.recovery)
}

// simulated plays losses, of which the first are those of the phase, and returns their times by kind.
func (p *phase) simulated(c applications.Config) map[string]times {
	s, err := scenario.LoadFailover(p.scenario)
	if err != nil {
		p.t.Fatal(err)
	}
	c.Problem, c.Options, c.Length, c.Seed, c.Traffic = s.FailoverProblem(true), s.FailoverOptions(), before+p.took, 1, true
	result, err := applications.Run(c)
	if err != nil {
		p.t.Fatal(err)
	}
	detection, recovery := map[string][]float64{}, map[string][]float64{}
	for _, one := range result.Failovers {
		i := slices.IndexFunc(c.Losses[:len(p.losses)], func(l env.HostLoss) bool {
			return l.From <= one.Detected && one.Detected <= l.To && one.Hosts[0] == l.Host
		})
		if i < 0 {
			continue
		}
		kind := p.losses[i].kind
		detection[kind] = append(detection[kind], ms(one.After))
		for _, a := range one.Affected {
			if a.Recovered {
				recovery[kind] = append(recovery[kind], ms(a.Took))
			}
		}
	}
	means := map[string]times{}
	for _, kind := range lossKinds {
		means[kind] = times{meanOf(detection[kind]), meanOf(recovery[kind])}
	}
	return means
}
