package league

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router/policy"
	"gearshift/workloads"
)

// Kinds of entries.
const (
	Tuned   = "tuned"   // the best of a family that the search found on the fleet
	Chosen  = "chosen"  // the rule with the best score of the search
	Plain   = "plain"   // a rule without parameters
	Carried = "carried" // a rule with the parameters of another scenario
	Fixed   = "fixed"   // a size alone, with all the memory
	Policy  = "policy"  // asked for
	Trained = "trained" // on the fleet
)

// Entry identifies a competitor on all fleets.
type Entry struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// String returns the entry as tables name it.
func (e Entry) String() string {
	switch e.Kind {
	case Tuned, Carried, Trained:
		return e.Kind + " " + e.Name
	case Chosen, Fixed:
		return e.Kind + ", " + e.Name
	}
	return e.Name
}

// entrant resolves an entry on a fleet: the reference by which it plays, and the source of that.
type entrant struct {
	Entry
	ref    string
	on     *scenario.Scenario
	source *policies.Source
}

// entrants lists the competitors on the fleet, with the rules that the search found.
func (l *League) entrants(s *scenario.Scenario, found *evaluation.TuningReport) ([]entrant, error) {
	var list []entrant
	add := func(kind, name, ref string) { list = append(list, entrant{Entry{kind, name}, ref, s, l.Source}) }
	for _, ref := range l.Policies {
		add(Policy, ref, ref)
	}
	add(Chosen, "by the search", evaluation.BestFirst(found.Best)[0].Policy)
	plain := map[string]bool{}
	for _, b := range found.Best {
		if kind, _, _ := strings.Cut(b.Family, ":"); plain[kind] {
			add(Tuned, b.Family, b.Policy) // with another number of parameters
		} else {
			plain[kind] = true
			add(Tuned, kind, b.Policy)
			add(Plain, kind, kind)
		}
	}
	other, err := scenario.Load(l.Carried)
	if err != nil {
		return nil, err
	}
	maker, err := s.Maker(s.Table())
	if err != nil {
		return nil, err
	}
	for _, rule := range other.Evaluation.Rules {
		if _, err := maker.Parse(rule); err == nil { // limits of thresholds are for a number of sizes
			kind, _, _ := strings.Cut(rule, ":")
			add(Carried, kind, rule)
		}
	}
	for _, v := range s.Variants {
		add(Fixed, v.Name, "static:"+v.Name)
	}
	return list, nil
}

// FleetResult holds the results of all entries on one fleet.
type FleetResult struct {
	Seed  uint64 `json:"seed"`
	Sizes int    `json:"sizes"`
	Hosts int    `json:"hosts"`
	Tasks int    `json:"tasks"`
	// Best is the tuned rule with the highest utility of the evaluation, which favours it.
	Best    string  `json:"best_tuned"`
	Utility float64 `json:"utility"` // of the best tuned rule
	Rows    []Row   `json:"rows"`
}

// Row holds the result of an entry on a fleet.
type Row struct {
	Entry
	Plays   string              `json:"plays"` // the rule or policy
	Utility evaluation.Interval `json:"utility"`
	// Difference to the best tuned rule, paired by seed, as a share of that rule's utility.
	Difference evaluation.Interval `json:"difference"`
	Verdict    string              `json:"verdict"`
	// Plain is the difference to the best other rule without parameters, likewise.
	Plain evaluation.Interval `json:"over_plain"`
}

// fleet tunes the rules on the fleet of a seed and compares all entries on it.
func (l *League) fleet(ctx context.Context, seed uint64, what string) (FleetResult, error) {
	s, err := Fleet(seed)
	if err != nil {
		return FleetResult{}, err
	}
	for _, ref := range l.Policies { // now, and not after the search
		if _, err := policies.Contestant(s, l.Source, ref, l.Notice); err != nil {
			return FleetResult{}, err
		}
	}
	found, err := l.Tuning.Search(ctx, s, l.Workloads, evaluation.Pacing{}, l.counting(what+": tuning"))
	if err != nil {
		return FleetResult{}, err
	}
	list, err := l.entrants(s, found)
	if err == nil && l.Train != nil {
		var t entrant
		t, err = l.trained(ctx, seed, evaluation.BestFirst(found.Best)[0].Policy)
		list = append([]entrant{t}, list...)
	}
	if err != nil {
		return FleetResult{}, err
	}
	work, err := policies.Shortened(s, l.Workloads, l.Requests, l.Rates, sweepRequests*l.Requests)
	if err != nil {
		return FleetResult{}, err
	}
	plan := evaluation.Plan{Workloads: work, Seeds: workloads.Seeds(workloads.Evaluation, l.Runs), Progress: l.counting(what + ": evaluating")}
	plays := make([]string, len(list)) // by entrant, the contestant's name
	for i, e := range list {
		c, err := policies.Contestant(e.on, e.source, e.ref, l.Notice)
		if err != nil {
			return FleetResult{}, err
		}
		plays[i] = c.Name
		if !slices.ContainsFunc(plan.Contestants, func(x evaluation.Contestant) bool { return x.Name == c.Name }) {
			plan.Contestants = append(plan.Contestants, c)
		}
	}
	results, err := plan.Evaluate(ctx)
	if err != nil {
		return FleetResult{}, err
	}
	t := s.Table()
	f := FleetResult{Seed: seed, Sizes: len(t.Variants), Hosts: len(t.Hosts), Tasks: len(t.Tasks)}
	return f, f.compare(list, plays, evaluation.Scores(results, evaluation.Headlines(work), evaluation.MeanUtility))
}

func (l *League) counting(what string) func(done, total int) {
	if l.Counting == nil {
		return nil
	}
	return l.Counting(what)
}

// compare fills in the rows from what the contestants earned.
func (f *FleetResult) compare(list []entrant, plays []string, scores []evaluation.Score) error {
	of := map[string]evaluation.Score{}
	for _, s := range scores {
		of[s.Policy] = s
	}
	rivals := map[string][]evaluation.Score{} // by kind
	for i, e := range list {
		if e.Name != policy.Untuned { // which is compared with the rules that it could replace
			rivals[e.Kind] = append(rivals[e.Kind], of[plays[i]])
		}
	}
	for i, e := range list {
		own := of[plays[i]]
		tuned, err := evaluation.Over(own, rivals[Tuned])
		if err != nil {
			return err
		}
		others := slices.DeleteFunc(slices.Clone(rivals[Plain]), func(s evaluation.Score) bool { return s.Policy == own.Policy })
		plain, err := evaluation.Over(own, others)
		if err != nil {
			return err
		}
		f.Best, f.Utility = tuned.Rule, evaluation.Bootstrap(of[tuned.Rule].Runs).Mean
		if !(f.Utility > 0) {
			return fmt.Errorf("the best tuned rule, %s, earns %v: there are no shares of it", f.Best, f.Utility)
		}
		f.Rows = append(f.Rows, Row{
			Entry: e.Entry, Plays: plays[i], Utility: evaluation.Bootstrap(own.Runs),
			Difference: share(tuned.Margin, f.Utility), Verdict: tuned.Word(), Plain: share(plain.Margin, f.Utility),
		})
	}
	return nil
}

func share(i evaluation.Interval, of float64) evaluation.Interval {
	return evaluation.Interval{Mean: i.Mean / of, Lo: i.Lo / of, Hi: i.Hi / of}
}
