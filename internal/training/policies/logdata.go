package policies

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gearshift/env/evaluation/logged"
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/serving/experience"
)

// ReadLogs reads the files as experience of the scenario's fleet.
func ReadLogs(s *scenario.Scenario, files []string) (*experience.Log, error) {
	log, err := experience.Load(files...)
	if err != nil {
		return nil, err
	}
	if err := log.On(s.Table()); err != nil {
		return nil, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	if log.Len() == 0 {
		return nil, fmt.Errorf("%s: no requests are logged", strings.Join(files, ", "))
	}
	return log, nil
}

// LogRemarks returns what to know of a log in addition to its numbers.
func LogRemarks(s *scenario.Scenario, log *experience.Log) []string {
	notes := slices.Clone(log.Notes)
	seen := map[string]bool{}
	for i := range log.Runs {
		h := &log.Runs[i].Header
		if h.ScenarioHash != s.Hash() && !seen[h.ScenarioHash] {
			seen[h.ScenarioHash] = true
			notes = append(notes, fmt.Sprintf("the log was written under another version of the scenario (%s %.12s, here %s %.12s)",
				h.Scenario, h.ScenarioHash, s.Name, s.Hash()))
		}
	}
	return notes
}

// LoggedDecisions returns the log as what judges policies has it.
func LoggedDecisions(log *experience.Log) *logged.Log {
	l := new(logged.Log)
	for i := range log.Runs {
		run := logged.Run{Missing: log.Runs[i].Missing()}
		for k := range log.Runs[i].Rows {
			run.Decisions = append(run.Decisions, decision(&log.Runs[i].Rows[k]))
		}
		slices.SortStableFunc(run.Decisions, func(a, b logged.Decision) int { return cmp.Compare(a.Request.Arrival, b.Request.Arrival) })
		l.Runs = append(l.Runs, run)
	}
	return l
}

func decision(r *experience.Row) logged.Decision {
	d := logged.Decision{
		View: &r.View, Request: r.Request, Variant: r.Variant, Replica: r.Replica,
		Policy: r.Policy, Pinned: r.Pinned, Propensity: r.Propensity,
		Moved: r.EndReplica != r.Replica, Judged: r.Known(), Met: r.Met, Utility: r.Utility, PerToken: r.PerToken,
	}
	if r.Reported { // load that arrived, and nothing else
		d.Met, d.Utility, d.PerToken = false, 0, 0
	}
	if r.Outcome == experience.Completed && !r.Reported {
		d.OutputTokens = r.OutputTokens
	}
	return d
}

// LogTable returns the fleet with the limits that held at the log's end, for what is
// made to decide on its views. These show what they show in all runs.
func LogTable(s *scenario.Scenario, log *experience.Log) (*fleet.Table, error) {
	last := log.Runs[len(log.Runs)-1].Header
	for i := range log.Runs {
		h := &log.Runs[i].Header
		last.States, last.Busy = last.States && h.States, last.Busy && h.Busy
	}
	return last.Table(s.Table())
}
