package evaluation

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gearshift/router/fleet"
)

// Report is a whole evaluation, as eval prints and stores it.
type Report struct {
	Scenario string `json:"scenario"`
	Seeds    int    `json:"seeds"`
	// Quality says what predicted the quality of answers; empty where nothing did.
	Quality string   `json:"quality,omitempty"`
	Results []Result `json:"results"`
	// Opponents are the rules that the policies were compared with in addition to those
	// among the results, and Verdicts the outcome over all workloads.
	Opponents []Result  `json:"opponents,omitempty"`
	Verdicts  []Verdict `json:"verdicts,omitempty"`
	// Routers is how many shared the fleet, and GaugeIntervalS how often each read
	// the engines' gauges, in seconds; both are zero of a single router.
	Routers        int     `json:"routers,omitempty"`
	GaugeIntervalS float64 `json:"gauge_interval_s,omitempty"`
	// ShareIntervalS sets the seconds between two requests of a router for the others' shares, and ShareDelayS the
	// age of the answers; 0 disables shares.
	ShareIntervalS float64 `json:"share_interval_s,omitempty"`
	ShareDelayS    float64 `json:"share_delay_s,omitempty"`
	// Tuning is the search that found the parameters of rules; nil if there was none.
	Tuning *TuningReport `json:"tuning,omitempty"`
	// Headlines are the names of whole workloads, which the short form shows.
	Headlines []string `json:"-"`
	// Variants orders the columns of tables; the JSON names them in each row.
	Variants []fleet.Variant `json:"-"`
}

// Formats that [Report.Write] knows.
var Formats = []string{"table", "json", "csv"}

// Write renders the report in one of [Formats].
func (r *Report) Write(w io.Writer, format string) error {
	return Render(w, format, r, r.writeTable, r.writeCSV)
}

// Render writes what is reported in one of [Formats].
func Render(w io.Writer, format string, reported any, table, csv func(io.Writer) error) error {
	switch format {
	case "table":
		return table(w)
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(reported)
	case "csv":
		return csv(w)
	}
	return fmt.Errorf("unknown format %q: want one of %s", format, strings.Join(Formats, ", "))
}

func (r *Report) writeTable(w io.Writer) error {
	if r.Tuning != nil {
		if err := r.Tuning.writeTable(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	t := newTable(r, w)
	t.header()
	for _, x := range r.ByWorkload() {
		t.row(x)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, v := range r.Verdicts {
		fmt.Fprintf(w, "%s on %s: %s\n", v.Policy, Together(v.Workloads), v)
	}
	return nil
}

// Objectives returns those that the rows have values of.
func (r *Report) Objectives() []Objective {
	var all []Objective
	for _, x := range r.Results {
		for _, v := range x.Objectives {
			all = append(all, v.Objective)
		}
	}
	return Beside(all...)
}

// AsServed reports whether requests may have had to wait.
func (r *Report) AsServed() bool {
	return slices.ContainsFunc(r.Results, func(x Result) bool { return x.Served != nil })
}

// ByWorkload returns all rows, the opponents' too, grouped so that policies on the same workload
// stand together, in order of first appearance.
func (r *Report) ByWorkload() []Result {
	rows := slices.Concat(r.Results, r.Opponents)
	rank := map[string]int{}
	for _, x := range rows {
		if _, ok := rank[x.Workload]; !ok {
			rank[x.Workload] = len(rank)
		}
	}
	slices.SortStableFunc(rows, func(a, b Result) int { return rank[a.Workload] - rank[b.Workload] })
	return rows
}

func (r *Report) writeCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	header := []string{"scenario", "seeds", "policy", "workload", "requests",
		"utility_mean", "utility_lo", "utility_hi", "deadline_met_mean", "deadline_met_lo", "deadline_met_hi"}
	for _, level := range WindowLevels {
		header = append(header, "windows_"+LevelName(level))
	}
	for _, v := range r.Variants {
		header = append(header, "share_"+v.Name)
	}
	header = append(header, "ttft_ms_p50", "ttft_ms_p99", "tpot_ms_p50", "tpot_ms_p99", "sim_requests_per_s")
	for _, kind := range r.deadlineKinds() {
		for _, of := range []string{"mean", "lo", "hi"} {
			header = append(header, kind+"_met_"+of)
		}
	}
	for _, o := range r.Objectives() {
		for _, of := range []string{"mean", "lo", "hi"} {
			header = append(header, o.String()+"_"+of)
		}
	}
	if r.AsServed() {
		header = append(header, "refused", "degraded", "waited", "wait_ms_p50", "wait_ms_p99")
	}
	if err := c.Write(header); err != nil {
		return err
	}
	for _, x := range r.Results {
		if err := c.Write(r.csvRow(x)); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

func (r *Report) csvRow(x Result) []string {
	row := []string{r.Scenario, strconv.Itoa(r.Seeds), x.Policy, x.Workload, strconv.Itoa(x.Requests)}
	number := func(values ...float64) {
		for _, v := range values {
			row = append(row, strconv.FormatFloat(v, 'g', -1, 64))
		}
	}
	number(x.Utility.Mean, x.Utility.Lo, x.Utility.Hi, x.DeadlineMet.Mean, x.DeadlineMet.Lo, x.DeadlineMet.Hi)
	for _, level := range WindowLevels {
		number(x.Windows[LevelName(level)])
	}
	for _, v := range r.Variants {
		number(x.Share[v.Name])
	}
	number(x.TTFT.P50, x.TTFT.P99, x.TPOT.P50, x.TPOT.P99, x.SimRequestsPerS)
	for _, kind := range r.deadlineKinds() {
		var met Interval
		if x.Deadlines != nil {
			met = x.Deadlines.Met[kind]
		}
		number(met.Mean, met.Lo, met.Hi)
	}
	for _, o := range r.Objectives() {
		value := x.By(o).Value
		number(value.Mean, value.Lo, value.Hi)
	}
	if s := x.Served; s != nil {
		number(s.RefusedShare(), s.Degraded, s.Waited, s.Wait.P50, s.Wait.P99)
	}
	return row
}
