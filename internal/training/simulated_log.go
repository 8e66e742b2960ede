package training

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"gearshift/checkpoints"
	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router/policy"
	"gearshift/serving/experience"
	"gearshift/workloads"
)

// FineTuneIn plays the policy of the options on n requests of u1 in the simulated fleet, which need not follow
// the scenario's profiles, and fine-tunes it on their log. It returns the reference of the result, and by
// variant the factor by which the log shows its engines to be slower than their profile.
func FineTuneIn(ctx context.Context, o Options, s *scenario.Scenario, fleet env.Config, n int, stderr io.Writer) (ref string, factors map[string]float64, err error) {
	folder, err := os.MkdirTemp("", "gearshift-log-")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(folder)
	maker, err := s.Maker(s.Table())
	if err != nil {
		return "", nil, err
	}
	store := &checkpoints.Store{Path: o.Store}
	by, err := (&policies.Source{Store: store}).Network(maker, o.From, s, new([]string))
	if err != nil {
		return "", nil, err
	}
	path, err := SimulateLog(ctx, folder, fleet, s, by, "u1", n)
	if err != nil {
		return "", nil, err
	}
	o.FromLog, o.Uncompared = []string{path}, true
	if err := FromLog(ctx, o, false, io.Discard, stderr); err != nil {
		return "", nil, err
	}
	entry, err := store.Lookup(checkpoints.Ref{Name: o.Name, Alias: checkpoints.Newest})
	if err != nil {
		return "", nil, err
	}
	var outcome Outcome
	err = json.Unmarshal(entry.Meta.Log.Outcome, &outcome)
	return entry.Ref().String(), outcome.Slowness, err
}

// SimulateLog plays the policy on n requests of a workload in the simulated fleet, which need not follow
// the scenario's profiles, and writes them into the folder as the log of a router of the scenario. It
// returns the file.
func SimulateLog(ctx context.Context, folder string, fleet env.Config, s *scenario.Scenario, by policy.Network, workload string, n int) (string, error) {
	work, err := s.Evaluated([]string{workload}, n)
	if err != nil {
		return "", err
	}
	fleet.Open = work[0].Open
	e, err := env.New(fleet)
	if err != nil {
		return "", err
	}
	if _, err := e.Reset(workloads.Seed(workloads.Serving, 9)); err != nil {
		return "", err
	}
	config := experience.DefaultConfig()
	config.Path, config.Buffer = filepath.Join(folder, "experience.jsonl"), n
	header := experience.NewHeader(s.ServingTable())
	header.Scenario, header.ScenarioHash = s.Name, s.Hash()
	out, err := experience.New(config, header, nil)
	if err == nil {
		err = out.Begin()
	}
	if err != nil {
		return "", err
	}
	rows, err := playLogged(e, by, out.Row)
	if err != nil {
		return "", err
	}
	for _, r := range rows {
		out.Add(r)
	}
	for n := out.Stats(); int(n.Written+n.Dropped) < len(rows) && ctx.Err() == nil; n = out.Stats() {
		time.Sleep(5 * time.Millisecond) // Close waits for a while only, and many rows may take longer
	}
	return config.Path, errors.Join(ctx.Err(), out.Close())
}

// playLogged plays an episode and returns its requests as a router logs them.
func playLogged(e *env.Environment, by policy.Network, row func() *experience.Row) (rows []*experience.Row, err error) {
	scratch := make([]float32, by.Scratch())
	for over := false; !over; {
		r := row()
		r.Wall, r.Request, r.Policy, r.Propensity = time.Unix(int64(len(rows)), 0), *e.Request(), by.Name(), 1
		r.Request.ID, r.Decision = uint64(len(rows)+1), uint64(len(rows)+1)
		r.View.CopyFrom(e.View())
		rows = append(rows, r)
		step, err := evaluation.Route(e, by, scratch)
		if err != nil {
			return nil, err
		}
		for _, o := range step.Info.Outcomes {
			r := rows[o.Decision]
			r.Variant, r.Replica, r.EndVariant, r.EndReplica = o.Variant, o.Replica, o.Variant, o.Replica
			r.Outcome, r.OutputTokens, r.Judged, r.Met, r.Utility = experience.Completed, o.OutputTokens, true, o.Met, o.Utility
			r.PerToken, r.Latency, r.FirstToken = o.Latency(), o.Finished-o.Request.Arrival, o.FirstToken-o.Request.Arrival
		}
		over = step.Terminated || step.Truncated
	}
	return rows, nil
}
