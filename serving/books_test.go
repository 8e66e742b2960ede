package serving_test

import "testing"

// The event with which a series begins is invisible to rate(), and a sum with a series
// that is not there yet is absent itself.
func TestCountersBeginAtZero(t *testing.T) {
	g, _ := newEngines(t)
	for _, series := range []string{
		`gearshift_requests_total{outcome="timed out",task="copy",variant="large"}`,
		`gearshift_deadlines_total{result="met",task="chat",variant="small"}`,
		`gearshift_deadlines_total{result="missed",task="copy",variant="large"}`,
		`gearshift_utility_total{task="chat",variant="large"}`,
		`gearshift_rejections_total{reason="no_replica",task="chat"}`,
		`gearshift_refusals_total{status="401"}`,
		`gearshift_fallbacks_total{reason="policy panicked"}`,
		`gearshift_retries_total{reason="busy",to="variant"}`,
		`gearshift_hedges_total{result="won"}`,
		`gearshift_timeouts_total{phase="first_token"}`,
		`gearshift_first_token_deadlines_total{result="met",variant="small"}`,
		`gearshift_ejections_total{reason="connect",replica="large@a",variant="large"}`,
		`gearshift_ejections_spared_total{reason="failures",replica="large@a",variant="large"}`,
		`gearshift_probes_total{finding="timeout",replica="large@a",variant="large"}`,
	} {
		if got := g.metric(t, series); got != "0" {
			t.Errorf("%s is %s at the start", series, got)
		}
	}
}
