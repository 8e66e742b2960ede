package serving

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router"
)

// Policies is the body of GET /admin/policy: what routes, what is on trial, and
// how they compare.
type Policies struct {
	// InCharge routes what the trial does not. Earlier is what a rollback would put
	// in its place; null if there is none, empty if that is the fallback.
	InCharge string `json:"in_charge"`
	// Objective is what the one in charge was trained for; left out if that is mean utility.
	Objective string       `json:"objective,omitempty"`
	Earlier   *string      `json:"earlier"`
	Trial     *TrialReport `json:"trial"`
	Last      *PolicyOrder `json:"last_order"`
	// Note tells what else is to be known after an order.
	Note string `json:"note,omitempty"`
}

// TrialReport is how the policy on trial fares beside the one in charge.
type TrialReport struct {
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
func (s *Server) Policies() Policies {
	out := Policies{InCharge: s.router.PolicyName()}
	out.Objective = s.objective(out.InCharge)
	if s.seats == nil {
		return out
	}
	if earlier, ok := s.seats.Earlier(); ok {
		out.Earlier = &earlier
	}
	s.trial.mu.Lock()
	defer s.trial.mu.Unlock()
	now := s.clock()
	if s.trial.last != nil {
		last := *s.trial.last
		last.AgoS = (now - s.trial.ordered).Seconds()
		out.Last = &last
	}
	if trial, ok := s.seats.Trial(); ok {
		out.Trial = s.trialReport(trial)
		out.Trial.AgeS = (now - s.trial.since).Seconds()
		out.Trial.Measured = s.trial.measured(z95)
	}
	return out
}

// trialReport is what the router knows of the trial.
func (s *Server) trialReport(trial router.Trial) *TrialReport {
	r := &TrialReport{Policy: trial.Policy, Objective: s.objective(trial.Policy), State: orderShadow, Share: trial.Share, Faults: map[string]uint64{}}
	if trial.Share > 0 {
		r.State = orderCanary
	}
	for _, v := range s.table.Variants {
		r.Variants = append(r.Variants, VariantAgreement{Variant: v.Name})
	}
	for task, rows := range trial.Choices {
		one := TaskAgreement{Task: s.table.Tasks[task].Name, Choices: []PairedChoice{}}
		for charge, row := range rows {
			for theirs, n := range row {
				if n == 0 {
					continue
				}
				same := charge == theirs
				r.add(n, same)
				one.add(n, same)
				one.Choices = append(one.Choices, PairedChoice{s.table.Variants[charge].Name, s.table.Variants[theirs].Name, n})
				r.Variants[charge].InCharge += n
				r.Variants[theirs].Trial += n
				if same {
					r.Variants[charge].Both += n
				}
			}
		}
		r.Tasks = append(r.Tasks, one)
	}
	for reason, n := range trial.Faults {
		if n > 0 {
			r.Faults[reason] = n
		}
	}
	if e := trial.Expected; e.Requests > 0 {
		r.Expected = &Expected{e.Requests, e.Charge, e.Trial, intervalOf(e.Difference, e.Error, z95)}
	}
	return r
}

func (s *Server) tellPolicies(c *gin.Context) { c.JSON(http.StatusOK, s.Policies()) }

var (
	trialInfoDesc     = prometheus.NewDesc("gearshift_trial_info", "The policy on trial; always 1.", []string{"policy", "state"}, nil)
	trialShareDesc    = prometheus.NewDesc("gearshift_trial_share", "Share of the requests that the policy on trial routes.", nil, nil)
	trialChoicesDesc  = prometheus.NewDesc("gearshift_trial_choices_total", "Requests by what the policy in charge and the one on trial chose.", []string{"task", "in_charge", "trial"}, nil)
	trialFaultsDesc   = prometheus.NewDesc("gearshift_trial_faults_total", "Requests to which the policy on trial had no answer that could be followed.", []string{"reason"}, nil)
	trialExpectedDesc = prometheus.NewDesc("gearshift_trial_expected_utility", "Mean utility of both choices by forecast, over the same requests.", []string{"side"}, nil)
	trialRequestsDesc = prometheus.NewDesc("gearshift_trial_requests_total", "Judged requests of each side since the trial began.", []string{"side"}, nil)
	trialUtilityDesc  = prometheus.NewDesc("gearshift_trial_utility", "Mean utility that the judged requests of each side have earned.", []string{"side"}, nil)
)

// trialCollector tells of the trial when metrics are scraped; without one it has
// nothing to tell.
type trialCollector struct{ *Server }

// Describe implements [prometheus.Collector].
func (t trialCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{trialInfoDesc, trialShareDesc, trialChoicesDesc, trialFaultsDesc, trialExpectedDesc, trialRequestsDesc, trialUtilityDesc} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (t trialCollector) Collect(out chan<- prometheus.Metric) {
	r := t.Policies().Trial
	if r == nil {
		return
	}
	tell := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	tell(trialInfoDesc, prometheus.GaugeValue, 1, r.Policy, r.State)
	tell(trialShareDesc, prometheus.GaugeValue, r.Share)
	trial, _ := t.seats.Trial() // with the zeros, which the report leaves out
	for task, rows := range trial.Choices {
		for charge, row := range rows {
			for theirs, n := range row {
				tell(trialChoicesDesc, prometheus.CounterValue, float64(n),
					t.table.Tasks[task].Name, t.table.Variants[charge].Name, t.table.Variants[theirs].Name)
			}
		}
	}
	for reason, n := range trial.Faults {
		tell(trialFaultsDesc, prometheus.CounterValue, float64(n), reason)
	}
	if r.Expected != nil {
		tell(trialExpectedDesc, prometheus.GaugeValue, r.Expected.InCharge, "in_charge")
		tell(trialExpectedDesc, prometheus.GaugeValue, r.Expected.Trial, "trial")
	}
	for side, m := range map[string]Side{"in_charge": r.Measured.InCharge, "trial": r.Measured.Trial} {
		tell(trialRequestsDesc, prometheus.CounterValue, float64(m.Requests), side)
		tell(trialUtilityDesc, prometheus.GaugeValue, m.Utility, side)
	}
}
