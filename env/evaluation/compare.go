package evaluation

// Versus compares how a policy did with another one on the same workload and seeds.
type Versus struct {
	Policy string `json:"policy"`
	// Utility is the policy's less the other's, paired by seed.
	Utility Interval `json:"utility"`
}

// compare fills in, for each policy that is no rule, the difference to the rule
// that did best on the workload. That rule is chosen by the same runs, which
// favours it.
func compare(results []Result) {
	rules := map[string][]Score{} // by workload
	for i := range results {
		if r := &results[i]; r.Rule {
			rules[r.Workload] = append(rules[r.Workload], Score{Policy: r.Policy, Runs: r.Runs})
		}
	}
	for i := range results {
		r := &results[i]
		if r.Rule {
			continue
		}
		if v, err := Over(Score{Policy: r.Policy, Runs: r.Runs}, rules[r.Workload]); err == nil {
			r.BestRule = &Versus{Policy: v.Rule, Utility: v.Margin}
		}
	}
}
