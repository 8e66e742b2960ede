// Package evalcmd holds the commands that play policies in the simulator: eval compares them, league
// does so on drawn fleets, and bound measures how much better one could be.
package evalcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/internal/onnxruntime"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/workloads"
)

// evalOptions are the flags of eval.
type evalOptions struct {
	scenario, store, engine, format, out, trace, judged, quality, placement string
	policies, workloads, fromLog                                            []string
	seeds, requests                                                         int
	wide, asServed                                                          bool
	routers                                                                 env.Routers
	tune                                                                    tuneOptions
}

func NewEvalCommand() *cobra.Command {
	var o evalOptions
	c := &cobra.Command{
		Use:   "eval",
		Short: "Compare policies on workloads in the simulator",
		Long: `Play each policy on each workload over the evaluation seeds, which training never
sees, and report utility, deadlines met, windows near peak performance, the mix of
sizes and latencies, with 95 % bootstrap intervals over the seeds. Static policies
run alone with the whole memory.

A policy that is not a rule is compared with the best of the scenario's evaluation.rules, the
plain rules and each static size, paired by seed: the rules that gearshift policy promote
asks it to beat. They are played too, and the verdict is the last line. It is by the objective
that the policy was trained for. All rows show the values of the policies' objectives, and of
the scenario's training.objective.

With --as-served, requests wait for room, are degraded by the gate and are refused in the
simulator as the router does it, by serving.overload. Those refused earn nothing, and are
in all means.

With --tune, every rule with parameters is tuned first: a search over them on training
seeds of the same workloads, reported with its score, the mean over the workloads of what
--tune-for names. The best of each rule is then evaluated together with the policies given.

With --quality, what predicts the quality of answers is another than the scenario's
quality.predictor. Requests must carry prompts (workload.prompts), whose scores are what
answers are worth.

With --from-log, policies are judged on requests that a router has served and logged
(serving.experience): their arrivals are replayed in the simulator, and each is asked
what it would have chosen. The assumptions are printed below the table. All policies
then run on the whole fleet, static ones too, and are judged by mean utility, whatever they
were trained for.

Policies:   ` + policies.Forms + `
            ` + policies.ClairvoyantForms + `
Workloads:  ` + workloads.Forms + `
A trace gives arrival times; its token counts too only with +lengths.`,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c) },
	}
	o.flags(c)
	return c
}

// run evaluates on logged requests or on workloads, and refuses the flags that mean nothing there.
func (o *evalOptions) run(c *cobra.Command) error {
	if len(o.fromLog) > 0 {
		unused := cli.RefuseFlags(c.Flags(), "with --from-log", "workload", "seeds", "requests", "trace",
			"tune", "tune-for", "tune-seeds", "tune-trials", "routers", "gauge-interval", "share-interval", "share-delay", "as-served", "quality", "placement")
		if err := errors.Join(o.validate(), unused); err != nil {
			return err
		}
		return evalLog(c.Context(), *o, c.OutOrStdout(), c.ErrOrStderr())
	}
	var unused error
	if !o.tune.on {
		unused = cli.RefuseFlags(c.Flags(), "without --tune", "tune-for", "tune-seeds", "tune-trials")
	}
	if o.routers.Number == 1 && o.routers.Gauges >= 0 && o.routers.Shares >= 0 {
		unused = errors.Join(unused, cli.RefuseFlags(c.Flags(), "with one router; see --routers", "gauge-interval", "share-interval", "share-delay"))
	}
	if unused != nil {
		return unused
	}
	if c.Flags().Changed("requests") && o.requests == 0 {
		return errors.New("--requests 0: want a positive number, or no flag for the scenario's")
	}
	o.tune.given = c.Flags().Changed("tune-for")
	return eval(c.Context(), *o, c.OutOrStdout(), c.ErrOrStderr())
}

