package besteffort

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
)

// frontierObjectives are the points of the frontier, from mean utility to time near the
// peak. Each has a policy trained for it and a rule tuned for it.
var frontierObjectives = []string{"utility", "power:3", "power:8", "near-peak", "windows:0.98,20", "windows:0.96,20"}

// nearPeak is the time near the peak that the frontier is drawn over: the share of
// windows that earn at least .98 of their peak.
var nearPeak = mustParse("windows:0.98,20")

func mustParse(text string) evaluation.Objective {
	o, err := evaluation.ParseObjective(text)
	if err != nil {
		panic(err) // a constant of this file
	}
	return o
}

// frontierSection asks what time near the peak costs in mean utility. Alone, it heads the report.
func (p *paper) frontierSection(ctx context.Context, out *reports.Part) {
	if p.frontier == nil { // not read from a file
		p.frontier = p.trace(ctx)
	}
	f, r := p.frontier, out.Report
	out.Section = f.section()
	r.Files = append(must(f.files()), r.Files...)
	if p.alone() {
		r.Title, r.Scenario, r.Repeat = "Learned serving: mean utility against time near the peak", simulated(f.Scenario, f.Preset, f.Seeds), f.Repeat
		r.Verdict, r.Summary = f.verdict(), f.markdown()
	}
}

// trace makes the policies and the rules of the frontier, and plays them.
func (p *paper) trace(ctx context.Context) *Frontier {
	t := tracing{seen: map[string]bool{}, policy: map[evaluation.Objective]string{}}
	for _, text := range frontierObjectives {
		o := mustParse(text)
		own := p.policyFor(ctx, o)
		tuned := p.ruleFor(ctx, o)
		// The rule whose advice policies follow need not be a listed one.
		refs := append([]string{tuned, p.scenario.BestRuleFor(o)}, p.scenario.RulesFor(o)...)
		rules := must(policies.Contestants(p.scenario, nil, refs, nil))
		t.objectives, t.policy[o] = append(t.objectives, o), own.Name
		t.add(&t.policies, own)
		t.add(&t.rules, rules...)
	}
	alone := must(policies.Contestants(p.scenario, nil, statics(p.scenario), nil))
	t.large = alone[len(alone)-1].Name
	t.add(&t.rules, alone...)
	return p.played(ctx, &t)
}

// tracing is who is played for a frontier, each once.
type tracing struct {
	objectives []evaluation.Objective
	policy     map[evaluation.Objective]string // by its contestant's name
	large      string
	policies   []evaluation.Contestant
	rules      []evaluation.Contestant
	seen       map[string]bool
}

func (t *tracing) add(to *[]evaluation.Contestant, list ...evaluation.Contestant) {
	for _, c := range list {
		if !t.seen[c.Name] {
			t.seen[c.Name] = true
			*to = append(*to, c)
		}
	}
}

// policyFor returns the policy that is trained for the objective: the one that the options
// name, or one that is trained like the others of the report.
func (p *paper) policyFor(ctx context.Context, o evaluation.Objective) evaluation.Contestant {
	if p.options.trained[o] != "" {
		return p.given(o)
	}
	t := reports.Training{On: aimed(p.scenario, o), Preset: p.options.Preset, Name: nameFor(o), Seed: 1, Uncompared: true}
	if o.IsZero() {
		t.Name, t.Uncompared = "hard", false // which the other sections have, too
	}
	return must(policies.Contestant(p.scenario, &policies.Source{Store: p.store}, p.train(ctx, t), func(string) {}))
}

// given returns the policy that the options name for the objective.
func (p *paper) given(o evaluation.Objective) evaluation.Contestant {
	ref := p.options.trained[o]
	c := must(policies.Contestant(p.scenario, &policies.Source{Store: &checkpoints.Store{Path: p.options.Store}}, ref, func(string) {}))
	if c.Rule || c.Objective != o {
		was := "a rule"
		if !c.Rule {
			was = "trained for " + c.Objective.String()
		}
		check(fmt.Errorf("--trained %s=%s: want a policy that was trained for %[1]s; %[3]s is %[4]s", o, ref, c.Name, was))
	}
	return c
}

// aimed returns the scenario whose policies are trained for the objective.
func aimed(s *scenario.Scenario, o evaluation.Objective) *scenario.Scenario {
	c := *s
	c.Training.Objective = o
	return &c
}

// nameFor returns the name in the store of the policy for an objective.
func nameFor(o evaluation.Objective) string {
	return "for-" + strings.NewReplacer(":", "-", ",", "-").Replace(o.String())
}

