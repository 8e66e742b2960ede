package trial

import (
	"gearshift/router"
)

// Policies is the body of GET /admin/policy: what routes, what is on trial, and
// how they compare.
type Policies struct {
	// InCharge routes what the trial does not. Earlier is what a rollback would put
	// in charge instead; null if there is none, empty if that is the fallback.
	InCharge string `json:"in_charge"`
	// Objective is what the one in charge was trained for; left out if that is mean utility.
	Objective string  `json:"objective,omitempty"`
	Earlier   *string `json:"earlier"`
	Trial     *Report `json:"trial"`
	Last      *Order  `json:"last_order"`
	// Note is what else is to be known after an order.
	Note string `json:"note,omitempty"`
}

// Report is how the policy on trial fares compared with the one in charge.
type Report struct {
	Policy string `json:"policy"`
	// Objective is what it was trained for; left out if that is mean utility.
	Objective string  `json:"objective,omitempty"`
	State     string  `json:"state"` // shadow or canary
	Share     float64 `json:"share"`
	AgeS      float64 `json:"age_s"`
	Agreement
	Tasks    []TaskAgreement    `json:"tasks"`
	Variants []VariantAgreement `json:"variants"`
	Faults   map[string]uint64  `json:"faults"`
	// Expected is by forecast over the same requests, Measured what the requests of
	// each side have earned.
	Expected *Expected `json:"expected"`
	Measured Measured  `json:"measured"`
}

// Agreement counts the requests that both have decided.
type Agreement struct {
	Compared uint64  `json:"compared"`
	Agreed   uint64  `json:"agreed"`
	Rate     float64 `json:"agreement"` // zero if nothing has been compared
}

func (a *Agreement) add(n uint64, same bool) {
	a.Compared += n
	if same {
		a.Agreed += n
	}
	a.Rate = float64(a.Agreed) / max(1, float64(a.Compared))
}

// TaskAgreement is of one task, with what each would have chosen.
type TaskAgreement struct {
	Task string `json:"task"`
	Agreement
	Choices []PairedChoice `json:"choices"`
}

// PairedChoice counts the requests for which this was chosen by each.
type PairedChoice struct {
	InCharge string `json:"in_charge"`
	Trial    string `json:"trial"`
	Requests uint64 `json:"requests"`
}

// VariantAgreement counts how often each chose the variant, and both did.
type VariantAgreement struct {
	Variant  string `json:"variant"`
	InCharge uint64 `json:"in_charge"`
	Trial    uint64 `json:"trial"`
	Both     uint64 `json:"both"`
}

// Expected is the mean utility by forecast, with the difference's 95 % interval.
type Expected struct {
	Requests uint64  `json:"requests"`
	InCharge float64 `json:"in_charge"`
	Trial    float64 `json:"trial"`
	Interval
}

// Policies is how the policies stand.
func (t *Trials) Policies() Policies {
	out := Policies{InCharge: t.options.InCharge()}
	out.Objective = t.options.Objective(out.InCharge)
	if t.options.Policies == nil {
		return out
	}
	if earlier, ok := t.options.Policies.Earlier(); ok {
		out.Earlier = &earlier
	}
	t.record.mu.Lock()
	defer t.record.mu.Unlock()
	now := t.options.Clock()
	if t.record.last != nil {
		last := *t.record.last
		last.AgoS = (now - t.record.ordered).Seconds()
		out.Last = &last
	}
	if running, ok := t.options.Policies.Trial(); ok {
		out.Trial = t.report(running)
		out.Trial.AgeS = (now - t.record.since).Seconds()
		out.Trial.Measured = t.record.measured(z95)
	}
	return out
}

// report is what the router knows of the trial.
func (t *Trials) report(now router.Trial) *Report {
	r := &Report{Policy: now.Policy, Objective: t.options.Objective(now.Policy), State: orderShadow, Share: now.Share, Faults: map[string]uint64{}}
	if now.Share > 0 {
		r.State = orderCanary
	}
	for _, v := range t.options.Table.Variants {
		r.Variants = append(r.Variants, VariantAgreement{Variant: v.Name})
	}
	for task, rows := range now.Choices {
		one := TaskAgreement{Task: t.options.Table.Tasks[task].Name, Choices: []PairedChoice{}}
		for charge, row := range rows {
			for theirs, n := range row {
				if n == 0 {
					continue
				}
				same := charge == theirs
				r.add(n, same)
				one.add(n, same)
				one.Choices = append(one.Choices, PairedChoice{t.options.Table.Variants[charge].Name, t.options.Table.Variants[theirs].Name, n})
				r.Variants[charge].InCharge += n
				r.Variants[theirs].Trial += n
				if same {
					r.Variants[charge].Both += n
				}
			}
		}
		r.Tasks = append(r.Tasks, one)
	}
	for reason, n := range now.Faults {
		if n > 0 {
			r.Faults[reason] = n
		}
	}
	if e := now.Expected; e.Requests > 0 {
		r.Expected = &Expected{e.Requests, e.Charge, e.Trial, intervalOf(e.Difference, e.Error, z95)}
	}
	return r
}
