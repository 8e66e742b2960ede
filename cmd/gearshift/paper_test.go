//go:build !serveonly

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
)

// A report that is listed has a subcommand with its flags, and its model becomes the files.
func TestAReportRegistersItself(t *testing.T) {
	madeUp := reports.Report{
		Name: "made-up", Short: "A report of nothing", Example: "--out x --depth 3", Seeds: reports.Seeds{Usual: 2, Quick: 2, Of: "runs"},
		New: func(f *reports.Flags, r *reports.Run) reports.Study {
			depth := f.Int("depth", 1, "how deep")
			return reports.Study{
				Run: r,
				Check: func() error {
					if *depth > 3 {
						return f.Refuse("here", "out")
					}
					return nil
				},
				Open: func(context.Context) (*report.Report, error) {
					return &report.Report{
						Title: "Nothing", Scenario: "none", Verdict: []string{"One.", "Two.", "Three."}, Summary: "| a |",
						Files: []report.File{{Name: "more.txt", Content: []byte(r.Out)}},
					}, nil
				},
				Sections: []reports.Section{{ID: "depth", Title: "Depth", Make: func(_ context.Context, p *reports.Part) error {
					p.Tables = []report.Table{{
						ID: "how-deep", Title: "How deep", Columns: []report.Column{{Key: "depth", Title: "Depth", Kind: report.KindNumber}},
						Rows: [][]report.Cell{{report.Number(float64(*depth))}},
					}}
					return nil
				}}},
			}
		},
	}
	out := filepath.Join(t.TempDir(), "new")
	said, err := runReport(t, madeUp, "--out", out, "--depth", "2")
	if err != nil || said != "One.\nTwo.\nThree.\n\n| a |\nreport: "+filepath.Join(out, "report.html")+"\n" {
		t.Errorf("%v, %q", err, said)
	}
	for name, want := range map[string]string{"csv/how-deep.csv": "depth\n2\n", "more.txt": out} {
		if text, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if _, err := runReport(t, madeUp, "--depth", "2"); err == nil || !strings.Contains(err.Error(), "--out is missing") {
		t.Errorf("without a folder: %v", err)
	}
	if _, err := runReport(t, madeUp, "--out", out, "--depth", "4"); err == nil || !strings.Contains(err.Error(), "--out has no meaning here") {
		t.Errorf("refused: %v", err)
	}
}

// runReport runs the command of a report.
func runReport(t *testing.T, r reports.Report, args ...string) (string, error) {
	t.Helper()
	var stdout strings.Builder
	c := reportCommand(r)
	c.SetArgs(args)
	c.SetOut(&stdout)
	c.SetErr(t.Output())
	c.SilenceUsage, c.SilenceErrors = true, true
	err := c.ExecuteContext(t.Context())
	return stdout.String(), err
}

func TestPaperNeedsItsTasks(t *testing.T) {
	fail(t, []string{"paper"}, "--out")
	fail(t, []string{"paper", "best-effort"}, "--out")
	fail(t, []string{"paper", "worst-effort"}, `unknown command "worst-effort" for "gearshift paper"`, "best-effort")
	fail(t, []string{"paper", "--out", filepath.Join(t.TempDir(), "x"), "--scenario", "tiny"}, "tiny", "hellaswag")
	fail(t, []string{"paper", "--out", filepath.Join(t.TempDir(), "x"), "--seeds", "1"}, "--seeds")
	fail(t, []string{"paper", "--out", filepath.Join(t.TempDir(), "x"), "--preset", "swift"}, "swift", "quick")
	brief := edited(t, "titan-rtx-opt", "decisions: 150000", "decisions: 8000") // the soft policy's are a quarter
	fail(t, []string{"paper", "--quick", "--out", filepath.Join(t.TempDir(), "x"), "--scenario", brief}, "2000 of its 8000 decisions", "warmup of 2000")
}

// A folder whose files the report would replace is refused before anything is trained.
func TestPaperSparesWhatIsNotAReport(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing can be trained
	var stdout, stderr strings.Builder
	args := []string{"paper", "--quick", "--out", filepath.Dir(write(t, "report.json", "{}"))}
	if code := run(ctx, args, &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), "a report.json that is not a report's; choose another folder") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

// The frontier can be made alone, on a scenario of other tasks than the paper's: policies are
// trained for their objectives, or taken from a store, and what was played is drawn again.
func TestPaperMakesTheFrontierAlone(t *testing.T) {
	brief := write(t, "brief.yaml", strings.NewReplacer(
		"requests: 2000", "requests: 100", "phase_s: 40", "phase_s: 5", "[0.5, 1, 2, 3, 4, 6, 8, 12]", "[2, 6]",
		"decisions: 6000 ", "decisions: 400 ", "warmup: 200 ", "warmup: 100 ", "validate_every: 2000", "validate_every: 400",
	).Replace(succeed(t, "scenario", "show", "tiny")))
	out := filepath.Join(t.TempDir(), "report")
	store := filepath.Join(out, "policies.db")
	args := []string{"paper", "--scenario", brief, "--quick", "--seeds", "2", "--only", "frontier", "--out"}
	first := succeed(t, append(args, out)...)
	show := succeed(t, "policy", "show", "for-windows-0.98-20", "--store", store)
	if !strings.Contains(show, "windows:0.98,20") {
		t.Errorf("what was trained for windows says\n%s", show)
	}
	given := succeed(t, append(args, filepath.Join(t.TempDir(), "given"), "--store", store, "--trained", "near-peak=for-near-peak", "--trained", "power:8=for-power-8@1",
		"--trained", "utility=hard", "--trained", "power:3=for-power-3", "--trained", "windows:0.98,20=for-windows-0.98-20", "--trained", "windows:0.96,20=for-windows-0.96-20")...)
	again := succeed(t, "paper", "--points", filepath.Join(out, "frontier.json"), "--out", filepath.Join(t.TempDir(), "again"))
	for name, other := range map[string]string{"with the policies given": given, "from its points": again} {
		if table(other) != table(first) || !strings.Contains(table(other), "| `windows:0.96,20` |") {
			t.Errorf("%s it says\n%s\nwhere it said\n%s", name, table(other), table(first))
		}
	}
	if _, err := os.Stat(filepath.Join(out, "frontier.svg")); err != nil {
		t.Error(err)
	}
	fail(t, append(args, filepath.Join(t.TempDir(), "x"), "--store", store, "--trained", "near-peak=hard"), "--trained near-peak=hard", "want a policy that was trained for near-peak; hard@1 is trained for utility")
	fail(t, append(args, filepath.Join(t.TempDir(), "x"), "--store", store, "--trained", "near-peak=slackfit"), "slackfit:0.93 is a rule")
}

// table is what a report of the frontier says, without the folder that it is in.
func table(stdout string) string {
	said, _, _ := strings.Cut(stdout, "report: ")
	return said
}

func TestPaperRefusesFlagsWithoutMeaning(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x")
	fail(t, []string{"paper", "--out", out, "--only", "weather"}, `--only "weather"`, "frontier")
	fail(t, []string{"paper", "--out", out, "--only", "frontier", "--longer", "2"}, "--longer")
	fail(t, []string{"paper", "--out", out, "--store", "x.db"}, "--store", "without --trained")
	fail(t, []string{"paper", "arise", "--out", out, "--only", "weather"}, "the sections are settings, clients, kept, ours, losses, frames, difficulty, testbed, analysis, rates, detection")
	fail(t, []string{"paper", "placement", "--out", out, "--only", "weather"}, "the sections are sweep, bursts, day, others, faults")
	fail(t, []string{"paper", "placement", "--out", out}, "--scenario titan-rtx-opt", "want serving.placement in it")
	fail(t, []string{"paper", "prompts", "--out", out, "--only", "weather"}, "the sections are gain, labels, elsewhere, load, strange, learned")
	fail(t, []string{"paper", "prompts", "--out", out, "--data", write(t, "x.jsonl", "{}")}, "x.jsonl:1")
	fail(t, []string{"paper", "arise", "--out", out, "--length", "5s"}, "--length: 5s must be 20s or more")
	fail(t, []string{"paper", "--out", out, "--points", "x.json", "--seeds", "3"}, "--seeds", "plays nothing")
	fail(t, []string{"paper", "--out", out, "--points", write(t, "x.json", "{}")}, "x.json", "gearshift-frontier/1")
}
