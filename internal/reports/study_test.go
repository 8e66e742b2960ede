package reports

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/pflag"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
)

// made runs the command of a report of five sections, and returns the sections that it has, and
// its verdict and the command that repeats it.
func made(t *testing.T, args ...string) (titles []string, said string, err error) {
	t.Helper()
	set := pflag.NewFlagSet("made", pflag.ContinueOnError)
	var run *Run
	var r *report.Report
	section := func(_ context.Context, p *Part) error {
		p.Say("Text.")
		p.Say("%d seeds.", run.Seeds)
		if p.ID != "first" {
			p.Head("%s.", p.Title)
		}
		return nil
	}
	what := Report{Name: "made", Quick: "fewer", Seeds: Seeds{20, 3, "runs"}, New: func(f *Flags, by *Run) Study {
		run = by
		f.String("from", "", "what one section needs")
		f.StringArray("policy", nil, "policies")
		return Study{
			Run: by,
			Open: func(context.Context) (*report.Report, error) {
				r = &report.Report{Title: "Made", Scenario: "none"}
				return r, nil
			},
			Sections: []Section{
				{ID: "first", Title: "First", Make: section}, {ID: "slow", Title: "Slow", Make: section, Slow: true},
				{ID: "recorded", Title: "Recorded", Make: section, Needs: "from"},
				{ID: "broken", Title: "Broken", Make: func(context.Context, *Part) error {
					if slices.Contains(run.Only, "broken") {
						return errors.New("it broke")
					}
					return nil
				}},
				{ID: "last", Title: "Last", Make: section},
			},
		}
	}}
	write := what.Declare(&Flags{FlagSet: set})
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := write(t.Context(), Program{Version: "1"}, io.Discard, io.Discard); err != nil {
		return nil, "", err
	}
	for _, s := range r.Sections {
		titles = append(titles, s.Title+": "+s.Text)
	}
	return titles, strings.Join(r.Verdict, " ") + "|" + r.Repeat, nil
}

// Flags choose sections and seeds, and the report says with which it was made.
func TestFlagsOfAllReports(t *testing.T) {
	out := t.TempDir()
	for _, c := range []struct{ args, want, verdict, repeat string }{
		{"", "First: Text. 20 seeds.|Slow: Text. 20 seeds.|Last: Text. 20 seeds.", "Slow. Last.", ""},
		{"--quick", "First: Text. 3 seeds.|Last: Text. 3 seeds.", "Last.", " --quick"},
		{"--only first", "First: Text. 20 seeds.", "These sections alone have tables and figures, and no verdict.", " --only first"},
		{"--quick --only last,slow --seeds 2", "Slow: Text. 2 seeds.|Last: Text. 2 seeds.", "Slow. Last.", " --only last --only slow --quick --seeds 2"},
		{"--from x --only recorded --policy a:1 --policy b;c", "Recorded: Text. 20 seeds.", "Recorded.", " --from x --only recorded --policy a:1 --policy 'b;c'"},
	} {
		titles, said, err := made(t, append(strings.Fields(c.args), "--out", out)...)
		if got := strings.Join(titles, "|"); err != nil || got != c.want {
			t.Errorf("%s: %v, %q, want %q", c.args, err, got, c.want)
		}
		if want := c.verdict + "|gearshift paper made" + c.repeat + " --out DIR\ngearshift 1"; said != want {
			t.Errorf("%s: verdict and command %q, want %q", c.args, said, want)
		}
	}
}

// A wrong flag is an error before the folder is made.
func TestWrongFlagsOfReports(t *testing.T) {
	for args, want := range map[string]string{
		"":                "--out is missing: the folder for the report",
		"--seeds 1":       "--seeds: 1 must be from 2 to 10000",
		"--seeds 0":       "--seeds: 0 must be from 2 to 10000",
		"--only weather":  `--only "weather": no such section; the sections are first, slow, recorded, broken, last`,
		"--only recorded": "--only recorded: the section needs --from",
		"--only broken":   "it broke",
	} {
		list, out := strings.Fields(args), filepath.Join(t.TempDir(), "new")
		if args != "" {
			list = append(list, "--out", out)
		}
		if _, _, err := made(t, list...); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
		if _, err := os.Stat(out); err == nil && args != "--only broken" {
			t.Errorf("%s: the folder is there", args)
		}
	}
}

// counted is a sweep whose run i of setting s is 10 s + i, and how many runs it has played.
func counted(faulty int) (*Sweep[int, int], *atomic.Int64) {
	var n atomic.Int64
	return &Sweep[int, int]{Run: &Run{}, Open: func(s int) (int, func(context.Context, int) (int, error), error) {
		if s < 0 {
			return 0, nil, errors.New("no such setting")
		}
		return 3, func(_ context.Context, i int) (int, error) {
			n.Add(1)
			if s == faulty {
				return 0, errors.New("it failed")
			}
			return 10*s + i, nil
		}, nil
	}}, &n
}

// Runs are in the order of settings and seeds, and each is played once.
func TestASweepKeepsRuns(t *testing.T) {
	w, n := counted(0)
	for _, settings := range [][]int{{7, 3, 7}, {3, 9}, {9}} {
		all, err := w.Play(t.Context(), settings...)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range settings {
			if want := []int{10 * s, 10*s + 1, 10*s + 2}; !slices.Equal(all[i], want) {
				t.Errorf("setting %d has %v, want %v", s, all[i], want)
			}
		}
	}
	if n.Load() != 9 {
		t.Errorf("%d runs were played, want three of each of three settings", n.Load())
	}
}

// The progress of a section's second sweep has its number, so that it does not look like the first
// one that starts over.
func TestSweepsOfASectionAreCountedApart(t *testing.T) {
	w, _ := counted(0)
	var got []string
	w.part = "loads"
	w.Program.Counting = func(what string) func(done, total int) {
		return func(done, total int) { got = append(got, fmt.Sprintf("%s %d/%d", what, done, total)) }
	}
	for _, settings := range [][]int{{1, 2}, {3}, {4, 5}} {
		if _, err := w.Play(t.Context(), settings...); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"loads: settings played 1/2", "loads: settings played 2/2", "loads, sweep 2: settings played 1/2", "loads, sweep 2: settings played 2/2"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A sweep stops at the first error and when its context ends, and keeps nothing of what has failed.
func TestASweepStops(t *testing.T) {
	w, n := counted(1)
	many := []int{1}
	for s := range 1000 {
		many = append(many, s)
	}
	if _, err := w.Play(t.Context(), many...); err == nil || err.Error() != "it failed" || n.Load() > 1000 {
		t.Errorf("%v after %d runs", err, n.Load())
	}
	if _, err := w.Play(t.Context(), -1); err == nil || err.Error() != "no such setting" {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Play(ctx, 5); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if all, err := w.Play(t.Context(), 5); err != nil || all[0][2] != 52 {
		t.Errorf("%v, %v: want the runs that were not played before", all, err)
	}
}

// Differences are paired by seed: what all seeds have in common drops out.
func TestLessIsPaired(t *testing.T) {
	a, b := []float64{11, 22, 33}, []float64{10, 21, 32}
	if i := Less(a, b); i != (evaluation.Interval{Mean: 1, Lo: 1, Hi: 1}) {
		t.Errorf("%+v", i)
	}
	if Mean(a) != Cell(evaluation.Bootstrap(a)) {
		t.Error("the mean of values is not their bootstrap interval")
	}
}
