package quality

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gearshift/checkpoints"
	"gearshift/internal/quality/labels"
	"gearshift/router/quality"
)

// Check is a stored predictor judged by labelled prompts.
type Check struct {
	Predictor string  `json:"predictor"`
	Report    *Report `json:"report"` // on these prompts
	// Sure is the mean of how sure it is of these prompts, and Strange the share of those of
	// which it is less than half sure.
	Sure    float64 `json:"sure"`
	Strange float64 `json:"strange"`
	// Gain compares the main pair's with the predictor's own report: "level", "below" or
	// "above", by the intervals of both; "unknown" with fewer labelled prompts than a fit takes,
	// whose interval means nothing; empty if there is no such pair in both.
	Gain string  `json:"gain,omitempty"`
	Was  *Pair   `json:"was,omitempty"`
	Mean []Drift `json:"means"`
	// Seen names the files that it was fitted on: they flatter it.
	Seen []string `json:"seen,omitempty"`
	// Scenario lists contradictions between a scenario and the labels, see [Against].
	Scenario []string `json:"scenario,omitempty"`
}

// Drift compares a model's mean score with that in the predictor's report.
type Drift struct {
	Name    string  `json:"name"`
	Mean    float64 `json:"mean"`
	Was     float64 `json:"was"`
	Drifted bool    `json:"drifted"` // by more than chance explains, at 95 %
}

// strange bounds the sureness of a predictor of prompts unlike those that it was fitted on.
const strange = 0.5

// CheckOn judges a stored predictor by labelled prompts.
func CheckOn(f *Fitted, e checkpoints.Entry, set *labels.Set, seed uint64) (*Check, error) {
	columns, places := f.Report.ordered(f.Regression, set.Columns)
	if len(columns) == 0 {
		return nil, fmt.Errorf("cannot check %s: it predicts scores of %s, and the labels have those of %s", e.Ref(), strings.Join(f.Regression.Columns(), ", "), strings.Join(set.Columns, ", "))
	}
	c := &Check{Predictor: e.Ref().String()}
	held := make([][]float64, len(set.Prompts))
	err := predict(f.Regression, set, func(i int, scores []float64, sure float64) error {
		held[i] = pick(scores, places)
		c.Sure += sure / float64(len(held))
		if sure < strange {
			c.Strange += 1 / float64(len(held))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	labelled := make([]int, len(columns))
	for i, name := range columns {
		labelled[i] = slices.Index(set.Columns, name)
	}
	p := &Predicted{Columns: columns, Held: held}
	for i := range set.Prompts {
		p.Tasks = append(p.Tasks, set.Prompts[i].Task)
		p.Scores = append(p.Scores, pick(set.Prompts[i].Scores, labelled))
	}
	c.Report = Judge(p, seed)
	c.compare(f.Report)
	for _, s := range set.Sources {
		if slices.Contains(e.Predictor.Sources, checkpoints.Source(s)) {
			c.Seen = append(c.Seen, s.Name)
		}
	}
	return c, nil
}

// compare fills in how this differs from the report of the predictor.
func (c *Check) compare(was *Report) {
	for _, now := range c.Report.Columns {
		if before := was.Column(now.Name); before != nil {
			c.Mean = append(c.Mean, Drift{now.Name, now.Mean, before.Mean, drifted(&now, before)})
		}
	}
	main := was.Main()
	if main == nil {
		return
	}
	now := c.Report.Pair(main.Small, main.Large)
	if now == nil {
		return
	}
	c.Was = &Pair{Small: main.Small, Large: main.Large, Prompts: main.Prompts, Gain: main.Gain, Oracle: main.Oracle}
	// The width of a difference: those of both, as the sides of a right angle.
	half := math.Hypot(now.Gain.Hi-now.Gain.Lo, main.Gain.Hi-main.Gain.Lo) / 2
	switch difference := now.Gain.Mean - main.Gain.Mean; {
	case now.Prompts < quality.LeastPrompts:
		c.Gain = "unknown"
	case difference < -half:
		c.Gain = "below"
	case difference > half:
		c.Gain = "above"
	default:
		c.Gain = "level"
	}
}

// drifted reports whether two means differ by more than chance explains. A score between 0
// and 1 varies no more than one that is either.
func drifted(a, b *Column) bool {
	if a.Labels == 0 || b.Labels == 0 {
		return false
	}
	na, nb := float64(a.Labels), float64(b.Labels)
	mean := (a.Mean*na + b.Mean*nb) / (na + nb)
	return math.Abs(a.Mean-b.Mean) > 1.96*math.Sqrt(mean*(1-mean)*(1/na+1/nb))
}
