package trial

import (
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/serving/admin/scrape"
)

var (
	infoDesc     = prometheus.NewDesc("gearshift_trial_info", "The policy on trial; always 1.", []string{"policy", "state"}, nil)
	shareDesc    = prometheus.NewDesc("gearshift_trial_share", "Share of the requests that the policy on trial routes.", nil, nil)
	choicesDesc  = prometheus.NewDesc("gearshift_trial_choices_total", "Requests by what the policy in charge and the one on trial chose.", []string{"task", "in_charge", "trial"}, nil)
	faultsDesc   = prometheus.NewDesc("gearshift_trial_faults_total", "Requests to which the policy on trial had no answer that could be followed.", []string{"reason"}, nil)
	expectedDesc = prometheus.NewDesc("gearshift_trial_expected_utility", "Mean utility of both choices by forecast, over the same requests.", []string{"side"}, nil)
	requestsDesc = prometheus.NewDesc("gearshift_trial_requests_total", "Judged requests of each side since the trial began.", []string{"side"}, nil)
	utilityDesc  = prometheus.NewDesc("gearshift_trial_utility", "Mean utility that the judged requests of each side have earned.", []string{"side"}, nil)
)

// Metrics shows the trial. Without one there are no metrics.
func (t *Trials) Metrics() prometheus.Collector {
	return scrape.New(t.collect, infoDesc, shareDesc, choicesDesc, faultsDesc, expectedDesc, requestsDesc, utilityDesc)
}

func (t *Trials) collect(out scrape.Metrics) {
	r := t.Policies().Trial
	if r == nil {
		return
	}
	out.Gauge(infoDesc, 1, r.Policy, r.State)
	out.Gauge(shareDesc, r.Share)
	now, _ := t.options.Policies.Trial() // with the zeros, which the report leaves out
	for task, rows := range now.Choices {
		for charge, row := range rows {
			for theirs, n := range row {
				out.Counter(choicesDesc, float64(n),
					t.options.Table.Tasks[task].Name, t.options.Table.Variants[charge].Name, t.options.Table.Variants[theirs].Name)
			}
		}
	}
	for reason, n := range now.Faults {
		out.Counter(faultsDesc, float64(n), reason)
	}
	if r.Expected != nil {
		out.Gauge(expectedDesc, r.Expected.InCharge, "in_charge")
		out.Gauge(expectedDesc, r.Expected.Trial, "trial")
	}
	for side, m := range map[string]Side{"in_charge": r.Measured.InCharge, "trial": r.Measured.Trial} {
		out.Counter(requestsDesc, float64(m.Requests), side)
		out.Gauge(utilityDesc, m.Utility, side)
	}
}
