package besteffort

import (
	"encoding/csv"
	"errors"
	"io"
	"strconv"

	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/router/policy"
)

// surface is a policy's choices over a full grid of loads, for the notebook;
// notebooks/README.md describes the file.
type surface struct {
	scenario *scenario.Scenario
	rates    []float64
	inFlight []int // on each variant, over all of its replicas
}

func newSurface(s *scenario.Scenario) surface {
	return surface{scenario: s, rates: []float64{0.5, 1, 2, 4, 8, 16, 24, 32, 40, 48}, inFlight: []int{0, 1, 2, 4, 8, 16, 32, 64, 96, 128}}
}

// encode writes the grids of the policies, one after another.
func (g surface) encode(w io.Writer, list []evaluation.Contestant) error {
	out := csv.NewWriter(w)
	if err := out.Write(g.header()); err != nil {
		return err
	}
	for _, c := range list {
		if err := g.grid(out, c.Name, c.Decider); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func (g surface) header() []string {
	header := []string{"policy", "task", "rate"}
	for _, v := range g.scenario.Variants {
		header = append(header, "in_flight_"+v.Name)
	}
	header = append(header, "choice")
	for _, v := range g.scenario.Variants {
		header = append(header, "q_"+v.Name)
	}
	return header
}

// grid writes the rows of one policy.
func (g surface) grid(out *csv.Writer, name string, d evaluation.Decider) error {
	forecaster := g.scenario.Forecaster()
	scratch := make([]float32, d.Scratch())
	counts := make([]int, len(g.scenario.Variants))
	var err error
	for task := range g.scenario.Tasks {
		for _, rate := range g.rates {
			g.each(counts, 0, func() {
				v := g.view(rate, counts)
				prompt, _ := g.scenario.Workload.Of(g.scenario.Tasks[task].Name)
				r := &fleet.Request{Task: task, PromptTokens: int(prompt.Expected())}
				forecaster.Forecast(v, r)
				err = errors.Join(err, out.Write(g.row(name, d, v, r, rate, counts, scratch)))
			})
		}
	}
	return err
}

// each calls f for every combination of counts from the i-th on.
func (g surface) each(counts []int, i int, f func()) {
	if i == len(counts) {
		f()
		return
	}
	for _, n := range g.inFlight {
		counts[i] = n
		g.each(counts, i+1, f)
	}
}

// view returns a fleet at a steady rate with so many requests on each variant, spread
// evenly over its replicas, each half through its answer.
func (g surface) view(rate float64, counts []int) *fleet.View {
	t := g.scenario.Table()
	v := &fleet.View{Table: t, Rate: rate}
	for i := range v.Smoothed {
		v.Smoothed[i] = rate
	}
	context := g.scenario.Lengths().Context
	seen := make([]int, len(counts))
	for _, r := range t.Replicas {
		replicas := len(t.ReplicasOf(r.Variant))
		n := (counts[r.Variant] + replicas - 1 - seen[r.Variant]) / replicas
		seen[r.Variant]++
		v.InFlight = append(v.InFlight, int32(n))
		v.Held = append(v.Held, int32(float64(n)*context))
		v.Down = append(v.Down, false)
	}
	return v
}

func (g surface) row(name string, d evaluation.Decider, v *fleet.View, r *fleet.Request, rate float64, counts []int, scratch []float32) []string {
	row := []string{name, g.scenario.Tasks[r.Task].Name, strconv.FormatFloat(rate, 'g', -1, 64)}
	for _, n := range counts {
		row = append(row, strconv.Itoa(n))
	}
	choice := ""
	if i := d.Decide(v, r, scratch); i >= 0 {
		choice = g.scenario.Variants[i].Name
	}
	row = append(row, choice)
	learned, ok := d.(*policy.Learned)
	for i := range g.scenario.Variants {
		value := ""
		if ok {
			value = strconv.FormatFloat(float64(learned.Values(v, r, scratch)[i]), 'g', -1, 32)
		}
		row = append(row, value)
	}
	return row
}
