package evaluation

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// TuningReport is a search, as eval prints and stores it.
type TuningReport struct {
	On        string   `json:"on"` // which seeds
	Seeds     int      `json:"seeds"`
	Workloads []string `json:"workloads"` // that the score is the mean over
	// Objective is what the score is the value of; nothing of mean utility.
	Objective Objective `json:"objective,omitzero"`
	Best      []Best    `json:"best"` // of each family, in the order of the search
	// Trials is all that the search played.
	Trials []Trial `json:"trials,omitempty"`
}

// Best is the best trial of a family.
type Best struct {
	Trial
	Trials int `json:"trials"` // that it was chosen of
}

// Report sums up the trials of the tuning. On names the seeds' domain.
func (t *Tuning) Report(trials []Trial, on string) *TuningReport {
	r := &TuningReport{On: on, Seeds: len(t.Seeds), Workloads: Headlines(t.Workloads), Objective: t.Objective, Trials: trials}
	for _, trial := range trials {
		i := slices.IndexFunc(r.Best, func(b Best) bool { return b.Family == trial.Family })
		if i < 0 {
			i = len(r.Best)
			r.Best = append(r.Best, Best{Trial: trial})
		}
		b := &r.Best[i]
		b.Trials++
		if trial.Score > b.Score {
			b.Trial = trial
		}
	}
	return r
}

// Brief returns the report without the single trials.
func (r *TuningReport) Brief() *TuningReport {
	brief := *r
	brief.Trials = nil
	return &brief
}

// Write renders the report in one of [Formats]: the table is of the best of each
// family, JSON and CSV hold all trials.
func (r *TuningReport) Write(w io.Writer, format string) error {
	return Render(w, format, r, r.writeTable, r.writeCSV)
}

// Title returns the line above a table of the search.
func (r *TuningReport) Title() string {
	by := ""
	if !r.Objective.IsZero() {
		by = "for " + r.Objective.String() + " "
	}
	return fmt.Sprintf("Tuned %son %d %s of %s:\n", by, r.Seeds, r.On, strings.Join(r.Workloads, ", "))
}

func (r *TuningReport) writeTable(w io.Writer) error {
	io.WriteString(w, r.Title())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "FAMILY\tBEST\tSCORE\t%s\tTRIALS\n", strings.ToUpper(strings.Join(r.Workloads, "\t")))
	for _, b := range r.Best {
		fmt.Fprintf(t, "%s\t%s\t%.4f", b.Family, b.Policy, b.Score)
		for _, name := range r.Workloads {
			fmt.Fprintf(t, "\t%.4f", b.Utility[name])
		}
		fmt.Fprintf(t, "\t%d\n", b.Trials)
	}
	return t.Flush()
}

func (r *TuningReport) writeCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	header := []string{"family", "trial", "stage", "policy", "score"}
	for _, name := range r.Workloads {
		header = append(header, "utility_"+name)
	}
	if err := c.Write(header); err != nil {
		return err
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	played := map[string]int{}
	for _, x := range r.Trials {
		played[x.Family]++
		row := []string{x.Family, strconv.Itoa(played[x.Family]), x.Stage, x.Policy, number(x.Score)}
		for _, name := range r.Workloads {
			row = append(row, number(x.Utility[name]))
		}
		if err := c.Write(row); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// BestFirst orders rules by their scores.
func BestFirst(list []Best) []Best {
	ordered := slices.Clone(list)
	slices.SortStableFunc(ordered, func(a, b Best) int { return cmp.Compare(b.Score, a.Score) })
	return ordered
}
