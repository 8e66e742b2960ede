package evaluation

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"gearshift/env"
)

// Family is a kind of policy with parameters to be found.
type Family struct {
	Name string
	Axes []Axis
	// Make returns the policy of these values, one for each axis, and its name.
	// An error says that they make none; the search passes them by.
	Make func(values []float64) (name string, d Decider, err error)
	// Starts lists values that are tried first. They count among the trials of the coarse grid.
	Starts [][]float64
}

// Axis is one parameter of a [Family].
type Axis struct {
	Name string
	// Grid is where the search begins, ascending. It keeps within the ends, and
	// moves by shares of the distance between neighbours.
	Grid []float64
	// Tie, if set, is shared by axes that take the same value until the coarse
	// search is over.
	Tie string
}

// Tuning finds the parameters of families of policies by playing them: first
// over a coarse grid, then one parameter at a time from the best points found.
// Same tuning, same trials, on one core or many.
type Tuning struct {
	Families []Family
	// Fleet holds all of the environment but its workload.
	Fleet     env.Config
	Workloads []Workload
	// Seeds must be of the training domain: what is reported comes from others.
	Seeds []uint64
	// Trials is the most that a family may take.
	Trials int
	// Objective is what the search scores policies by.
	Objective Objective
	// Progress, if set, is called after each trial. The total is a bound.
	Progress func(done, total int)
	Pacing
}

// Trial is one point that the search has played.
type Trial struct {
	Family string    `json:"family"`
	Policy string    `json:"policy"`
	Stage  string    `json:"stage"` // Coarse or Refined
	Values []float64 `json:"values"`
	// Score is the mean over the workloads, a group counting as one, of the mean
	// utility per request over the seeds, or of what stands in for it.
	Score float64 `json:"score"`
	// Utility is the mean utility by workload.
	Utility map[string]float64 `json:"utility"`
}

// The stages of a search.
const (
	Coarse  = "coarse"
	Refined = "refined"
)

// Run searches every family and returns all trials in order. A family of which
// no point makes a policy is an error.
func (t *Tuning) Run(ctx context.Context) ([]Trial, error) {
	if len(t.Seeds) == 0 || len(t.Workloads) == 0 || t.Trials < 1 {
		return nil, errors.New("cannot tune: seeds, workloads and trials are needed")
	}
	for i := range t.Workloads {
		if _, err := environment(&Contestant{Fleet: t.Fleet}, &t.Workloads[i]); err != nil {
			return nil, fmt.Errorf("cannot tune on %s: %w", t.Workloads[i].Name, err)
		}
	}
	var all []Trial
	for i := range t.Families {
		f := &t.Families[i]
		s := search{family: f, limit: t.Trials}
		s.play = func(values []float64) (Trial, error) {
			trial, err := t.try(ctx, f, values)
			if err == nil && t.Progress != nil {
				t.Progress(len(all)+len(s.trials)+1, len(t.Families)*t.Trials)
			}
			return trial, err
		}
		if err := s.run(); err != nil {
			return nil, fmt.Errorf("cannot tune %s: %w", f.Name, err)
		}
		all = append(all, s.trials...)
	}
	return all, nil
}

// errNoPolicy is what try returns for values that make none.
var errNoPolicy = errors.New("no values of its grid make a policy")

// try plays one policy on all workloads and seeds.
func (t *Tuning) try(ctx context.Context, f *Family, values []float64) (Trial, error) {
	name, decider, err := f.Make(values)
	if err != nil {
		return Trial{}, errNoPolicy
	}
	c := Contestant{Name: name, Decider: decider, Fleet: t.Fleet}
	utility := make([]float64, len(t.Workloads)*len(t.Seeds))
	worth := make([]float64, len(utility)) // by the objective
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(t.cores())
	for i := range t.Workloads {
		for j, seed := range t.Seeds {
			g.Go(func() error {
				record := recorder{objectives: []Objective{t.Objective}, due: t.due()}
				run, err := record.play(ctx, &c, &t.Workloads[i], seed, nil)
				if err != nil {
					return fmt.Errorf("%s on %s: %w", name, t.Workloads[i].Name, err)
				}
				n := i*len(t.Seeds) + j
				utility[n], worth[n] = run.utility, run.by(0)
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		return Trial{}, err
	}
	for i := range t.Workloads {
		if len(present(t.runs(utility, i))) == 0 {
			return Trial{}, fmt.Errorf("%s on %s: %w", name, t.Workloads[i].Name, errNoRequests)
		}
	}
	trial := Trial{Family: f.Name, Policy: name, Values: values}
	trial.Score, trial.Utility = t.score(utility)
	if t.Objective != MeanUtility {
		trial.Score, _ = t.score(worth)
	}
	return trial, nil
}

// runs returns the workload's of values by workload and seed.
func (t *Tuning) runs(values []float64, workload int) []float64 {
	return values[workload*len(t.Seeds) : (workload+1)*len(t.Seeds)]
}

// score averages the runs' utilities, by workload and seed.
func (t *Tuning) score(utility []float64) (score float64, byWorkload map[string]float64) {
	byWorkload = map[string]float64{}
	members := map[string]float64{}
	var names []string
	for i := range t.Workloads {
		name := t.Workloads[i].headline()
		if members[name] == 0 {
			names = append(names, name)
		}
		members[name]++
		byWorkload[name] += mean(present(t.runs(utility, i)))
	}
	for _, name := range names {
		byWorkload[name] /= members[name]
		score += byWorkload[name]
	}
	return score / float64(len(names)), byWorkload
}
