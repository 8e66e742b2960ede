package workloads

import (
	"math/rand/v2"
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

func (d Disturbances) validate(f *faults) {
	if d == (Disturbances{}) {
		return
	}
	if !(d.Share >= 0 && d.Share <= 1) {
		f.add("disturbances.share", "%v is not a share; from 0 to 1 would be right", d.Share)
	}
	if !(d.Calm >= 1 && d.Calm <= maxPhase) {
		f.add("disturbances.calm_s", "%v is not a number of seconds from 1 to %v", d.Calm, maxPhase)
	}
	if !(d.Lasts >= 1 && d.Lasts <= maxPhase) {
		f.add("disturbances.lasts_s", "%v is not a number of seconds from 1 to %v", d.Lasts, maxPhase)
	}
}

// disturbanceStream sets their draws apart from others of a seed.
const disturbanceStream = 0x646973747572

// perEpisode is how many are drawn: an episode that is longer has none at its end.
const perEpisode = 500

// Draw is what happens to the fleet in the episode of a seed: the hosts that are lost, by
// index, and the steps of replicas, both in order of time.
func (d Disturbances) Draw(t *fleet.Table, seed uint64) (losses []LostHost, steps []Step) {
	random := rand.New(rand.NewPCG(seed, disturbanceStream))
	if random.Float64() >= d.Share {
		return nil, nil
	}
	at := time.Duration(0)
	exponential := func(mean float64) time.Duration {
		return time.Duration(random.ExpFloat64() * mean * float64(time.Second))
	}
	for range perEpisode {
		from := at + exponential(d.Calm)
		at = from + time.Second + exponential(d.Lasts)
		kind, host, name := random.IntN(3), random.IntN(len(t.Hosts)), t.Replicas[random.IntN(len(t.Replicas))].Name
		switch kind {
		case 0:
			losses = append(losses, LostHost{host, from, at})
		case 1:
			steps = append(steps, Step{"unload", name, from}, Step{"load", name, at})
		case 2:
			steps = append(steps, Step{"drain", name, from}, Step{"undrain", name, at})
		}
	}
	return losses, steps
}

// LostHost is the loss of a host by its index.
type LostHost struct {
	Host     int
	From, To time.Duration
}
