package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/durable"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router"
	"gearshift/serving/admin/overview"
)

const (
	// tuningDelay passes between the start of a server and that of its search.
	tuningDelay = 5 * time.Second
	// tuningPause passes between two stretches of the search's decisions, so that requests come first on a
	// machine with few cores.
	tuningPause = 100 * time.Microsecond
)

// tuning searches for a rule while a router serves by the fallback of a scenario without evaluation.rules. A
// rule that is better on other seeds replaces the fallback.
type tuning struct {
	s       *scenario.Scenario
	core    *router.Core
	store   *guardedStore
	log     *slog.Logger
	present string // the fallback at the start
	effort  policies.Effort

	status atomic.Pointer[overview.Tuning]
}

// newTuning returns the search of a router, or nil where there is nothing to search for: the scenario names a
// fallback or lists rules, a search has ended before, a policy routes, or the user wants none. A router
// without a file does not search: its latency models are guesses until it has timed requests.
func newTuning(o Options, s *scenario.Scenario, r *Reloader) *tuning {
	if o.NoTuning || o.Text != nil || s.Serving.Tuning == scenario.TuningOff || o.Policy != "" || !r.fallback.untuned ||
		r.core.PolicyName() != r.fallbackName() || len(s.Variants) < 2 || onlyJobs(s) || s.Controlled() {
		return nil
	}
	return &tuning{s: s, core: r.core, store: r.store, log: r.log, present: r.fallback.rule, effort: policies.Minute}
}

// fallbackName returns the name under which the fallback routes.
func (r *Reloader) fallbackName() string {
	if rule, err := r.maker.Parse(r.fallback.rule); err == nil {
		return rule.Name()
	}
	return r.fallback.rule
}

// begin runs the search once the server has served for a while. The returned function ends it.
func (t *tuning) begin(ctx context.Context) (end func()) {
	if t == nil {
		return func() {}
	}
	t.status.Store(&overview.Tuning{State: overview.TuningSoon})
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		select {
		case <-time.After(tuningDelay):
			t.search(ctx)
		case <-ctx.Done():
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// shown returns the status; nil before the start.
func (t *tuning) shown() *overview.Tuning { return t.status.Load() }

// search finds the best rule, makes it the fallback if it is better, and stores the result.
func (t *tuning) search(ctx context.Context) {
	t.log.Info("tuning rules in the background, on simulated load", "fallback", t.present, "points_of_each_rule", t.effort.Trials)
	var v evaluation.Verdict
	panicked, err := durable.Guard(func() (err error) {
		v, err = t.effort.Improve(ctx, t.s, t.present, evaluation.Pacing{Cores: 1, Pause: func() { time.Sleep(tuningPause) }}, func(done, total int) {
			t.status.Store(&overview.Tuning{State: overview.TuningRuns, Done: done, Total: total})
		})
		return err
	})
	if panicked != nil {
		err = fmt.Errorf("it panicked: %v", panicked)
	}
	var f fallback
	if err == nil {
		f, err = t.adopt(v)
	}
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil:
		t.status.Store(&overview.Tuning{State: overview.TuningFailed, Error: err.Error()})
		t.log.Error("tuning in the background has failed: the fallback stays", "fallback", t.present, "error", err)
	default:
		t.status.Store(&overview.Tuning{
			State: overview.TuningDone, Rule: v.Policy, Over: v.Rule, Adopted: f.rule != t.present,
			Margin: v.Margin.Mean, MarginLow: v.Margin.Lo, MarginHigh: v.Margin.Hi, Seeds: v.Seeds,
		})
		t.log.Info("tuning in the background has ended", "fallback", f.rule, "why", f.why)
	}
}

// adopt makes the rule found the fallback if it is better, and keeps the result for the next start.
func (t *tuning) adopt(v evaluation.Verdict) (fallback, error) {
	found := t.outcome(v)
	if found.Rule != t.present {
		maker, err := t.s.Maker(t.core.Table())
		if err != nil {
			return fallback{}, err
		}
		rule, err := maker.Parse(found.Rule)
		if err == nil {
			err = t.core.SetFallback(rule)
		}
		if err != nil {
			return fallback{}, err
		}
	}
	data, err := json.Marshal(found)
	if err == nil {
		err = t.store.PutTable(tunedTable(t.s), checkpoints.StoredTable{Of: tunedOf(t.s), Data: data})
	}
	if err != nil {
		t.log.Warn("the result of tuning cannot be stored: a restart searches again", "error", err)
	}
	return fallback{rule: found.Rule, why: found.Why}, nil
}

// tuned holds the result of a search in the store.
type tuned struct {
	Rule string `json:"rule"` // to fall back to
	Why  string `json:"why"`
}

// outcome returns the rule to fall back to after the comparison of the rule found with the present one.
func (t *tuning) outcome(v evaluation.Verdict) tuned {
	compared := fmt.Sprintf("by %s, paired over %d seeds of simulated load", v.By(), v.Seeds)
	if v.Word() == evaluation.Better {
		return tuned{v.Policy, fmt.Sprintf("found by tuning in the background: over %s %s", v.Rule, compared)}
	}
	return tuned{t.present, fmt.Sprintf("tuning in the background found no better rule: %s is over it %s", v.Policy, compared)}
}

// tunedTable names the record of a scenario's search in the store, and tunedOf its inputs.
func tunedTable(s *scenario.Scenario) string { return "tuned rule of " + s.Name }

func tunedOf(s *scenario.Scenario) string {
	return fmt.Sprintf("%s %s %+v", s.Hash(), s.Training.Objective, policies.Minute)
}

// storedTuning returns the result of an earlier search for the scenario; false if there is none.
func storedTuning(s *scenario.Scenario, store *checkpoints.Store) (f fallback, ok bool) {
	table, err := store.GetTable(tunedTable(s))
	var t tuned
	if err != nil || table.Of != tunedOf(s) || json.Unmarshal(table.Data, &t) != nil {
		return f, false
	}
	maker, err := s.Maker(s.ServingTable())
	if err == nil {
		_, err = maker.Parse(t.Rule)
	}
	return fallback{rule: t.Rule, why: t.Why}, err == nil
}
