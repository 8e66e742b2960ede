package modality

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// calm is a tree: 3 where the times of batches vary, else none at a low load, and 1 at a high one.
var calm = Cautions{
	{Condition: ConditionSpread, Bound: 0.1, Low: 1, High: 4},
	{Condition: ConditionLoad, Bound: 0.5, Low: 2, High: 3},
	{Caution: Unforeseeing},
	{Caution: 1},
	{Caution: 3},
}

// TestCautionsAreChosen: by the conditions, at each plan.
func TestCautionsAreChosen(t *testing.T) {
	if err := calm.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, a := range map[float64]Arrivals{
		Unforeseeing: {Rate: 0.5, Patience: 10, Spread: 0.1},
		1:            {Rate: 0.6, Patience: 10},
		3:            {Rate: 0.2, Patience: 10, Spread: 0.11},
	} {
		if got := calm.At(a.Conditions()); got != want {
			t.Errorf("%+v: caution %v, want %v", a, got, want)
		}
	}
	if got := (Cautions)(nil).At(Conditions{}); got != Unforeseeing {
		t.Errorf("without a node: %v", got)
	}
	if least, most := calm.Range(); least != Unforeseeing || most != 3 {
		t.Errorf("from %v to %v", least, most)
	}
	if got := calm.String(); !strings.HasPrefix(got, "spread of batch times at most 0.1: (load at most 0.5: none, else 1), else 3") {
		t.Errorf("%s", got)
	}
}

// TestUnforeseeing: a plan without foresight is that of the jobs at hand, whatever is to come; the same
// policy leaves room where its cautions say so.
func TestUnforeseeing(t *testing.T) {
	table := table(t, figure2(), Mixed, 1)
	jobs := []Job{job("1", 1, 0.5, 100)}
	p := NewCautious(table, calm)
	for rate, want := range map[float64]string{0.4: "[1 [0 0 1] 60]", 0.8: "[1 [1 0 0] 20]"} {
		p.Foresee(Arrivals{Rate: rate, Variance: 4000, Largest: 100, Patience: 100})
		if got, _ := does(table, p, 0, jobs); fmt.Sprint(got) != want {
			t.Errorf("rate %v: %v, want %s", rate, got, want)
		}
	}
}

// TestBadCautions: what is no tree is an error that names the node.
func TestBadCautions(t *testing.T) {
	for want, c := range map[string]Cautions{
		"cautions[0]: -2; want -1, or a number":             {{Caution: -2}},
		"cautions[0]: NaN; want":                            {{Caution: math.NaN()}},
		"cautions[1]: branches 1 and 2; want nodes after":   {{Low: 1, High: 2}, {Low: 1, High: 2}, {}},
		"cautions[0]: branches 1 and 3; want nodes after":   {{Low: 1, High: 3}, {}, {}},
		"cautions[0]: branches 1 and 0; want nodes after":   {{Low: 1}, {}},
		"cautions[0]: condition 8, bound 0; want one of 8 ": {{Condition: 8, Low: 1, High: 2}, {}, {}},
		"cautions[0]: condition 0, bound NaN; want":         {{Bound: math.NaN(), Low: 1, High: 2}, {}, {}},
	} {
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

// TestConditionsAreRelative: of a worker and jobs that are three times as slow they are the same.
func TestConditionsAreRelative(t *testing.T) {
	var seen [2]Conditions
	for i, times := range []float64{1, 3} {
		table := table(t, slower(figure2(), times), Mixed, 2)
		w := &watched{Aggressive: NewAggressive(table)}
		d := NewWorker(table, w)
		for k := range 20 {
			d.add(&Entry{Job: Job{ID: fmt.Sprint(k), Size: 1 + k%2, MinQuality: 0.69, Deadline: times * float64(40*k+500)}}, times*float64(40*k))
		}
		d.Ran(0, 1, times*22)
		d.Ran(0, 1, times*18)
		d.Plan(times * 800)
		seen[i] = w.Conditions()
	}
	for k := range seen[0] {
		if math.Abs(seen[0][k]-seen[1][k]) > 1e-9 || seen[0][k] == 0 {
			t.Errorf("%s: %v and %v", conditionNames[k], seen[0][k], seen[1][k])
		}
	}
}

// slower are the options with times that are so many times as long.
func slower(options []Option, times float64) []Option {
	for i := range options {
		for n := range options[i].Latency {
			options[i].Latency[n] *= times
		}
	}
	return options
}

// watched keeps the arrivals that it foresees.
type watched struct {
	*Aggressive
	Arrivals
}

// Foresee implements [Foreseeing].
func (w *watched) Foresee(a Arrivals) { w.Arrivals = a }

// TestWorkStaysWhereTimesAreWrong: to a table whose times are twice the real ones, with the slowness
// known, the same comes as to the right one.
func TestWorkStaysWhereTimesAreWrong(t *testing.T) {
	var seen [2]Conditions
	for i, times := range []float64{1, 2} {
		table := table(t, slower(figure2(), times), Mixed, 2)
		w := &watched{Aggressive: NewAggressive(table)}
		d := NewWorker(table, w)
		for range 400 {
			d.Ran(0, 1, 20)
		}
		for k := range 20 {
			d.add(&Entry{Job: Job{ID: fmt.Sprint(k), Size: 1 + k%2, MinQuality: 0.69, Deadline: float64(40*k + 500)}}, float64(40*k))
		}
		d.Plan(800)
		seen[i] = w.Conditions()
	}
	for k := range seen[0] {
		if math.Abs(seen[0][k]-seen[1][k]) > 1e-6 {
			t.Errorf("%s: %v with the right times, %v", conditionNames[k], seen[0][k], seen[1][k])
		}
	}
}

// TestSpread: batches that are all off by the same have none, also while the estimate is learnt.
func TestSpread(t *testing.T) {
	table := table(t, figure2(), Mixed, 1)
	d := NewWorker(table, NewAggressive(table))
	d.Ran(0, 1, 40)
	if got := d.off.spread(); got != 0 {
		t.Errorf("after one batch that takes twice as long: %v", got)
	}
	for range 20 {
		d.Ran(0, 1, 40)
		if got := d.off.spread(); got > 0.35 {
			t.Errorf("while the estimate is learnt: %v", got)
		}
	}
	for i := range 400 {
		d.Ran(0, 1, 40*[]float64{0.7, 1.3}[i%2])
	}
	if got := d.off.spread(); math.Abs(got-0.3) > 0.05 {
		t.Errorf("batches that vary by 30 %%: %v", got)
	}
}