// flags adds the flags of eval.
func (o *evalOptions) flags(c *cobra.Command) {
	f := c.Flags()
	cli.ScenarioFlag(c, &o.scenario)
	cli.StoreFlag(c, &o.store)
	cli.EngineFlag(c, &o.engine)
	f.StringArrayVar(&o.policies, "policy", nil, "`REF` of a policy, repeatable (default: every static, threshold, slackfit; with --tune every static)")
	f.StringArrayVar(&o.workloads, "workload", nil, "`W`, repeatable (default: u1 and u2; with --tune stable too)")
	f.IntVar(&o.seeds, "seeds", 10, "runs of each policy on each workload")
	f.IntVar(&o.requests, "requests", 0, "in a run (default: the scenario's; the stable workload and schedules last their time instead)")
	f.IntVar(&o.routers.Number, "routers", 1, "`N` that share the fleet, each of which counts its own requests alone")
	f.DurationVar(&o.routers.Gauges, "gauge-interval", time.Second, "at which each of several routers reads the engines' gauges for the others' requests; 0s is never")
	f.DurationVar(&o.routers.Shares, "share-interval", 0, "at which each of several routers asks the others what they have on each replica; 0s is never")
	f.DurationVar(&o.routers.Delay, "share-delay", 0, "after which an answer comes, below --share-interval")
	f.BoolVar(&o.asServed, "as-served", false, "requests wait, are degraded and refused as the router does it by the scenario's serving section (default: training.as_served)")
	qualityFlag(c, &o.quality)
	f.StringVar(&o.placement, "placement", "", "what decides which sizes are loaded, where the scenario has serving.placement: `REF` of a stored policy, or a rule (default: the scenario's)")
	f.StringVar(&o.format, "format", "table", strings.Join(evaluation.Formats, ", "))
	f.BoolVar(&o.wide, "wide", false, "a table of all figures, instead of one that fits 100 columns")
	f.StringVar(&o.out, "out", "", "`folder` for eval.json and eval.csv, and tune.json and tune.csv of a search")
	f.StringVar(&o.judged, "judged-by", "", "`SCENARIO` of the same tasks and sizes whose deadlines and qualities answers are judged by; decisions use --scenario")
	f.StringVar(&o.trace, "trace", "", "`file` for the first run's events, in Chrome's trace format")
	cli.FromLogFlag(c, &o.fromLog, "`FILE…` of logged requests to judge by, in place of workloads")
	tuneFlags(c, &o.tune)
}

// mostRouters is the most routers of a simulation: each keeps a ledger of the whole fleet.
const mostRouters = 1000

func (o *evalOptions) validate() error {
	clairvoyant := ""
	if i := slices.IndexFunc(o.policies, policies.IsClairvoyant); i >= 0 {
		clairvoyant = o.policies[i]
	}
	return errors.Join(
		cli.FaultIf(!slices.Contains(evaluation.Formats, o.format), "--format %q: want one of %s", o.format, strings.Join(evaluation.Formats, ", ")),
		cli.CheckSeeds("--seeds", o.seeds),
		cli.FaultIf(o.requests < 0, "--requests %d is negative", o.requests),
		cli.FaultIf(o.routers.Number < 1 || o.routers.Number > mostRouters, "--routers %d: want 1 to %d", o.routers.Number, mostRouters),
		cli.FaultIf(o.routers.Shares < 0, "--share-interval %v is negative; 0s is never", o.routers.Shares),
		cli.FaultIf(o.routers.Delay < 0 || o.routers.Delay > 0 && o.routers.Delay >= o.routers.Shares, "--share-delay %v; want it from 0s to below --share-interval, which is %v", o.routers.Delay, o.routers.Shares),
		cli.FaultIf(o.routers.Gauges < 0, "--gauge-interval %v is negative; 0s is never", o.routers.Gauges),
		cli.FaultIf(clairvoyant != "" && o.routers.Number > 1, "--routers %d: a clairvoyant such as %s sees the whole fleet; want 1", o.routers.Number, clairvoyant),
		cli.FaultIf(o.asServed && o.routers.Number > 1, "--as-served with --routers %d: requests wait in one router; want 1", o.routers.Number),
		cli.FaultIf(clairvoyant != "" && o.asServed, "--as-served: a clairvoyant such as %s plays copies of the simulator, which cannot be made while requests wait", clairvoyant),
		o.tune.validate())
}

