package policies

import (
	"context"
	"fmt"
	"slices"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/logged"
	"gearshift/internal/scenario"
	"gearshift/workloads"
)

// mostMissing is the share of a log's requests that may be missing for its arrivals
// to be played: without more of them the load would be another.
const mostMissing = 0.05

// Named is a decider with its name.
type Named struct {
	Name string
	evaluation.Decider
}

// LogJudge judges policies by a log.
type LogJudge struct {
	scorer   *logged.Scorer
	Replayer logged.Replayer
}

// NewLogJudge makes the judge of policies for the scenario by a log.
func NewLogJudge(s *scenario.Scenario, log *logged.Log) (*LogJudge, error) {
	fleet, err := s.WithoutPrompts().Simulation()
	if err != nil {
		return nil, err
	}
	fleet.Steady() // no draw is the pace of the log
	balancer, err := s.Balancer()
	if err != nil {
		return nil, err
	}
	j := &LogJudge{
		scorer:   logged.NewScorer(log, s.Forecaster(), balancer, len(s.Variants)),
		Replayer: logged.Replayer{Log: log, Fleet: fleet, Fits: s.SmallestCache(), Seed: workloads.Seed(workloads.Evaluation, 0)},
	}
	return j, nil
}

// NotReplayable explains why the log's arrivals cannot be played, or returns "".
func NotReplayable(x *logged.Summary) string {
	if missing := float64(x.Missing) / float64(x.Requests+x.Missing); missing > mostMissing {
		return fmt.Sprintf("no replay: %.1f %% of the requests between the first and the last are not logged, so that their load would be missing; at most %.0f %% may be (log with sample: 1)",
			100*missing, 100*mostMissing)
	}
	return ""
}

// Fill fills in the report.
func (j *LogJudge) Fill(ctx context.Context, list []Named, report *logged.Report, progress func(done, total int)) error {
	why := NotReplayable(&report.Log)
	if why == "" {
		simulated, err := j.Replayer.AsLogged(ctx)
		if err != nil {
			return err
		}
		report.Log.Simulated = &simulated
	} else {
		report.Notes = append(report.Notes, why)
	}
	for i, p := range list {
		result := logged.Result{Policy: p.Name, Scores: j.scorer.Score(p.Decider)}
		if why == "" {
			replay, err := j.Replayer.Play(ctx, p.Name, p.Decider)
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

// Assumptions returns what the estimates on the log rest on.
func Assumptions(log *logged.Log, replayed bool) []string {
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

// overlap reports whether any choice was left to chance.
func overlap(log *logged.Log) bool {
	for i := range log.Runs {
		if slices.ContainsFunc(log.Runs[i].Decisions, func(d logged.Decision) bool { return d.Propensity > 0 && d.Propensity < 1 }) {
			return true
		}
	}
	return false
}
