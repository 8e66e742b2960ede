package evalcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/env/evaluation/logged"
	"gearshift/internal/onnxruntime"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router/policy"
)

// evalLog judges policies by what a router has logged.
func evalLog(ctx context.Context, o evalOptions, stdout, stderr io.Writer) error {
	s, err := scenario.Load(o.scenario)
	if err != nil {
		return err
	}
	read, err := policies.ReadLogs(s, o.fromLog)
	if err != nil {
		return err
	}
	log := policies.LoggedDecisions(read)
	report := logged.Report{Scenario: s.Name, Log: logged.Summarise(log, s.Table().Variants), Variants: s.Table().Variants, Notes: policies.LogRemarks(s, read)}
	report.Log.Files, report.Log.SHA256 = read.Files, read.Hash
	table, err := policies.LogTable(s, read)
	if err != nil {
		return err
	}
	source, err := onnxruntime.Source(o.store, o.engine)
	if err != nil {
		return err
	}
	maker, err := s.Maker(table)
	if err != nil {
		return err
	}
	j, err := policies.NewLogJudge(s, log)
	if err != nil {
		return err
	}
	if err := makeReports(o.out); err != nil {
		return err
	}
	var list []policies.Named
	for _, ref := range loggedPolicies(o.policies, s, &report.Log) {
		d, err := source.Network(maker, ref, s, &report.Notes)
		if err != nil && len(o.policies) == 0 { // the user did not ask for it
			report.Notes = append(report.Notes, fmt.Sprintf("policy %s is not judged: %v", ref, err))
			continue
		}
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(list, func(n policies.Named) bool { return n.Name == d.Name() }) {
			list = append(list, policies.Named{Name: d.Name(), Decider: d})
		}
	}
	if err := j.Fill(ctx, list, &report, output.Counting(stderr, "evaluating")); err != nil {
		return err
	}
	report.Assumptions = policies.Assumptions(log, report.Log.Simulated != nil)
	unwritten := writeReports(&report, o.out, "eval")
	if o.format == "csv" { // which has no place for them
		for _, a := range append(slices.Clone(report.Assumptions), report.Notes...) {
			fmt.Fprintln(stderr, "note:", a)
		}
	}
	return errors.Join(report.Write(stdout, o.format), unwritten)
}

// loggedPolicies returns the policies asked for. If none are, it returns those that decided what
// is logged, as far as the store still has them, and the rules with which promotion compares them.
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
	return append(refs, policies.OpponentRefs(s, evaluation.MeanUtility)...)
}
