package replicas

import (
	"math"
	"time"
)

// Reactive is a [Scaler] that follows the load, as the Horizontal Pod Autoscaler of Kubernetes
// does with a rate as its metric. It wants as many replicas as bring the utilisation to Target,
// leaves them as they are within Tolerance of it, and takes away none until all wishes of the
// last Stabilisation were lower.
type Reactive struct {
	// Capacity is how many examples a replica answers in a second.
	Capacity float64
	// Target is the utilisation that is kept.
	Target float64
	// Tolerance is by which share the utilisation may differ from Target.
	Tolerance float64
	// Window is the time over which the load is averaged; 0 is since the call before.
	Window time.Duration
	// Stabilisation is for how long a wish for more replicas outlasts its reason.
	Stabilisation time.Duration
	// Least is how many there are at least.
	Least int

	asked  time.Duration
	loads  []load
	wishes wishes
}

// load is a mean rate up to a time.
type load struct {
	at   time.Duration
	took time.Duration
	rate float64
}

// Desired implements [Scaler].
func (r *Reactive) Desired(now time.Duration, rate float64, replicas int) int {
	rate = r.average(now, rate)
	n := count(rate, r.Capacity*r.Target)
	if replicas > 0 && math.Abs(rate/(r.Capacity*r.Target*float64(replicas))-1) <= r.Tolerance {
		n = replicas
	}
	n = max(n, r.Least)
	most := r.wishes.add(now, n, r.Stabilisation)
	if n >= replicas {
		return n
	}
	return min(replicas, most)
}

// average is the mean rate over the window.
func (r *Reactive) average(now time.Duration, rate float64) float64 {
	r.loads = append(r.loads, load{at: now, took: now - r.asked, rate: rate})
	r.asked = now
	for len(r.loads) > 1 && r.loads[0].at <= now-r.Window {
		r.loads = r.loads[1:]
	}
	sum, took := 0.0, time.Duration(0)
	for _, l := range r.loads {
		sum += l.rate * l.took.Seconds()
		took += l.took
	}
	if took == 0 {
		return rate
	}
	return sum / took.Seconds()
}
