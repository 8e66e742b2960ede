package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/output"
	"gearshift/cmd/gearshift/policies"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/evaluation"
	"gearshift/env/evaluation/logged"
	"gearshift/router/policy"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// mostMissing is the share of a log's requests that may be missing for its arrivals
// to be played: without more of them the load would be another.
const mostMissing = 0.05

// evalLog judges policies by what a router has logged.
func evalLog(ctx context.Context, o evalOptions, stdout, stderr io.Writer) error {
	s, err := scenario.Load(o.scenario)
	if err != nil {
		return err
	}
	read, err := readLog(s, o.fromLog)
	if err != nil {
		return err
	}
	log := decisions(read)
	report := logged.Report{Scenario: s.Name, Log: logged.Summarise(log, s.Table().Variants), Variants: s.Table().Variants, Notes: remarks(s, read)}
	report.Log.Files, report.Log.SHA256 = read.Files, read.Hash
	table, err := limited(s, read)
	if err != nil {
		return err
	}
	source, err := newPolicySource(o.store, o.engine)
	if err != nil {
		return err
	}
	maker, err := s.Maker(table)
	if err != nil {
		return err
	}
	j, err := newLogJudge(s, log)
	if err != nil {
		return err
	}
	if err := makeReports(o.out); err != nil {
		return err
	}
	var list []named
	for _, ref := range loggedPolicies(o.policies, s, &report.Log) {
		d, err := decider(source, maker, ref, s, &report.Notes)
		if err != nil && len(o.policies) == 0 { // nobody asked for it
			report.Notes = append(report.Notes, fmt.Sprintf("policy %s is not judged: %v", ref, err))
			continue
		}
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(list, func(n named) bool { return n.name == d.Name() }) {
			list = append(list, named{d.Name(), d})
		}
	}
	if err := j.judge(ctx, list, &report, output.Counting(stderr, "evaluating")); err != nil {
		return err
	}
	report.Assumptions = assumptions(log, report.Log.Simulated != nil)
	unwritten := writeReports(&report, o.out, "eval")
	if o.format == "csv" { // which has no place for them
		for _, a := range append(slices.Clone(report.Assumptions), report.Notes...) {
			fmt.Fprintln(stderr, "note:", a)
		}
	}
	return errors.Join(report.Write(stdout, o.format), unwritten)
}

// named is a decider with its name.
type named struct {
	name string
	evaluation.Decider
}

// loggedPolicies are those asked for or, if none are, those that decided what is
// logged, as far as they can be had again, and the plain rules.
func loggedPolicies(asked []string, s *scenario.Scenario, log *logged.Summary) []string {
	if len(asked) > 0 {
		return asked
	}
	var refs []string
	for _, name := range logged.Ranked(log.Policies) {
		if policy.IsRule(name) {
			refs = append(refs, name)
		} else if ref, err := checkpoints.ParseRef(name); err == nil && ref.Version > 0 {
			refs = append(refs, name)
		}
	}
	for _, v := range s.Variants {
		refs = append(refs, "static:"+v.Name)
	}
	return append(refs, "threshold", "slackfit")
}

// decider is the policy of the reference, on the whole fleet also if it is static.
func decider(source *policies.Source, m *policy.Maker, ref string, s *scenario.Scenario, notes *[]string) (policy.Network, error) {
	if policies.IsPlanned(ref) {
		return nil, fmt.Errorf("policy %q: a planner looks into the simulator, and has no choice on a logged view; want %s", ref, policies.Forms)
	}
	if policy.IsRule(ref) {
		return m.Parse(ref)
	}
	p, entry, err := source.Stored(ref, m)
	if err == nil && entry.Meta.ScenarioHash != s.Hash() {
		*notes = append(*notes, fmt.Sprintf("policy %s was trained on another version of the scenario (%s %.12s, here %s %.12s)",
			entry.Ref(), entry.Meta.Scenario, entry.Meta.ScenarioHash, s.Name, s.Hash()))
	}
	return p, err
}

