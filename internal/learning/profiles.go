// Package learning fits what a scenario says of engines to the traffic that a router serves: latency models
// to timed answers, qualities to scores.
package learning

import (
	"math"
	"slices"
	"sync"

	"gearshift/env/fit"
	"gearshift/router/drift"
	"gearshift/router/fleet"
	"gearshift/router/profile"
)

const (
	// kept bounds the timed answers of a variant that are remembered, the newest.
	kept = 1024
	// firstFit and mostBetween are the answers of a variant after which it is fitted, at first and at
	// most. In between it is fitted whenever it has half as many again.
	firstFit, mostBetween = 40, 250
	// A replica gets a profile of its own after ownAnswers answers, if its times differ from those of the
	// variant's other replicas by the factor ownBound.
	ownAnswers, ownBound = 60, 1.1
)

// Profiles learns the latency model of each variant from timed answers. Its methods may be called from any
// goroutine. Add allocates nothing.
type Profiles struct {
	table   *fleet.Table
	chunked bool
	guess   []*profile.Profile // by replica
	fitting sync.Mutex         // held while a fit runs

	mu       sync.Mutex // protects all below
	variants []timings
	now      []*profile.Profile // by replica
}

// timings are the latest answers of a variant.
type timings struct {
	ring    []drift.Timing
	answers int // ever
	due     int // answers at which it is fitted next
	used    int // answers that the profile in force rests on; 0: none
}

// NewProfiles begins with guesses by replica. Chunked is set for engines that put prompts into decode steps.
func NewProfiles(t *fleet.Table, guess []*profile.Profile, chunked bool) *Profiles {
	l := &Profiles{table: t, chunked: chunked, guess: guess, now: slices.Clone(guess), variants: make([]timings, len(t.Variants))}
	for v := range l.variants {
		l.variants[v] = timings{ring: make([]drift.Timing, 0, kept), due: firstFit}
	}
	return l
}

// Add takes in a timed answer.
func (l *Profiles) Add(a *drift.Timing) {
	v := l.table.Replicas[a.Replica].Variant
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.variants[v]
	if len(t.ring) < kept {
		t.ring = append(t.ring, *a)
	} else {
		t.ring[t.answers%kept] = *a
	}
	t.answers++
}

// Due reports whether a variant has enough new answers to be fitted.
func (l *Profiles) Due() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.variants, func(t timings) bool { return t.answers >= t.due })
}

// Fit fits the variants that are due, and returns the profiles of all replicas. It takes some hundredths
// of a second.
func (l *Profiles) Fit() []*profile.Profile {
	l.fitting.Lock()
	defer l.fitting.Unlock()
	for v := range l.variants {
		l.mu.Lock()
		t := &l.variants[v]
		if t.answers < t.due {
			l.mu.Unlock()
			continue
		}
		t.due = t.answers + min(mostBetween, t.answers/2)
		answers, seen := slices.Clone(t.ring), t.answers
		l.mu.Unlock()
		found := l.fitted(v, answers)
		l.mu.Lock()
		t.used = min(seen, kept)
		for i, p := range found {
			l.now[i] = p
		}
		l.mu.Unlock()
	}
	return l.Now()
}

// fitted returns the profiles of a variant's replicas, by replica. One whose times differ from the others'
// has its own.
func (l *Profiles) fitted(variant int, answers []drift.Timing) map[int]*profile.Profile {
	replicas := l.table.ReplicasOf(variant)
	found := map[int]*profile.Profile{}
	if len(replicas) == 0 {
		return found
	}
	shared := fit.Refine(*l.guess[replicas[0]], answers, l.chunked)
	for _, i := range replicas {
		p := &shared
		own := slices.DeleteFunc(slices.Clone(answers), func(a drift.Timing) bool { return a.Replica != i })
		if len(own) >= ownAnswers && len(own) < len(answers) {
			if by := math.Abs(math.Log(Ratio(p, own, l.chunked))); by > math.Log(ownBound) {
				refined := fit.Refine(shared, own, l.chunked)
				p = &refined
			}
		}
		found[i] = p
	}
	return found
}

// Ratio returns the median of the answers' times from first to last token, as a multiple of the
// profile's; 1 without any.
func Ratio(p *profile.Profile, answers []drift.Timing, chunked bool) float64 {
	if len(answers) == 0 {
		return 1
	}
	ratios := make([]float64, len(answers))
	for i := range answers {
		ratios[i] = answers[i].Decode.Seconds() * 1000 / fit.DecodeTime(p, &answers[i], chunked)
	}
	return fit.Quantile(ratios, 0.5)
}

// Lengths returns the mean tokens of prompts and of answers, over the answers that are remembered, and how
// many those are.
func (l *Profiles) Lengths() (prompt, output float64, answers int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for v := range l.variants {
		for i := range l.variants[v].ring {
			a := &l.variants[v].ring[i]
			prompt += float64(a.Prompt)
			output += float64(a.Tokens)
			if !a.Whole {
				output++
			}
		}
		answers += len(l.variants[v].ring)
	}
	if answers == 0 {
		return 0, 0, 0
	}
	return prompt / float64(answers), output / float64(answers), answers
}

// Now returns the profiles in force, by replica.
func (l *Profiles) Now() []*profile.Profile {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.now)
}

// Answers returns how many answers each variant's profile rests on; 0 of one that is still the guess.
func (l *Profiles) Answers() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]int, len(l.variants))
	for v := range list {
		list[v] = l.variants[v].used
	}
	return list
}
