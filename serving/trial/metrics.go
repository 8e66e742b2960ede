package trial

import "github.com/prometheus/client_golang/prometheus"

var (
	infoDesc     = prometheus.NewDesc("gearshift_trial_info", "The policy on trial; always 1.", []string{"policy", "state"}, nil)
	shareDesc    = prometheus.NewDesc("gearshift_trial_share", "Share of the requests that the policy on trial routes.", nil, nil)
	choicesDesc  = prometheus.NewDesc("gearshift_trial_choices_total", "Requests by what the policy in charge and the one on trial chose.", []string{"task", "in_charge", "trial"}, nil)
	faultsDesc   = prometheus.NewDesc("gearshift_trial_faults_total", "Requests to which the policy on trial had no answer that could be followed.", []string{"reason"}, nil)
	expectedDesc = prometheus.NewDesc("gearshift_trial_expected_utility", "Mean utility of both choices by forecast, over the same requests.", []string{"side"}, nil)
	requestsDesc = prometheus.NewDesc("gearshift_trial_requests_total", "Judged requests of each side since the trial began.", []string{"side"}, nil)
	utilityDesc  = prometheus.NewDesc("gearshift_trial_utility", "Mean utility that the judged requests of each side have earned.", []string{"side"}, nil)
)

// Describe implements [prometheus.Collector].
func (t *Trials) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{infoDesc, shareDesc, choicesDesc, faultsDesc, expectedDesc, requestsDesc, utilityDesc} {
		out <- d
	}
}

// Collect implements [prometheus.Collector]. Without a trial there are no metrics.
func (t *Trials) Collect(out chan<- prometheus.Metric) {
	r := t.Policies().Trial
	if r == nil {
		return
	}
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	send(infoDesc, prometheus.GaugeValue, 1, r.Policy, r.State)
	send(shareDesc, prometheus.GaugeValue, r.Share)
	now, _ := t.policies.Trial() // with the zeros, which the report leaves out
	for task, rows := range now.Choices {
		for charge, row := range rows {
			for theirs, n := range row {
				send(choicesDesc, prometheus.CounterValue, float64(n),
					t.table.Tasks[task].Name, t.table.Variants[charge].Name, t.table.Variants[theirs].Name)
			}
		}
	}
	for reason, n := range now.Faults {
		send(faultsDesc, prometheus.CounterValue, float64(n), reason)
	}
	if r.Expected != nil {
		send(expectedDesc, prometheus.GaugeValue, r.Expected.InCharge, "in_charge")
		send(expectedDesc, prometheus.GaugeValue, r.Expected.Trial, "trial")
	}
	for side, m := range map[string]Side{"in_charge": r.Measured.InCharge, "trial": r.Measured.Trial} {
		send(requestsDesc, prometheus.CounterValue, float64(m.Requests), side)
		send(utilityDesc, prometheus.GaugeValue, m.Utility, side)
	}
}