// logJudge judges policies by a log.
type logJudge struct {
	scorer   *logged.Scorer
	replayer logged.Replayer
}

func newLogJudge(s *scenario.Scenario, log *logged.Log) (*logJudge, error) {
	fleet, err := s.Simulation()
	if err != nil {
		return nil, err
	}
	balancer, err := s.Balancer()
	if err != nil {
		return nil, err
	}
	j := &logJudge{
		scorer:   logged.NewScorer(log, profile.NewForecaster(s.Profiles()), balancer, len(s.Variants)),
		replayer: logged.Replayer{Log: log, Fleet: fleet, Fits: s.SmallestCache(), Seed: workloads.Seed(workloads.Evaluation, 0)},
	}
	return j, nil
}

// replayable explains why the log's arrivals cannot be played, or returns "".
func replayable(x *logged.Summary) string {
	if missing := float64(x.Missing) / float64(x.Requests+x.Missing); missing > mostMissing {
		return fmt.Sprintf("no replay: %.1f %% of the requests between the first and the last are not logged, so that their load would be missing; at most %.0f %% may be (log with sample: 1)",
			100*missing, 100*mostMissing)
	}
	return ""
}

// judge fills in the report.
func (j *logJudge) judge(ctx context.Context, list []named, report *logged.Report, progress func(done, total int)) error {
	why := replayable(&report.Log)
	if why == "" {
		simulated, err := j.replayer.AsLogged(ctx)
		if err != nil {
			return err
		}
		report.Log.Simulated = &simulated
	} else {
		report.Notes = append(report.Notes, why)
	}
	for i, p := range list {
		result := logged.Result{Policy: p.name, Scores: j.scorer.Score(p.Decider)}
		if why == "" {
			replay, err := j.replayer.Play(ctx, p.name, p.Decider)
			if err != nil {
				return err
			}
			result.Replay = &replay
		}
		report.Results = append(report.Results, result)
		if progress != nil {
			progress(i+1, len(list))
		}
	}
	return ctx.Err()
}

// assumptions are what the estimates on the log rest on.
func assumptions(log *logged.Log, replayed bool) []string {
	var list []string
	if replayed {
		list = append(list,
			"UTILITY (replay): the engines are as the scenario's profiles say, all of them up, and idle when the log begins. How far that holds shows between the first two rows; OVER THE LOGGED CHOICES compares within the simulator, so that what is off in both drops out.",
			"UTILITY (replay): who came when, and how long answers are, does not depend on the choices. Unknown lengths are drawn from the known ones of the task. Requests that the router could not place are not in the log.",
			"UTILITY (replay): what clients asked for by name stays as it was.")
	}
	list = append(list,
		"AGREES, MATCHED, FORECAST, DOUBLY ROBUST: queues do not react. Each request meets the load that the logged choices had made, whatever the policy would have chosen before; a policy that loads the fleet more looks better than it is.",
		"FORECAST: the answer goes at the pace that the profiles forecast for the batch it joins, times the errors that such forecasts have made on the logged requests of that size (of all, where the log has fewer than 30); harm to others does not count.",
		"DOUBLY ROBUST: as FORECAST, but as measured where the policy agrees with the log.",
		"MATCHED: measured, over the requests where the policy agrees, each by the inverse of its logged propensity.")
	if !overlap(log) {
		list = append(list,
			"MATCHED: the policy that logged leaves nothing to chance, so there is no overlap: of what it did not choose the log says nothing, and MATCHED is of other requests for each policy. Compare policies by it only where they agree on nearly all.")
	}
	return append(list, "Intervals are of a bootstrap over blocks of √n requests in a row: they hold the chance of this log, not the error of the assumptions.")
}

// overlap says whether any choice was left to chance.
func overlap(log *logged.Log) bool {
	for i := range log.Runs {
		if slices.ContainsFunc(log.Runs[i].Decisions, func(d logged.Decision) bool { return d.Propensity > 0 && d.Propensity < 1 }) {
			return true
		}
	}
	return false
}
