package training

import (
	"context"
	"math"
	"slices"
	"strconv"

	"gearshift/env"
	"gearshift/router/modality"
	"gearshift/workloads"
)

// cautions are those that a plan may have. The first is the plan without foresight, which the others
// must be worth more than.
var cautions = [...]float64{modality.Unforeseeing, 0, 0.5, 1, 1.5, 2, 3, 5, 8}

// span is the time of a sample, in deadlines.
const span = 4

// jobsSample is a stretch of an episode that was played with each caution: the conditions at its
// beginning, and how much more than without foresight the jobs that came in it were worth, relative to
// the [stakes] of its episode.
type jobsSample struct {
	conditions modality.Conditions
	gains      [len(cautions)]float64
}

// stakes are the most that a request is worth more, or less, by some caution than without foresight.
// What is gained is divided by them, so that episodes count alike: where little can be gained, as with
// room for everything, a caution that costs that little must not pass for a good one. Differences
// below the least do not count as much.
type stakes float64

const leastStakes = 0.001

// count takes in the difference that a caution makes.
func (s *stakes) count(difference float64) { *s = max(*s, stakes(math.Abs(difference))) }

func (s stakes) of(difference float64) float64 { return difference / (float64(s) + leastStakes) }

// compare plays episodes of training, each with every caution, and returns their samples. All
// cautions meet the same jobs and the same batch times draw for draw, so that what one is worth more
// than another shows in a few hundred episodes.
func (w *jobsSettings) compare(ctx context.Context, seed uint64, episodes int) ([]jobsSample, error) {
	all := make([][]jobsSample, episodes)
	err := each(ctx, episodes, func(i int) (err error) {
		all[i], err = w.compareOne(workloads.Seed(workloads.Training, seed<<32|1<<31|uint64(i)))
		return err
	})
	return slices.Concat(all...), err
}

// compareOne plays an episode with every caution.
func (w *jobsSettings) compareOne(seed uint64) ([]jobsSample, error) {
	var list []jobsSample
	var total [len(cautions)]float64
	for k, caution := range cautions {
		e, deadline, err := w.draw(seed, nil)
		if err != nil {
			return nil, err
		}
		at := func(a *workloads.JobArrival) int { return int((a.At - e.Arrivals[0].At) / (span * deadline)) }
		if list == nil {
			list = make([]jobsSample, at(&e.Arrivals[len(e.Arrivals)-1])+1)
		}
		p := &jobsRecorder{Foresighted: modality.NewForesighted(e.Table, caution), samples: list, at: func(job int) int { return at(&e.Arrivals[job]) }}
		requests := 0
		_, err = e.play(p, func(o env.JobOutcome) {
			list[at(&o.JobArrival)].gains[k] += o.Worth()
			requests += o.Size
		})
		if err != nil {
			return nil, err
		}
		for i := range list {
			list[i].gains[k] /= float64(requests)
			total[k] += list[i].gains[k]
		}
	}
	var most stakes
	for _, worth := range total {
		most.count(worth - total[0])
	}
	for i := range list {
		none := list[i].gains[0]
		for k := range list[i].gains {
			list[i].gains[k] = most.of(list[i].gains[k] - none)
		}
	}
	return list, nil
}

// jobsRecorder notes the conditions under which the first plan of each sample is made.
type jobsRecorder struct {
	*modality.Foresighted
	arrivals modality.Arrivals
	samples  []jobsSample
	at       func(job int) int // the sample of a job, by its number
	begun    int               // samples
}

// Foresee implements [modality.Foreseeing].
func (p *jobsRecorder) Foresee(a modality.Arrivals) {
	p.arrivals = a
	p.Foresighted.Foresee(a)
}

// Plan implements [modality.Policy].
func (p *jobsRecorder) Plan(free float64, list []modality.Job, plan *modality.Plan) {
	for i := range list {
		job, _ := strconv.Atoi(list[i].ID) // the simulator's names are numbers
		for at := p.at(job); p.begun <= at; p.begun++ {
			p.samples[p.begun].conditions = p.arrivals.Conditions()
		}
	}
	p.Foresighted.Plan(free, list, plan)
}

// chooseCautions returns the cautions by which most is gained on validation seeds, relative to the
// stakes, and what comes of them there: one for all conditions, or a tree that is grown on training
// seeds.
func (w *jobsSettings) chooseCautions(ctx context.Context, seed uint64, episodes int) (modality.Cautions, *jobsJudge, error) {
	samples, err := w.compare(ctx, seed, episodes)
	if err != nil {
		return nil, nil, err
	}
	var choices []modality.Cautions
	for _, caution := range cautions {
		choices = append(choices, modality.Always(caution))
	}
	for _, g := range growths {
		if len(samples) > 2*g.least {
			choices = append(choices, g.grow(samples))
		}
	}
	results := make([]*played, len(choices))
	for i, c := range choices {
		results[i], err = w.play(ctx, w.many, func(t *modality.Table) (modality.Policy, error) { return modality.NewCautious(t, c), nil })
		if err != nil {
			return nil, nil, err
		}
	}
	j := newJobsJudge(results[:len(cautions)])
	best := 0
	for i := range choices {
		if j.gain(results[i], results[best]) > 0 {
			best = i
		}
	}
	j.plan = results[best]
	return choices[best], j, nil
}

// jobsJudge compares what comes of policies on the same episodes.
type jobsJudge struct {
	stakes []stakes // by episode
	plan   *played  // the advice
}

// newJobsJudge knows the stakes by what came of each caution, the first of which is none.
func newJobsJudge(by []*played) *jobsJudge {
	j := &jobsJudge{stakes: make([]stakes, len(by[0].worth))}
	for i := range j.stakes {
		for _, p := range by {
			j.stakes[i].count(p.of(i) - by[0].of(i))
		}
	}
	return j
}

// gain is what is gained by the first in place of the second, relative to the stakes, in the mean.
func (j *jobsJudge) gain(a, b *played) float64 {
	mean, _ := j.compare(a, b)
	return mean
}

// compare is the mean gain and its standard error.
func (j *jobsJudge) compare(a, b *played) (mean, fault float64) {
	var sum, squares float64
	n := float64(len(a.worth))
	for i := range a.worth {
		x := j.stakes[i].of(a.of(i) - b.of(i))
		sum, squares = sum+x, squares+x*x
	}
	mean = sum / n
	return mean, math.Sqrt(max(0, squares/n-mean*mean) / n)
}