// played plays all on the report's seeds, and finds each objective's best rule.
func (p *paper) played(ctx context.Context, t *tracing) *Frontier {
	work := must(p.scenario.Evaluated(policies.JudgedBy, p.scenario.Evaluation.Requests))
	fmt.Fprintf(p.Stderr, "evaluating %d policies and %d rules for the frontier\n", len(t.policies), len(t.rules))
	plan := evaluation.Plan{
		Contestants: append(t.policies, t.rules...), Workloads: work, Seeds: p.seeds,
		Objectives: evaluation.Beside(append(t.objectives, nearPeak)...), Progress: p.Counting("evaluating"),
	}
	results := must(plan.Evaluate(ctx))
	f := &Frontier{
		Scenario: p.scenario.Name, Preset: p.options.Preset, Seeds: len(p.seeds), Repeat: p.Repeat(),
		Large: performance(results, t.large, evaluation.MeanUtility),
	}
	rule := map[string]bool{}
	for _, c := range t.rules {
		rule[c.Name] = true
	}
	for _, o := range t.objectives {
		v := must(evaluation.Against(results, policies.JudgedBy, t.policy[o], o, rule))
		f.Points = append(f.Points, Point{
			Objective: o, Verdict: v,
			Policy: performance(results, v.Policy, o), Rule: performance(results, v.Rule, o),
		})
	}
	return f
}

// performance returns how one policy did.
func performance(results []evaluation.Result, policy string, o evaluation.Objective) Performance {
	over := func(o evaluation.Objective) evaluation.Interval {
		for _, s := range evaluation.Scores(results, policies.JudgedBy, o) {
			if s.Policy == policy {
				return evaluation.Bootstrap(s.Runs)
			}
		}
		return evaluation.Interval{}
	}
	out := Performance{
		Policy: policy, Utility: over(evaluation.MeanUtility), NearPeak: over(nearPeak), Value: over(o),
		On: map[string]OnWorkload{},
	}
	for _, r := range results {
		if r.Policy == policy && (r.Workload == "u1" || r.Workload == "u2") {
			out.On[r.Workload] = OnWorkload{Utility: r.Utility, Windows: r.Windows}
		}
	}
	return out
}

// Frontier is what the figure of utility against time near the peak and its tables are
// made of: all that was played, and nothing of how. A file keeps it, so that they can be
// drawn again without training, tuning or playing.
type Frontier struct {
	Format   string `json:"format"`
	Scenario string `json:"scenario"`
	Preset   string `json:"preset"`
	Seeds    int    `json:"seeds"`
	Repeat   string `json:"repeat"` // as in [report.Report]
	// Points are in the order of their objectives, from mean utility to time near the peak.
	Points []Point `json:"points"`
	// Large is the largest size alone.
	Large Performance `json:"large"`
}

// Point is one objective of a [Frontier]: the policy that is trained for it and the
// rule that is the best by it.
type Point struct {
	Objective evaluation.Objective `json:"objective"`
	Policy    Performance          `json:"policy"`
	Rule      Performance          `json:"rule"`
	Verdict   evaluation.Verdict   `json:"verdict"`
}

// Performance is how one policy did over the workloads that policies are judged by, each
// weighing the same.
type Performance struct {
	Policy  string              `json:"policy"`
	Utility evaluation.Interval `json:"utility"`
	// NearPeak is the share of windows that earn at least .98 of their peak.
	NearPeak evaluation.Interval `json:"near_peak"`
	// Value is by the point's objective.
	Value evaluation.Interval `json:"value"`
	// On is how it did on u1 and u2.
	On map[string]OnWorkload `json:"on"`
}

// OnWorkload is how a policy did on one workload.
type OnWorkload struct {
	Utility evaluation.Interval `json:"utility"`
	// Windows are counted as in [evaluation.Result].
	Windows map[string]float64 `json:"windows"`
}

// The files of a report's frontier, and what marks that of its points.
const (
	frontierFile    = "frontier.json"
	frontierPicture = "frontier.svg"
	frontierFormat  = "gearshift-frontier/1"
)

// readFrontier reads the file of points that an earlier report has written.
func readFrontier(file string) (*Frontier, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the points of a frontier: %w", err)
	}
	var f Frontier
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("cannot read the points of a frontier: %s: %w", file, err)
	}
	if f.Format != frontierFormat || len(f.Points) == 0 {
		return nil, fmt.Errorf("cannot read the points of a frontier: %s holds none in the format %s, as a report's %s does", file, frontierFormat, frontierFile)
	}
	return &f, nil
}

// files returns the points and the picture of them.
func (f *Frontier) files() ([]report.File, error) {
	c := *f
	c.Format = frontierFormat
	points, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", frontierFile, err)
	}
	figure := f.figure()
	picture, err := figure.Standalone()
	return []report.File{{Name: frontierFile, Content: append(points, '\n')}, {Name: frontierPicture, Content: picture}}, err
}
