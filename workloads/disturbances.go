package workloads

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gearshift/router/fleet"
)

// Disturbances are changes of the fleet in the episodes of a training load, one after
// the other: a host that is lost, a replica that is unloaded and loaded, or one that is
// drained, each with the same chance. The zero value is none.
type Disturbances struct {
	// Share of the episodes that have any.
	Share float64 `yaml:"share"`
	// Calm is the mean number of seconds between the end of one and the beginning of the
	// next, and Lasts that of each.
	Calm  float64 `yaml:"calm_s"`
	Lasts float64 `yaml:"lasts_s"`
}

func (d Disturbances) validate(f *keyFaults) {
	if d == (Disturbances{}) {
		return
	}
	f.addIf(!(d.Share >= 0 && d.Share <= 1), "disturbances.share", "%v is not a share; from 0 to 1 would be right", d.Share)
	f.addIf(!(d.Calm >= 1 && d.Calm <= maxPhase), "disturbances.calm_s", "%v is not a number of seconds from 1 to %v", d.Calm, maxPhase)
	f.addIf(!(d.Lasts >= 1 && d.Lasts <= maxPhase), "disturbances.lasts_s", "%v is not a number of seconds from 1 to %v", d.Lasts, maxPhase)
}

// disturbanceStream sets their draws apart from others of a seed.
const disturbanceStream = 0x646973747572

// perEpisode is how many are drawn: an episode that is longer has none at its end.
const perEpisode = 500

// Draw returns what happens to the fleet in the episode of a seed: the hosts that are lost, by
// index, and the steps of replicas, both in order of time. Loads are how long replicas take to
// load: what would leave a task without a replica that is up does not happen.
func (d Disturbances) Draw(t *fleet.Table, loads []time.Duration, seed uint64) (losses []LostHost, steps []Step) {
	random := rand.New(rand.NewPCG(seed, disturbanceStream))
	if random.Float64() >= d.Share {
		return nil, nil
	}
	at, away := time.Duration(0), newAbsences(t)
	exponential := func(mean float64) time.Duration {
		return time.Duration(random.ExpFloat64() * mean * float64(time.Second))
	}
	for range perEpisode {
		from := at + exponential(d.Calm)
		at = from + time.Second + exponential(d.Lasts)
		kind, host, replica := random.IntN(3), random.IntN(len(t.Hosts)), random.IntN(len(t.Replicas))
		lost := func(i int) bool { return kind == 0 && t.Replicas[i].Host == host || kind != 0 && i == replica }
		if !away.leaveAll(from, lost) {
			continue
		}
		name := t.Replicas[replica].Name
		switch kind {
		case 0:
			losses = append(losses, LostHost{host, from, at})
			away.lose(host, from, at)
		case 1:
			steps = append(steps, Step{"unload", name, from}, Step{"load", name, at})
			away.until[replica] = at + loads[replica]
		case 2:
			steps = append(steps, Step{"drain", name, from}, Step{"undrain", name, at})
			away.until[replica] = max(away.until[replica], at)
		}
	}
	return losses, steps
}

// LostHost is the loss of a host by its index.
type LostHost struct {
	Host     int
	From, To time.Duration
}

// absences are until when each replica is not up.
type absences struct {
	table *fleet.Table
	until []time.Duration
}

func newAbsences(t *fleet.Table) absences {
	a := absences{t, make([]time.Duration, len(t.Replicas))}
	for i, r := range t.Replicas {
		if r.Initial != fleet.Up {
			a.until[i] = math.MaxInt64
		}
	}
	return a
}

// leaveAll reports whether each task has a replica that is up at a time, without those that
// are lost then.
func (a absences) leaveAll(at time.Duration, lost func(replica int) bool) bool {
	for task := range a.table.Tasks {
		if !slices.ContainsFunc(a.table.Replicas, func(r fleet.Replica) bool { return a.table.Answers(task, r.Variant) }) {
			continue // none ever was
		}
		left := false
		for i, r := range a.table.Replicas {
			left = left || a.table.Answers(task, r.Variant) && a.until[i] <= at && !lost(i)
		}
		if !left {
			return false
		}
	}
	return true
}

// lose has a host be away. What is loading there then stays cold when it is back.
func (a absences) lose(host int, from, to time.Duration) {
	for _, i := range a.table.ReplicasOn(host) {
		if a.until[i] > from {
			a.until[i] = math.MaxInt64
		} else {
			a.until[i] = to
		}
	}
}
