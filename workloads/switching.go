package workloads

import (
	"math"
	"math/rand/v2"
	"time"
)

// Load is the configuration of a training load: the "load" key of a scenario's
// training section. All keys are needed except uniform_share,
// min_phase_requests and known_share.
type Load struct {
	// MinRate and MaxRate bound the rates drawn, per second.
	MinRate float64 `yaml:"min_rate"`
	MaxRate float64 `yaml:"max_rate"`
	// UniformShare of the phases draw a rate uniform between the bounds, the
	// others one uniform in its logarithm, which dwells more on low rates.
	UniformShare float64 `yaml:"uniform_share"`
	// MinPhase and MaxPhase bound the length of a phase in seconds.
	MinPhase float64 `yaml:"min_phase_s"`
	MaxPhase float64 `yaml:"max_phase_s"`
	// MinPhaseRequests is how many requests a phase holds at least on average:
	// slow phases last longer for it, or they would be a vanishing share of the
	// decisions that are learnt from. Zero is [DefaultPhaseRequests].
	MinPhaseRequests float64 `yaml:"min_phase_requests,omitempty"`
	// KnownShare of the episodes show the policy the true rate, as some workloads
	// do (LBE-19), instead of estimates. The process does not include it.
	KnownShare float64 `yaml:"known_share,omitempty"`
	// Disturbances are what happens to the fleet meanwhile. They are no part of the process.
	Disturbances Disturbances `yaml:"disturbances,omitempty"`
}

// Validate names every key that is out of bounds, as joined [KeyError].
func (l Load) Validate() error {
	var f keyFaults
	if err := checkRate(l.MinRate); err != nil {
		f.add("min_rate", "%v", err)
	}
	if err := checkRate(l.MaxRate); err != nil {
		f.add("max_rate", "%v", err)
	} else if l.MaxRate < l.MinRate {
		f.add("max_rate", "%v is below min_rate, %v", l.MaxRate, l.MinRate)
	}
	f.addIf(!(l.UniformShare >= 0 && l.UniformShare <= 1), "uniform_share", "%v is not a share; from 0 to 1 would be right", l.UniformShare)
	f.addIf(!(l.MinPhase >= minSojourn && l.MinPhase <= maxPhase), "min_phase_s", "%v is not a number of seconds from %v to %v", l.MinPhase, minSojourn, maxPhase)
	if !(l.MaxPhase >= l.MinPhase && l.MaxPhase <= maxPhase) {
		f.add("max_phase_s", "%v is not a number of seconds from min_phase_s, %v, up to %v", l.MaxPhase, l.MinPhase, maxPhase)
	}
	if !(l.MinPhaseRequests >= 0 && l.MinPhaseRequests <= maxPhase) {
		f.add("min_phase_requests", "%v is not a number of requests above 0 and up to %v", l.MinPhaseRequests, maxPhase)
	}
	f.addIf(!(l.KnownShare >= 0 && l.KnownShare <= 1), "known_share", "%v is not a share; from 0 to 1 would be right", l.KnownShare)
	l.Disturbances.validate(&f)
	return f.Err()
}

// maxPhase is the longest phase in seconds: eleven days.
const maxPhase = 1e6

// DefaultPhaseRequests are the requests that a phase of a [Load] holds at least on
// average where it does not say.
const DefaultPhaseRequests = 5

// shortest returns the shortest phase at a rate, in seconds.
func (l Load) shortest(rate float64) float64 {
	requests := l.MinPhaseRequests
	if requests == 0 {
		requests = DefaultPhaseRequests
	}
	return max(l.MinPhase, requests/rate)
}

// RandomSwitching is the training workload (LBE-16): random rates, each held for
// a random time. Endless.
type RandomSwitching struct {
	load      Load
	mean, idc float64
}

// NewRandomSwitching returns the process of a valid load.
func NewRandomSwitching(load Load) (RandomSwitching, error) {
	if err := load.Validate(); err != nil {
		return RandomSwitching{}, err
	}
	s := RandomSwitching{load: load}
	s.integrate()
	return s, nil
}

// MeanRate implements [Process]: E[λD]/E[D] over the rate λ and the duration D
// of a phase.
func (s RandomSwitching) MeanRate() float64 { return s.mean }

// IDC implements [Process]. Only the limit is known, from the phases as cycles
// of a renewal-reward process: 1 + E[(λ−mean)²D²]/E[λD].
func (s RandomSwitching) IDC(window time.Duration) (float64, bool) {
	return limitOnly(s.idc, window)
}

// integrate finds the expectations by the midpoint rule over the quantiles of
// the rate; given the rate, the moments of the duration are exact.
func (s *RandomSwitching) integrate() {
	var seconds, requests, excess float64
	s.load.quantiles(func(weight, rate float64) {
		d, _ := s.load.durationMoments(rate)
		seconds += weight * d
		requests += weight * rate * d
	})
	s.mean = requests / seconds
	s.load.quantiles(func(weight, rate float64) {
		_, d2 := s.load.durationMoments(rate)
		excess += weight * (rate - s.mean) * (rate - s.mean) * d2
	})
	s.idc = 1 + excess/requests
}

// quantiles calls f with rates and their weights, which sum to one.
func (l Load) quantiles(f func(weight, rate float64)) {
	const n = 1 << 14
	for i := range n {
		u := (float64(i) + 0.5) / n
		f(l.UniformShare/n, l.rate(true, u))
		f((1-l.UniformShare)/n, l.rate(false, u))
	}
}

// rate returns the quantile u of one of the two laws.
func (l Load) rate(uniformly bool, u float64) float64 {
	if uniformly {
		return l.MinRate + u*(l.MaxRate-l.MinRate)
	}
	return l.MinRate * math.Pow(l.MaxRate/l.MinRate, u)
}

// duration returns the length of a phase at quantile u.
func (l Load) duration(rate, u float64) float64 {
	return max(l.MinPhase+u*(l.MaxPhase-l.MinPhase), l.shortest(rate))
}

// durationMoments are E[D] and E[D²] of max(U, x) for U uniform on [p, q]: x up
// to there, U beyond.
func (l Load) durationMoments(rate float64) (first, second float64) {
	p, q := l.MinPhase, l.MaxPhase
	x := l.shortest(rate)
	if x >= q {
		return x, x * x
	}
	below := (x - p) / (q - p)
	first = below*x + (1-below)*(x+q)/2
	second = below*x*x + (1-below)*(x*x+x*q+q*q)/3
	return first, second
}

// Times implements [Process].
func (s RandomSwitching) Times(rng *rand.Rand) Times {
	return modulated(rng, func() (rate, seconds float64, ok bool) {
		rate, seconds = s.load.phase(rng)
		return rate, seconds, true
	})
}

// phase draws the rate of a phase and how many seconds it lasts.
func (l Load) phase(rng *rand.Rand) (rate, seconds float64) {
	rate = l.rate(rng.Float64() < l.UniformShare, rng.Float64())
	return rate, l.duration(rate, rng.Float64())
}
