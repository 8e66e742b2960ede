package evaluation

// Versus is how a policy did beside another one on the same workload and seeds.
type Versus struct {
	Policy string `json:"policy"`
	// Utility is the policy's less the other's, paired by seed.
	Utility Interval `json:"utility"`
}

// compare fills in, for each policy that is no rule, the difference to the rule
// that did best on the workload. That rule is chosen by the same runs, which
// favours it.
func compare(results []Result) {
	best := map[string]*Result{} // by workload
	for i := range results {
		r := &results[i]
		if b := best[r.Workload]; r.Rule && (b == nil || r.Utility.Mean > b.Utility.Mean) {
			best[r.Workload] = r
		}
	}
	for i := range results {
		r := &results[i]
		rule := best[r.Workload]
		if r.Rule || rule == nil {
			continue
		}
		// All rows of a plan have its seeds.
		if difference, err := Paired(r.Runs, rule.Runs); err == nil {
			r.BestRule = &Versus{Policy: rule.Policy, Utility: difference}
		}
	}
}
