package league

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gearshift/env/evaluation"
	"gearshift/internal/output"
)

// Report holds the results of a league.
type Report struct {
	Settings  Settings      `json:"settings"`
	Summaries []Summary     `json:"summaries"`
	Fleets    []FleetResult `json:"fleets"`
}

// Summary holds the results of an entry over all fleets on which it played. Differences are to the best tuned
// rule of each fleet, as shares of that rule's utility.
type Summary struct {
	Entry
	Fleets int `json:"fleets"`
	// Wins, Ties and Losses count fleets by the paired interval over the evaluation seeds: above zero,
	// around it, below it.
	Wins   int `json:"wins"`
	Ties   int `json:"ties"`
	Losses int `json:"losses"`
	// Mean is over fleets, and so is its interval.
	Mean evaluation.Interval `json:"mean"`
	// Spread has the least difference, the quartiles, and the greatest.
	Spread [5]float64 `json:"spread"`
	Worst  uint64     `json:"worst_fleet"` // seed
	// OverPlain counts the fleets on which the entry earns more than every other rule without parameters.
	OverPlain int `json:"over_plain"`
}

// bestFixed is the entry of the best size of each fleet.
var bestFixed = Entry{Fixed, "the best size"}

// Sum makes the summaries from the results of the fleets, the best mean first within each kind.
func (r *Report) Sum() {
	r.Summaries = nil
	values := map[Entry][]float64{}
	for i := range r.Fleets {
		f := &r.Fleets[i]
		var fixed *Row
		for j := range f.Rows {
			row := &f.Rows[j]
			if row.Kind != Fixed {
				r.add(f.Seed, row, row.Entry, values)
			} else if fixed == nil || row.Utility.Mean > fixed.Utility.Mean {
				fixed = row
			}
		}
		if fixed != nil {
			r.add(f.Seed, fixed, bestFixed, values)
		}
	}
	for i := range r.Summaries {
		s := &r.Summaries[i]
		s.Mean, s.Spread = evaluation.Bootstrap(values[s.Entry]), evaluation.Spread(values[s.Entry])
	}
	kinds := []string{Trained, Policy, Chosen, Tuned, Plain, Carried, Fixed}
	slices.SortStableFunc(r.Summaries, func(a, b Summary) int {
		if of := slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind); of != 0 || a.Kind == Policy {
			return of
		}
		if a.Mean.Mean > b.Mean.Mean {
			return -1
		}
		return 1
	})
}

// add counts a row under an entry, whose differences so far are in values.
func (r *Report) add(seed uint64, row *Row, e Entry, values map[Entry][]float64) {
	i := slices.IndexFunc(r.Summaries, func(s Summary) bool { return s.Entry == e })
	if i < 0 {
		i = len(r.Summaries)
		r.Summaries = append(r.Summaries, Summary{Entry: e})
	}
	s := &r.Summaries[i]
	s.Fleets++
	switch row.Verdict {
	case evaluation.Better:
		s.Wins++
	case evaluation.Worse:
		s.Losses++
	default:
		s.Ties++
	}
	if row.Plain.Mean > 0 {
		s.OverPlain++
	}
	if so := values[e]; len(so) == 0 || row.Difference.Mean < slices.Min(so) {
		s.Worst = seed
	}
	values[e] = append(values[e], row.Difference.Mean)
}

// WriteTable prints the summaries and a row for each fleet.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	s := &r.Settings
	fmt.Fprintf(&b, "%d drawn fleets, %s, %d evaluation seeds of %d requests. Simulated under the drawn profiles.\n",
		len(r.Fleets), evaluation.Together(s.Workloads), s.Runs, s.Requests)
	fmt.Fprintf(&b, "Tuned: %d points of each family of rules on %d training seeds of %d requests.\n", s.Tuning.Trials, s.Tuning.Seeds, s.Tuning.Requests)
	b.WriteString("Differences to the best tuned rule of each fleet, in percent of its utility; W/T/L: fleets won, tied and lost.\n\n")
	rows := [][]string{{"POLICY", "W/T/L", "MEAN (95 %)", "MIN", "25 %", "50 %", "75 %", "MAX", "WORST"}}
	for _, x := range r.Summaries {
		row := []string{x.String(), fmt.Sprintf("%d/%d/%d", x.Wins, x.Ties, x.Losses), percents(x.Mean)}
		for _, v := range x.Spread {
			row = append(row, percent(v))
		}
		rows = append(rows, append(row, fmt.Sprint(x.Worst)))
	}
	output.Fitted(&b, rows, 0)
	for _, x := range r.Summaries {
		if x.Kind == Policy || x.Kind == Trained {
			fmt.Fprintf(&b, "%s earns more than every other rule without parameters on %d of %d fleets.\n", x.String(), x.OverPlain, x.Fleets)
		}
	}
	b.WriteByte('\n')
	r.writeFleets(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeFleets prints a row for each fleet: its best tuned rule, and the differences of the entries asked
// for, or of the best of the other kinds.
func (r *Report) writeFleets(b *strings.Builder) {
	header := []string{"FLEET", "SIZES/HOSTS/TASKS", "BEST TUNED RULE", "UTILITY"}
	kinds := []string{Chosen, Plain, Carried, Fixed}
	names := []string{"CHOSEN", "PLAIN", "CARRIED", "FIXED"}
	if r.Settings.Train != nil {
		kinds, names = append([]string{Trained}, kinds...), append([]string{"TRAINED"}, names...)
	}
	rows := [][]string{append(append(header, r.Settings.Policies...), names...)}
	for i := range r.Fleets {
		f := &r.Fleets[i]
		row := []string{fmt.Sprint(f.Seed), fmt.Sprintf("%d/%d/%d", f.Sizes, f.Hosts, f.Tasks), f.Best, fmt.Sprintf("%.4f", f.Utility)}
		for _, name := range r.Settings.Policies {
			row = append(row, f.best(func(e Entry) bool { return e == Entry{Policy, name} }))
		}
		for _, kind := range kinds {
			row = append(row, f.best(func(e Entry) bool { return e.Kind == kind }))
		}
		rows = append(rows, row)
	}
	output.Fitted(b, rows, 2)
}

// best returns the difference of the best of the entries, in percent.
func (f *FleetResult) best(of func(Entry) bool) string {
	text, most := "", 0.0
	for i := range f.Rows {
		if row := &f.Rows[i]; of(row.Entry) && (text == "" || row.Difference.Mean > most) {
			text, most = percent(row.Difference.Mean), row.Difference.Mean
		}
	}
	return text
}

// percent writes a share with three or four digits.
func percent(share float64) string {
	if x := 100 * share; math.Abs(x) < 9.995 {
		return fmt.Sprintf("%+.2f", x)
	}
	return fmt.Sprintf("%+.1f", 100*share)
}

func percents(i evaluation.Interval) string {
	return fmt.Sprintf("%s (%s, %s)", percent(i.Mean), percent(i.Lo), percent(i.Hi))
}
