package observation

import (
	"math"

	"gearshift/router/fleet"
)

// writer writes the numbers of an observation one after the other. A scale divides each; of
// a feature with a number per variant, the scales are by variant.
type writer struct {
	dst []float32
	at  int
}

// put writes a number, at most Bound.
func (w *writer) put(x float64) {
	w.dst[w.at] = float32(min(x, Bound))
	w.at++
}

// oneHot writes n numbers: 1 at the index, 0 elsewhere.
func (w *writer) oneHot(n, index int) {
	for i := range n {
		w.put(indicator(i == index))
	}
}

// inFlight writes means over a variant's replicas: over all, or over the present ones.
func (w *writer) inFlight(v *fleet.View, scales []float64, there bool) {
	for m, scale := range scales {
		replicas := float64(len(v.Table.ReplicasOf(m))) // of the whole fleet, like the sum
		if there {
			replicas = float64(v.PresentOf(m)) * thereShare(v, m)
		}
		w.put(float64(v.VariantInFlight(m)) / max(1, replicas) / scale)
	}
}

// thereShare returns the share of the variant's replicas in view that are present.
func thereShare(v *fleet.View, variant int) float64 {
	seen := v.ReplicasOf(variant)
	n := 0
	for _, i := range seen {
		if v.State(i).There() {
			n++
		}
	}
	return float64(n) / float64(max(1, len(seen)))
}

func (w *writer) taskInFlight(v *fleet.View, scales []float64, tasks int, there bool) {
	for m, scale := range scales {
		replicas := float64(len(v.ReplicasOf(m))) // in view, like the sum
		if there {
			replicas *= thereShare(v, m)
		}
		for t := range tasks {
			w.put(float64(v.TaskInFlight(m, t)) / max(1, replicas) / scale)
		}
	}
}

func (w *writer) logInFlight(v *fleet.View, scales []float64) {
	for m, scale := range scales {
		w.put(math.Log1p(float64(v.VariantInFlight(m))) / scale)
	}
}

func (w *writer) shortest(v *fleet.View, scales []float64) {
	for m, scale := range scales {
		w.put(orBound(float64(v.Shortest(m))) / scale)
	}
}

// least writes, per variant, the smallest value over its available replicas.
func (w *writer) least(v *fleet.View, scales []float64, of func(replica int) float64) {
	for m, scale := range scales {
		w.put(orBound(least(v, m, of)) / scale)
	}
}

func (w *writer) rates(v *fleet.View, scales []float64) {
	for i, scale := range scales {
		w.put(v.Smoothed[i] / scale)
	}
}

func (w *writer) logRates(v *fleet.View, scales []float64) {
	for i, scale := range scales {
		w.put(math.Log1p(v.Smoothed[i]) / scale)
	}
}

func (w *writer) hostRates(v *fleet.View, scales []float64) {
	hosts := hostsUp(v)
	w.put(v.Rate / hosts / scales[0])
	for i, scale := range scales[1:] {
		w.put(v.Smoothed[i] / hosts / scale)
	}
}

func (w *writer) logHostRates(v *fleet.View, scales []float64) {
	hosts := hostsUp(v)
	w.put(math.Log1p(v.Rate/hosts) / scales[0])
	for i, scale := range scales[1:] {
		w.put(math.Log1p(v.Smoothed[i]/hosts) / scale)
	}
}

func (w *writer) states(v *fleet.View, variants int) {
	for m := range variants {
		var up, coming float64
		replicas := v.ReplicasOf(m)
		for _, i := range replicas {
			switch v.State(i) {
			case fleet.Up:
				up++
			case fleet.Loading:
				coming++
			}
		}
		all := float64(max(1, len(replicas)))
		if n := v.PresentOf(m); n > 0 { // samples draw hosts with a present replica
			all *= float64(len(v.Table.ReplicasOf(m))) / float64(n)
		}
		w.put(up / all)
		w.put(coming / all)
	}
}

func (w *writer) readyIn(v *fleet.View, scales []float64) {
	for m, scale := range scales {
		first := math.Inf(1)
		for _, i := range v.ReplicasOf(m) {
			if at, ok := v.UpAt(i); ok {
				first = min(first, max(0, (at-v.Now).Seconds()))
			}
		}
		w.put(first / scale)
	}
}

func (w *writer) newVersions(v *fleet.View, variants int) {
	for m := range variants {
		var up, newer float64
		for _, i := range v.ReplicasOf(m) {
			if v.State(i) == fleet.Up {
				up++
				newer += indicator(v.IsNewer(i))
			}
		}
		w.put(newer / max(1, up))
	}
}

func (w *writer) shortfalls(v *fleet.View, f *Feature) {
	for i, n := range f.Requests {
		w.put(v.Recent.Sum(n) / f.Scale[i])
	}
}

// predicted writes what is predicted for the request: by variant, or how sure that is.
func (w *writer) predicted(v *fleet.View, r *fleet.Request, f *Feature) {
	for m, scale := range f.Scale {
		w.put(predictedWorth(v, r, m) / scale)
	}
	if f.Kind == PredictedSure {
		w.put(float64(r.Predicted.Sure) * indicator(r.Predicted.Known))
	}
}

// predictedWorth returns what the variant's answer to the request is expected to be worth if
// it comes in time.
func predictedWorth(v *fleet.View, r *fleet.Request, variant int) float64 {
	return v.Table.Tasks[r.Task].Weight * max(0, v.Table.Quality(r, variant))
}

// least returns the smallest value over the variant's available replicas, at least 0, or −1
// if none is available.
func least(v *fleet.View, variant int, of func(replica int) float64) float64 {
	best := -1.0
	for _, i := range v.ReplicasOf(variant) {
		if v.Available(i) && (best < 0 || of(i) < best) {
			best = max(0, of(i))
		}
	}
	return best
}

// orBound replaces −1, which stands for no available replica, by the largest encodable
// value.
func orBound(x float64) float64 {
	if x < 0 {
		return math.Inf(1)
	}
	return x
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
