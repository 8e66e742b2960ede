package logged

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"gearshift/env/evaluation"
	"gearshift/router/fleet"
)

// Report is a whole evaluation on a log, as eval prints and stores it.
type Report struct {
	Scenario string   `json:"scenario"`
	Log      Summary  `json:"log"`
	Results  []Result `json:"results"`
	// Assumptions are what the estimates rest on, Notes what else to know.
	Assumptions []string `json:"assumptions"`
	Notes       []string `json:"notes,omitempty"`
	// Variants orders the columns of tables; the JSON names them in each row.
	Variants []fleet.Variant `json:"-"`
}

// Summary is what a log holds and what was measured.
type Summary struct {
	Files    []string `json:"files"`
	SHA256   string   `json:"sha256"`
	Runs     int      `json:"runs"`
	Requests int      `json:"requests"`
	// Missing requests lie between those logged.
	Missing int `json:"missing"`
	Judged  int `json:"judged"` // whose deadline was met or missed
	Pinned  int `json:"pinned"` // whose variant the client asked for
	Moved   int `json:"moved"`  // that another replica answered than was chosen
	// Policies counts requests by who chose the variant.
	Policies    map[string]int      `json:"policies"`
	Utility     evaluation.Interval `json:"utility"` // of those judged
	DeadlineMet evaluation.Interval `json:"deadline_met"`
	Share       map[string]float64  `json:"share"` // of those judged, by variant
	// Simulated is the same requests and choices in the simulator: what is between
	// it and Utility is the simulator's fault. Nil if the log cannot be replayed.
	Simulated *Replay `json:"simulated,omitempty"`
}

// Result is how one policy did.
type Result struct {
	Policy string `json:"policy"`
	Scores
	// Replay is nil if the log cannot be replayed.
	Replay *Replay `json:"replay,omitempty"`
}

// Summarise measures the log, except its files and the simulation.
func Summarise(l *Log, variants []fleet.Variant) Summary {
	s := Summary{Runs: len(l.Runs), Policies: map[string]int{}, Share: map[string]float64{}}
	s.Judged = l.count(judged)
	utility, met := newBlocks(s.Judged), newBlocks(s.Judged)
	for i := range l.Runs {
		s.Requests += len(l.Runs[i].Decisions)
		s.Missing += l.Runs[i].Missing
	}
	l.each(func(run int, d *Decision) {
		s.Policies[d.Policy]++
		if d.Pinned {
			s.Pinned++
		}
		if d.Moved {
			s.Moved++
		}
		if !d.Judged {
			return
		}
		utility.next(run)
		met.next(run)
		utility.add(d.Utility, 1)
		met.add(share(d.Met), 1)
		s.Share[variants[d.Variant].Name] += 1 / float64(s.Judged)
	})
	s.Utility, _ = utility.interval()
	s.DeadlineMet, _ = met.interval()
	return s
}

// Write renders the report in one of [evaluation.Formats].
func (r *Report) Write(w io.Writer, format string) error {
	return evaluation.Render(w, format, r, r.writeTable, r.writeCSV)
}

