package serving

import (
	"gearshift/router"
	"gearshift/serving/trial"
	"gearshift/serving/work"
)

// OrderPolicy carries out an order about policies; see [trial.Trials.Order].
func (s *Server) OrderPolicy(order, ref string, share float64, reason string) (note string, err error) {
	s.reloading.Lock() // orders come one at a time, and reloads
	defer s.reloading.Unlock()
	return s.trials.Order(order, ref, share, reason)
}

// Policies reports which policy is in charge, which is on trial, and how they compare.
func (s *Server) Policies() trial.Policies { return s.trials.Policies() }

// newTrials makes what carries out orders about policies.
func (s *Server) newTrials(o Options) *trial.Trials {
	objective := o.Objective
	if objective == nil {
		objective = func(string) string { return "" }
	}
	return trial.New(trial.Options{
		Table: s.table, InCharge: s.router.PolicyName, Policies: policySetOf(s.router), Source: s.source(),
		Objective: objective, Config: func() trial.Config { return s.settings().Trial }, Clock: s.clock, Log: s.log,
	})
}

// source is the reloader as the source of policies; nil without one.
func (s *Server) source() trial.Source {
	if s.reloader == nil {
		return nil
	}
	return s.reloader
}

// policySetOf is the router's policies, also of one within a [Recorder]; nil if they cannot
// be changed.
func policySetOf(r work.Router) trial.PolicySet {
	if recorder, ok := r.(*Recorder); ok {
		r = recorder.Router
	}
	p, _ := r.(trial.PolicySet)
	return p
}

// trialWatcher reports to the trials what routed requests have earned. Requests for a
// variant by name are no policy's.
type trialWatcher struct{ *trial.Trials }

// Ended implements [Watcher].
func (t trialWatcher) Ended(w *work.Work, r work.Result) {
	if r.Judged && w.Policy != router.Pinned {
		t.Trials.Ended(trial.Ended{Arrival: w.Request.Arrival, Trial: w.Trial, Reported: r.Reported, Met: r.Met, Utility: r.Utility})
	}
}
