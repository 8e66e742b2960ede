package report

import "math"

// sample is a report with every kind of column and every style of series, and
// with texts that would break a page that does not escape them.
func sample() *Report {
	rates := []float64{0.25, 1, 4, 16, 48}
	return &Report{
		Title:    "Sample <b>&",
		Scenario: "made up for a test",
		Verdict:  []string{"First.", "Second, <script>alert(1)</script>.", "Third."},
		Sections: []Section{
			{
				ID: "stable", Title: "Stable & \"calm\"", Text: "One paragraph.\n\nAnother one.",
				Tables: []Table{{
					ID: "all-kinds", Title: "All kinds",
					Columns: []Column{
						{Key: "policy", Title: "policy", Kind: KindText},
						{Key: "cost", Title: "cost", Unit: "µs", Kind: KindNumber, Decimals: 1},
						{Key: "utility", Title: "utility", Kind: KindInterval, Decimals: 3},
						{Key: "windows", Title: "windows", Kind: KindBeside},
					},
					Rows: [][]Cell{
						{Text("a, \"quoted\" <i>"), Number(1.25), Interval(0.8971234, 0.892, 0.902), BesideInterval(784, 700, 900, 713)},
						{Text("b"), Number(math.NaN()), Interval(-0.01, -0.02, 0.003), Beside(12, 0)},
						{Text("c"), {}, {}, {}},
					},
					Note: "A note.",
				}},
				Figures: []Figure{{
					ID: "sweep", Title: "Sweep", Half: true,
					X: Axis{Label: "rate", Unit: "requests/s", Log: true},
					Y: Axis{Label: "utility", Range: &Range{0, 1}},
					Series: []Series{
						{Name: "first", Style: Line, X: rates, Y: []float64{1, 0.9, math.NaN(), 0.8, 0.7},
							Lo: []float64{0.9, 0.8, math.NaN(), 0.7, 0.6}, Hi: []float64{1, 1, math.NaN(), 0.9, 0.8}},
						{Name: "bound <1>", Style: Band, X: rates, Lo: []float64{0, 0, 0, 0, 0}, Hi: []float64{1, 1, 1, 1, 1}},
						{Name: "rate", Style: Step, X: rates, Y: []float64{0.1, 0.2, 0.3, 0.2, 0.2}},
					},
				}},
			},
			{
				ID: "figures-only", Title: "Figures only", Text: "Text before figures.",
				Figures: []Figure{{
					ID: "tasks", Title: "Tasks",
					X: Axis{Label: "task", Categories: []string{"HellaSwag", "COPA"}},
					Y: Axis{Label: "utility"},
					Series: []Series{
						{Name: "first", Style: Bars, X: []float64{0, 1}, Y: []float64{0.9, 0.8}, Lo: []float64{0.8, 0.7}, Hi: []float64{1, 0.9}},
						{Name: "other", Style: Points, X: []float64{1, 0}, Y: []float64{0.7, math.NaN()}},
					},
				}},
			},
			{ID: "tried", Title: "What was tried", Text: "Words alone."},
		},
		Repeat: "gearshift paper --out report <x>",
	}
}