func (r *Report) writeTable(w io.Writer) error {
	x := &r.Log
	fmt.Fprintf(w, "log: %d requests of %s, %d judged, %d pinned by clients, %d moved, %d missing in between; decided by %s\n\n",
		x.Requests, runs(x.Runs), x.Judged, x.Pinned, x.Moved, x.Missing, strings.Join(ranked(x.Policies), ", "))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\tUTILITY (95 %%)\tOVER THE LOGGED CHOICES (95 %%, paired)\tDEADLINES\t%s\t\tAGREES\tMATCHED\tFORECAST\tDOUBLY ROBUST\n", strings.Join(names(r.Variants), "/"))
	fmt.Fprintf(t, "measured\t%s\t\t%s\t%s\t\t\t\t\t\n", wide(x.Utility), percent(x.DeadlineMet.Mean), r.mix(x.Share))
	if s := x.Simulated; s != nil {
		fmt.Fprintf(t, "logged choices, simulated\t%s\t\t%s\t%s\t\t\t\t\t\n", wide(s.Utility), percent(s.DeadlineMet.Mean), r.mix(s.Share))
	}
	for _, p := range r.Results {
		utility, over, met, mix := "–", "–", "–", "–"
		if s := p.Replay; s != nil {
			utility, met, mix = wide(s.Utility), percent(s.DeadlineMet.Mean), r.mix(s.Share)
			over = fmt.Sprintf("%+.4f (%+.4f to %+.4f)", s.OverLogged.Mean, s.OverLogged.Lo, s.OverLogged.Hi)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t\t%s\t%s\t%s\t%s\n", p.Policy, utility, over, met, mix,
			percent(p.Agreement), orNone(p.Matched), orNone(p.Forecast), orNone(p.DoublyRobust))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if s := x.Simulated; s != nil && len(s.PaceRatio) > 0 {
		fmt.Fprintf(w, "\ntime per token, measured as a multiple of simulated (median): %s\n", r.paces(s.PaceRatio))
	}
	fmt.Fprintln(w, "\nThe left columns are a replay in the simulator, the right ones estimates row by row. They assume:")
	for _, a := range r.Assumptions {
		fmt.Fprintln(w, "- "+a)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(w, "note: "+n)
	}
	return nil
}

func runs(n int) string {
	if n == 1 {
		return "1 run"
	}
	return fmt.Sprintf("%d runs", n)
}

func wide(x evaluation.Interval) string {
	return fmt.Sprintf("%.3f (%.3f–%.3f)", x.Mean, x.Lo, x.Hi)
}

func orNone(x *evaluation.Interval) string {
	if x == nil {
		return "–"
	}
	return wide(*x)
}

func percent(x float64) string { return fmt.Sprintf("%.1f%%", 100*x) }

func names(variants []fleet.Variant) (list []string) {
	for _, v := range variants {
		list = append(list, v.Name)
	}
	return list
}

func (r *Report) mix(share map[string]float64) string {
	var list []string
	for _, name := range names(r.Variants) {
		list = append(list, fmt.Sprintf("%.0f%%", 100*share[name]))
	}
	return strings.Join(list, "/")
}

// paces lists the ratios of the variants that have one.
func (r *Report) paces(ratios map[string]float64) string {
	var list []string
	for _, name := range names(r.Variants) {
		if ratio, ok := ratios[name]; ok {
			list = append(list, fmt.Sprintf("%s ×%.2f", name, ratio))
		}
	}
	return strings.Join(list, ", ")
}

// ranked lists who decided, those of most requests first.
func ranked(count map[string]int) []string {
	list := Ranked(count)
	for i, name := range list {
		list[i] = fmt.Sprintf("%s (%d)", name, count[name])
	}
	return list
}

// Ranked returns the keys, those with the highest counts first.
func Ranked(count map[string]int) []string {
	var list []string
	for name := range count {
		list = append(list, name)
	}
	slices.SortFunc(list, func(a, b string) int {
		if count[a] != count[b] {
			return count[b] - count[a]
		}
		return strings.Compare(a, b)
	})
	return list
}

// writeCSV writes a row for what was measured, one for the logged choices
// simulated, and one for each policy. What is not known is empty.
func (r *Report) writeCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	var header []string
	interval := func(name string) { header = append(header, name, name+"_lo", name+"_hi") }
	header = append(header, "scenario", "policy", "kind")
	interval("utility")
	interval("deadline_met")
	interval("over_logged_choices")
	for _, v := range r.Variants {
		header = append(header, "share_"+v.Name)
	}
	header = append(header, "agreement", "matches", "effective_matches")
	interval("matched")
	interval("forecast")
	interval("doubly_robust")
	rows := [][]string{header, r.csvRow("", "measured", &Replay{Utility: r.Log.Utility, DeadlineMet: r.Log.DeadlineMet, Share: r.Log.Share}, nil)}
	if s := r.Log.Simulated; s != nil {
		rows = append(rows, r.csvRow("", "logged choices", s, nil))
	}
	for i := range r.Results {
		p := &r.Results[i]
		rows = append(rows, r.csvRow(p.Policy, "policy", p.Replay, &p.Scores))
	}
	return c.WriteAll(rows)
}

func (r *Report) csvRow(policy, kind string, s *Replay, x *Scores) []string {
	row := []string{r.Scenario, policy, kind}
	number := func(v float64) { row = append(row, strconv.FormatFloat(v, 'g', -1, 64)) }
	interval := func(v *evaluation.Interval) {
		if v == nil {
			row = append(row, "", "", "")
			return
		}
		number(v.Mean)
		number(v.Lo)
		number(v.Hi)
	}
	if s == nil {
		row = append(row, make([]string, 9+len(r.Variants))...)
	} else {
		interval(&s.Utility)
		interval(&s.DeadlineMet)
		if kind == "policy" {
			interval(&s.OverLogged)
		} else {
			interval(nil)
		}
		for _, v := range r.Variants {
			number(s.Share[v.Name])
		}
	}
	if x == nil {
		return append(row, make([]string, 12)...)
	}
	number(x.Agreement)
	row = append(row, strconv.Itoa(x.Matches))
	number(x.EffectiveMatches)
	interval(x.Matched)
	interval(x.Forecast)
	interval(x.DoublyRobust)
	return row
}
