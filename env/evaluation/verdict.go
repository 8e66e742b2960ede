package evaluation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Score is what a policy earned in each run.
type Score struct {
	Policy string
	// Runs is the mean utility per request of each run, in the order of the seeds.
	Runs []float64
}

// Verdict is how a policy did against the best of some rules on the same runs.
type Verdict struct {
	Policy string `json:"policy"`
	// Rule has the highest mean of the rules, over the same runs, which favours it.
	Rule string `json:"rule"`
	// Objective is what they are compared by; nothing of mean utility.
	Objective Objective `json:"objective,omitzero"`
	// Margin is what the policy earned less what the rule did, paired by seed.
	Margin Interval `json:"margin"`
	Seeds  int      `json:"seeds"`
	// Blocks reports whether the seeds are blocks of recorded requests.
	Blocks bool `json:"blocks,omitempty"`
	// Alike is set where there is one run, or all are the same, which says nothing of other runs.
	Alike bool `json:"alike,omitempty"`
	// Workloads were played with each seed, and weigh the same.
	Workloads []string `json:"workloads,omitempty"`
}

// The words of a [Verdict].
const (
	Better = "better" // the whole interval of the margin lies above zero
	Level  = "level"  // the interval holds zero
	Worse  = "worse"  // the whole interval lies below zero
	// Unsettled is that of runs without an interval.
	Unsettled = "not settled"
)

// Word is Better, Level, Worse or Unsettled.
func (v Verdict) Word() string {
	switch {
	case v.Alike:
		return Unsettled
	case v.Margin.Lo > 0:
		return Better
	case v.Margin.Hi < 0:
		return Worse
	}
	return Level
}

// String returns the comparison in the words that every command uses.
func (v Verdict) String() string {
	runs := fmt.Sprintf("paired over %d %s", v.Seeds, v.Unit())
	switch {
	case v.Alike && v.Seeds == 1:
		runs = "in one run"
	case v.Alike:
		runs = fmt.Sprintf("in %d runs that are the same", v.Seeds)
	}
	return fmt.Sprintf("over the best rule, %s, by %s, %s: %s", v.Rule, v.By(), runs, v.Word())
}

// Unit returns what the runs differ by: seeds or blocks.
func (v Verdict) Unit() string {
	if v.Blocks {
		return "blocks"
	}
	return "seeds"
}

// By returns the margin, with the objective that it is of unless that is mean utility.
func (v Verdict) By() string {
	by := Signed(v.Margin)
	if v.Alike {
		by = fmt.Sprintf("%+.4f", v.Margin.Mean)
	}
	if v.Objective.IsZero() {
		return by
	}
	return by + " of " + v.Objective.String()
}

// Signed writes an interval of a difference.
func Signed(i Interval) string { return fmt.Sprintf("%+.4f (%+.4f to %+.4f)", i.Mean, i.Lo, i.Hi) }

// Over compares a policy with the rule with the highest mean; of several, the first. It
// returns an error where there is no rule, or one that has other runs.
func Over(policy Score, rules []Score) (Verdict, error) {
	if len(rules) == 0 {
		return Verdict{}, fmt.Errorf("cannot compare %s with rules: there are none", policy.Policy)
	}
	best := slices.MaxFunc(rules, func(a, b Score) int {
		return cmp.Compare(a.mean(), b.mean())
	})
	margin, err := Paired(policy.Runs, best.Runs)
	return Verdict{Policy: policy.Policy, Rule: best.Policy, Margin: margin, Seeds: len(policy.Runs), Alike: alike(policy.Runs) && alike(best.Runs)}, err
}

// alike reports whether all runs are the same.
func alike(runs []float64) bool {
	return !slices.ContainsFunc(runs, func(x float64) bool { return x != runs[0] })
}

// mean returns that of the runs in which requests came.
func (s *Score) mean() float64 {
	if runs := present(s.Runs); len(runs) > 0 {
		return mean(runs)
	}
	return 0
}

// Scores returns what the policies earned by the objective over the workloads of the names, each
// weighing the same, in the order of the results. What is there twice counts once.
func Scores(results []Result, workloads []string, o Objective) []Score {
	var list []Score
	seen := map[[2]string]bool{}
	for _, r := range results {
		row := [2]string{r.Policy, r.Workload}
		if seen[row] || !slices.Contains(workloads, r.Workload) {
			continue
		}
		seen[row] = true
		i := slices.IndexFunc(list, func(s Score) bool { return s.Policy == r.Policy })
		if i < 0 {
			i = len(list)
			list = append(list, Score{Policy: r.Policy, Runs: make([]float64, len(r.Runs))})
		}
		for k, value := range r.By(o).Runs {
			list[i].Runs[k] += value / float64(len(workloads))
		}
	}
	return list
}

// Verdicts compares each policy of the results that is not a rule with the rules among them,
// by its objective, over the workloads of the names. Where there is no rule there is none.
func Verdicts(results []Result, workloads []string) []Verdict {
	rule := map[string]bool{}
	for i := range results {
		rule[results[i].Policy] = results[i].Rule
	}
	var list []Verdict
	compared := map[string]bool{}
	for i := range results {
		r := &results[i]
		if r.Rule || compared[r.Policy] {
			continue
		}
		compared[r.Policy] = true
		// All rows of a plan have its seeds, so that an error is for want of rows.
		if v, err := Against(results, workloads, r.Policy, r.Objective, rule); err == nil {
			list = append(list, v)
		}
	}
	return list
}

// Against compares a policy with those of the results that are rules, by the objective, over
// the workloads of the names. It returns an error where the policy or a rule is missing.
func Against(results []Result, workloads []string, policy string, o Objective, rule map[string]bool) (Verdict, error) {
	var own, rules []Score
	for _, s := range Scores(results, workloads, o) {
		switch {
		case s.Policy == policy:
			own = append(own, s)
		case rule[s.Policy]:
			rules = append(rules, s)
		}
	}
	if len(own) == 0 {
		return Verdict{}, fmt.Errorf("cannot compare %s with rules: it was not played on %s", policy, Together(workloads))
	}
	v, err := Over(own[0], rules)
	v.Workloads, v.Objective = workloads, o
	return v, err
}

// Together joins names for a sentence: "u1, u2 and stable".
func Together(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