// defaults fills what the flags leave open.
func (o *evalOptions) defaults(s *scenario.Scenario) {
	if o.requests == 0 {
		o.requests = s.Evaluation.Requests
	}
	o.tune.aim(s)
	if len(o.workloads) == 0 {
		o.workloads = []string{"u1", "u2"}
		if o.tune.on {
			o.workloads = append(o.workloads, "stable")
		}
	}
	if len(o.policies) == 0 {
		for _, v := range s.Variants {
			o.policies = append(o.policies, "static:"+v.Name)
		}
		if !o.tune.on {
			o.policies = append(o.policies, "threshold", "slackfit")
		}
	}
}

func eval(ctx context.Context, o evalOptions, stdout, stderr io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	s, err := scenario.Load(o.scenario)
	if err != nil {
		return err
	}
	judge, err := judgedBy(s, o.judged)
	if err != nil {
		return err
	}
	s.Served = o.asServed
	o.defaults(s)
	work, err := s.Evaluated(o.workloads, o.requests)
	if err != nil {
		return err
	}
	notesOf(work, stderr)
	source, err := onnxruntime.Source(o.store, o.engine)
	if err != nil {
		return err
	}
	if err := errors.Join(policies.Predicting(s, source.Store, o.quality), policies.Placing(s, source.Store, o.placement)); err != nil {
		return err
	}
	if err := makeReports(o.out); err != nil {
		return err
	}
	o.tune.Routers = o.routers
	c, err := contestantsOf(ctx, s, source, &o, work, stderr)
	if err != nil {
		return err
	}
	began := time.Now()
	plan := evaluation.Plan{
		Contestants: c.list, Workloads: work, Seeds: workloads.Seeds(workloads.Evaluation, o.seeds), Judge: judge,
		Objectives: evaluation.Beside(append(objectivesOf(c.list[:c.asked]), o.tune.For)...),
		Clock:      func() time.Duration { return time.Since(began) },
		Progress:   output.Counting(stderr, "evaluating"),
	}
	trace, err := traceFirstRun(&plan, o.trace)
	if err != nil {
		return err
	}
	results, err := plan.Evaluate(ctx)
	unwritten := trace()
	if err != nil {
		return err
	}
	report := c.report(&o, s.Name, work, results)
	report.Quality = s.Predicting()
	if c.tuning != nil {
		unwritten = errors.Join(unwritten, writeReports(c.tuning, o.out, "tune"))
	}
	unwritten = errors.Join(unwritten, writeReports(&report, o.out, "eval"))
	// The report is shown even if a file of it could not be written.
	return errors.Join(o.write(stdout, &report, source), unwritten)
}

// contestants are the policies of an evaluation.
type contestants struct {
	list []evaluation.Contestant
	// asked is how many of them the user asked for, or a search found. The others are opponents.
	asked  int
	tuning *evaluation.TuningReport // of the search, nil without one
}

// contestantsOf returns the policies asked for, the best rules of the search if there is one,
// and the rules that promotion compares them with.
func contestantsOf(ctx context.Context, s *scenario.Scenario, source *policies.Source, o *evalOptions, work []evaluation.Workload, stderr io.Writer) (c contestants, err error) {
	if c.list, c.tuning, err = askedFor(ctx, s, source, o, work, stderr); err != nil {
		return c, err
	}
	c.asked = len(c.list)
	if c.list, err = withOpponents(s, c.list, work, stderr); err != nil {
		return c, err
	}
	for i := range c.list {
		c.list[i].Fleet.Routers = o.routers
	}
	return c, nil
}

