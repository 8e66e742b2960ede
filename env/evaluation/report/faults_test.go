package report

import (
	"math"
	"strings"
	"testing"
)

func TestSampleIsValid(t *testing.T) {
	if err := sample().Validate(); err != nil {
		t.Error(err)
	}
}

// TestFaultsAreNamed spoils the sample in one way at a time.
func TestFaultsAreNamed(t *testing.T) {
	table := func(r *Report) *Table { return &r.Sections[0].Tables[0] }
	sweep := func(r *Report) *Figure { return &r.Sections[0].Figures[0] }
	tasks := func(r *Report) *Figure { return &r.Sections[1].Figures[0] }
	for want, spoil := range map[string]func(r *Report){
		`report: no title`:                                       func(r *Report) { r.Title = " " },
		`report: no scenario`:                                    func(r *Report) { r.Scenario = "" },
		`report: no way to repeat it`:                            func(r *Report) { r.Repeat = "" },
		`report: no sections`:                                    func(r *Report) { r.Sections = nil },
		`report: a verdict of 0 sentences: want 1 to 24`:         func(r *Report) { r.Verdict = nil },
		`report: no sentence 2 of the verdict`:                   func(r *Report) { r.Verdict[1] = "" },
		`section "Stable": want an ID of lower-case words`:       func(r *Report) { r.Sections[0].ID = "Stable" },
		`section "verdict": the page itself has the same ID`:     func(r *Report) { r.Sections[0].ID = "verdict" },
		`table "stable": a section has the same ID`:              func(r *Report) { table(r).ID = "stable" },
		`figure "all-kinds": a table has the same ID`:            func(r *Report) { sweep(r).ID = "all-kinds" },
		`section "tried": neither text, tables nor figures`:      func(r *Report) { r.Sections[2].Text = "" },
		`table "all-kinds": no title`:                            func(r *Report) { table(r).Title = "" },
		`table "all-kinds": no columns`:                          func(r *Report) { table(r).Columns = nil },
		`table "all-kinds": no rows`:                             func(r *Report) { table(r).Rows = nil },
		`table "all-kinds": two columns write the field "cost"`:  func(r *Report) { table(r).Columns[0].Key = "cost" },
		`table "all-kinds": column 1: key "the policy": want`:    func(r *Report) { table(r).Columns[0].Key = "the policy" },
		`table "all-kinds": no title of column 2`:                func(r *Report) { table(r).Columns[1].Title = "" },
		`table "all-kinds": column 2: unknown kind "numbre"`:     func(r *Report) { table(r).Columns[1].Kind = "numbre" },
		`table "all-kinds": column 2: -1 decimals: want 0 to 9`:  func(r *Report) { table(r).Columns[1].Decimals = -1 },
		`table "all-kinds": row 3: 3 cells: want 4`:              func(r *Report) { table(r).Rows[2] = table(r).Rows[2][:3] },
		`row 1: a cell of number in the text column "policy"`:    func(r *Report) { table(r).Rows[0][0] = Number(1) },
		`row 1: an infinite number in column "cost"`:             func(r *Report) { table(r).Rows[0][1] = Number(math.Inf(1)) },
		`row 1: an interval from 2 down to 1 in col`:             func(r *Report) { table(r).Rows[0][2] = Interval(1, 2, 1) },
		`figure "sweep": no label of the x axis`:                 func(r *Report) { sweep(r).X.Label = "" },
		`figure "sweep": y axis: a range from 1 to 1`:            func(r *Report) { sweep(r).Y.Range.Min = 1 },
		`figure "sweep": x axis: a range from 0 has no log`:      func(r *Report) { sweep(r).X.Range = &Range{0, 1} },
		`figure "sweep": no series`:                              func(r *Report) { sweep(r).Series = nil },
		`figure "sweep": 17 series: want at most 16`:             func(r *Report) { sweep(r).Series = make([]Series, 17) },
		`figure "sweep", series "rate": another has the same`:    func(r *Report) { sweep(r).Series[0].Name = "rate" },
		`figure "sweep", series "": no name`:                     func(r *Report) { sweep(r).Series[0].Name = "" },
		`figure "sweep", series "first": unknown style "lines"`:  func(r *Report) { sweep(r).Series[0].Style = "lines" },
		`figure "sweep", series "first": 4 y at 5 x`:             func(r *Report) { sweep(r).Series[0].Y = make([]float64, 4) },
		`figure "sweep", series "first": 5 lo, 0 hi`:             func(r *Report) { sweep(r).Series[0].Hi = nil },
		`figure "sweep", series "bound <1>": 0 lo at 5 x`:        func(r *Report) { sweep(r).Series[1].Lo = nil },
		`figure "sweep", series "rate": no points`:               func(r *Report) { sweep(r).Series[2] = Series{Name: "rate", Style: Line} },
		`series "first": x 1 is 0, which has no logarithm`:       func(r *Report) { sweep(r).Series[0].X = []float64{0, 1, 2, 3, 4} },
		`series "first": x 3 is 1, after 2: want them in order`:  func(r *Report) { sweep(r).Series[0].X = []float64{1, 2, 1, 3, 4} },
		`series "first": x 1 is NaN: want a finite number`:       func(r *Report) { sweep(r).Series[0].X = []float64{math.NaN(), 1, 2, 3, 4} },
		`series "first": y 1 is infinite: want NaN for a gap`:    func(r *Report) { sweep(r).Series[0].Y[0] = math.Inf(-1) },
		`series "first": an interval from 2 down to 1 at x 1`:    func(r *Report) { sweep(r).Series[0].Lo[0] = 2 },
		`series "rate": y 2 is 0, which has no logarithm`:        func(r *Report) { sweep(r).Y.Log = true; sweep(r).Series[2].Y[1] = 0 },
		`figure "sweep": y axis: categories`:                     func(r *Report) { sweep(r).Y.Categories = []string{"a"} },
		`figure "tasks": x axis: categories have no logarithm`:   func(r *Report) { tasks(r).X.Log = true },
		`series "first": x 1 is 0.5: want the number of a cat`:   func(r *Report) { tasks(r).Series[0].X[0] = 0.5 },
		`series "other": x 1 is 2: want the number of a cat`:     func(r *Report) { tasks(r).Series[1].X[0] = 2 },
		`series "first": bars stand over categories`:             func(r *Report) { tasks(r).X.Categories = nil },
		`series "first": bars start at 0, which has no logarith`: func(r *Report) { tasks(r).Y.Log = true },
	} {
		r := sample()
		spoil(r)
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want the fault %q, got %v", want, err)
		}
	}
}

func TestAllFaultsAreNamedAtOnce(t *testing.T) {
	r := sample()
	r.Title = ""
	r.Sections[0].Tables[0].Title = ""
	r.Sections[1].Figures[0].Series[0].Name = ""
	err := r.Validate()
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("want three faults, one a line; got %v", err)
	}
}
