package profile

import (
	"math"
	"time"

	"gearshift/router/fleet"
)

// Forecaster reckons what a further request would do on each replica of a
// fleet, from the replicas' profiles and what a view shows of their load. It
// holds no state but its parameters: goroutines may share it.
//
// A batch of n sequences that hold so many tokens, beside busy neighbours, takes
// a step of a known time, which is the pace of all its sequences. A pace p
// against a deadline d counts as a miss with the probability
//
//	1 / (1 + exp(−(p/d − centre)/spread))
//
// since a request's own pace wavers around that of the present step, and the
// prefills of others interrupt it. The misses that a request adds are its own,
// those of the batch it joins, and those of the batches on the same host that
// it slows. A replica that is idle counts as a fraction of a request: to keep
// it quick is worth something to those to come.
type Forecaster struct{ profiles []*Profile }

const (
	missCentre = 0.95
	missSpread = 0.04
	idleWeight = 0.2
	// idleContext is the context of the request that an idle replica might get.
	idleContext = 200
)

// NewForecaster makes a forecaster of profiles by replica index.
func NewForecaster(profiles []*Profile) *Forecaster { return &Forecaster{profiles: profiles} }

// Fill writes the forecasts for r into v.Forecasts, reusing its memory.
func (f *Forecaster) Fill(v *fleet.View, r *fleet.Request) {
	t := v.Table
	v.Forecasts = v.Forecasts[:0]
	for range t.Replicas {
		v.Forecasts = append(v.Forecasts, fleet.Forecast{})
	}
	deadline := float64(t.Tasks[r.Task].Allowed(r.Deadline)) / float64(time.Millisecond)
	for h := range t.Hosts {
		f.host(v, t.ReplicasOn(h), r.PromptTokens, 1/deadline)
	}
}

// host fills in the forecasts of the replicas of one host.
func (f *Forecaster) host(v *fleet.View, on []int, prompt int, perDeadline float64) {
	var duties float64
	for _, i := range on {
		duties += f.duty(i, int(v.InFlight[i]), int(v.Held[i]))
	}
	for _, i := range on {
		n, held := int(v.InFlight[i]), int(v.Held[i])
		before := f.duty(i, n, held)
		after := f.duty(i, n+1, held+prompt)
		pace := f.pace(i, n+1, held+prompt, duties-before) * perDeadline
		own := miss(pace)
		added := own
		if n > 0 {
			added += float64(n) * (own - miss(f.pace(i, n, held, duties-before)*perDeadline))
		}
		for _, j := range on {
			if j != i {
				added += f.slowed(v, j, duties, after-before, perDeadline)
			}
		}
		v.Forecasts[i] = fleet.Forecast{Pace: pace, Misses: added}
	}
}

// slowed is the misses that further duty on the host adds on replica j.
func (f *Forecaster) slowed(v *fleet.View, j int, duties, more, perDeadline float64) float64 {
	n, held, weight := int(v.InFlight[j]), int(v.Held[j]), float64(v.InFlight[j])
	others := duties
	if n == 0 {
		n, held, weight = 1, idleContext, idleWeight
	} else {
		others -= f.duty(j, n, held)
	}
	return weight * (miss(f.pace(j, n, held, others+more)*perDeadline) - miss(f.pace(j, n, held, others)*perDeadline))
}

// duty is the share of a step in which n sequences load the GPU, alone on it.
func (f *Forecaster) duty(i, n, held int) float64 {
	if n == 0 {
		return 0
	}
	_, duty := f.profiles[i].Step(n, n, held, 0)
	return duty
}

func (f *Forecaster) pace(i, n, held int, neighbours float64) float64 {
	ms, _ := f.profiles[i].Step(n, n, held, neighbours)
	return ms
}

func miss(pace float64) float64 { return 1 / (1 + math.Exp((missCentre-pace)/missSpread)) }