// report returns the report of the results, which are in the order of the list.
func (c *contestants) report(o *evalOptions, name string, work []evaluation.Workload, results []evaluation.Result) evaluation.Report {
	r := evaluation.Report{
		Scenario: name, Seeds: o.seeds, Variants: c.list[0].Fleet.Table.Variants, Headlines: evaluation.Headlines(work),
	}
	r.Verdicts = evaluation.Verdicts(results, r.Headlines)
	rows := len(results) / len(c.list) * c.asked
	r.Results, r.Opponents = results[:rows:rows], results[rows:]
	for i := range r.Opponents {
		r.Opponents[i].SimRequestsPerS = 0 // this one differs from run to run; it is for those asked for
	}
	if o.routers.Number > 1 {
		r.Routers, r.GaugeIntervalS = o.routers.Number, o.routers.Gauges.Seconds()
		r.ShareIntervalS, r.ShareDelayS = o.routers.Shares.Seconds(), o.routers.Delay.Seconds()
	}
	if c.tuning != nil {
		r.Tuning = c.tuning.Brief()
	}
	return r
}

// write prints the report. A table ends with what promotion would decide about the stored policies.
func (o *evalOptions) write(stdout io.Writer, report *evaluation.Report, source *policies.Source) error {
	if o.format != "table" {
		return report.Write(stdout, o.format)
	}
	table := writeShort
	if o.wide {
		table = func(w io.Writer, r *evaluation.Report) error { return r.Write(w, o.format) }
	}
	err := table(stdout, report)
	return errors.Join(err, writeStored(stdout, report.Verdicts, source.Store))
}

// notesOf prints the notes on workloads, such as the requests of a trace that are left out.
func notesOf(work []evaluation.Workload, stderr io.Writer) {
	for _, w := range work {
		if w.Note != "" {
			fmt.Fprintln(stderr, "note:", w.Note)
		}
	}
}

// objectivesOf returns the objectives of the policies that are not rules, each once.
func objectivesOf(list []evaluation.Contestant) (objectives []evaluation.Objective) {
	for _, c := range list {
		if !c.Rule && !slices.Contains(objectives, c.Objective) {
			objectives = append(objectives, c.Objective)
		}
	}
	return objectives
}

// withOpponents adds the rules with which promotion compares the policies that are not rules, by
// the objective of each. It leaves out a rule that cannot be played on the workloads, such as a
// size that loses its only host.
func withOpponents(s *scenario.Scenario, list []evaluation.Contestant, work []evaluation.Workload, stderr io.Writer) ([]evaluation.Contestant, error) {
	var rules []evaluation.Contestant
	for _, o := range objectivesOf(list) {
		more, err := policies.Opponents(s, o)
		if err != nil {
			return nil, err
		}
		rules = append(rules, more...)
	}
	listed := map[string]bool{}
	for _, c := range list {
		listed[c.Name] = true
	}
	for _, rule := range rules {
		if listed[rule.Name] {
			continue
		}
		listed[rule.Name] = true
		alone := evaluation.Plan{Contestants: []evaluation.Contestant{rule}, Workloads: work}
		if err := alone.Playable(); err != nil {
			fmt.Fprintf(stderr, "note: the rule %s is left out of the comparison: %v\n", rule.Name, err)
			continue
		}
		list = append(list, rule)
	}
	return list, nil
}

// askedFor returns the policies asked for and, with --tune, the best rules that the search finds
// and the search's report.
func askedFor(ctx context.Context, s *scenario.Scenario, source *policies.Source, o *evalOptions, work []evaluation.Workload, stderr io.Writer) ([]evaluation.Contestant, *evaluation.TuningReport, error) {
	warn := func(text string) { fmt.Fprintln(stderr, "warning:", text) }
	list, err := policies.Contestants(s, source, o.policies, warn)
	if err != nil || !o.tune.on {
		return list, nil, err
	}
	asked := evaluation.Plan{Contestants: list, Workloads: work}
	if err := asked.Playable(); err != nil { // now, and not after the search
		return nil, nil, err
	}
	tuning, err := policies.Tune(ctx, s, o.tune.Search, work, output.Counting(stderr, "tuning"))
	if err != nil {
		return nil, nil, err
	}
	rules, err := policies.Contestants(s, source, further(o.policies, tuning), warn)
	return append(list, rules...), tuning, err
}
