package app

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"gearshift/checkpoints"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router/fleet"
	"gearshift/router/modality"
	"gearshift/serving/jobs"
	"gearshift/workloads"
)

// jobsConfig is how jobs are served: by the models with modalities of the scenario. Tables of strategies
// come from the store, if there is one.
func jobsConfig(s *scenario.Scenario, t *fleet.Table, store *checkpoints.Store, log *slog.Logger) jobs.Config {
	c := s.Jobs(t, workloads.Seed(workloads.Serving, 2))
	if store != nil {
		c.NewTable = func(model, worker string, options []modality.Option, mixing modality.Mixing, size int) (*modality.Table, error) {
			of := policies.StrategyTable{Model: model, Host: worker, Options: options, Mixing: mixing, Size: size}
			table, stored, err := of.Get(store, func(line string) { log.Warn(line) })
			if stored {
				log.Info("strategies of jobs are those of the store", "table", of.Name())
			}
			return table, err
		}
	}
	return c
}

// planByStored has jobs planned by a policy of the store where the configuration names one. Where
// its network does not decide, that is foresight. If the store is away, late is what takes the policy when it is back.
func planByStored(c *jobs.Config, store *checkpoints.Store, log *slog.Logger) (late *lateJobs, err error) {
	if !modality.IsStored(c.Policy) {
		return nil, nil
	}
	network, entry, err := (&policies.Source{Store: store}).Jobs(c.Policy)
	if errors.Is(err, checkpoints.ErrAway) {
		log.Error("foresight plans jobs until the store of policies is back", "policy", c.Policy, "error", err)
		late = &lateJobs{name: c.Policy, store: store, log: log}
		c.Policy, c.NewPolicy = "", late.of
		return late, nil
	}
	if err != nil {
		return nil, fmt.Errorf("modality.policy %q: %w", c.Policy, err)
	}
	c.Policy = ""
	c.NewPolicy = func(t *modality.Table) (modality.Policy, error) { return modality.Trained(t, network) }
	log.Info("a stored policy plans jobs", "policy", entry.Ref().String(), "trained_on", entry.Meta.Scenario)
	return nil, nil
}

// onlyJobs reports whether every variant of the scenario is a combination of inputs that jobs may
// use, so that single requests are the exception.
func onlyJobs(s *scenario.Scenario) bool {
	return !slices.ContainsFunc(s.Variants, func(v scenario.Variant) bool {
		return !slices.ContainsFunc(s.Hosts, func(h scenario.Host) bool {
			return slices.ContainsFunc(s.Combinations(v.Model, h.Name), func(c scenario.Combination) bool { return c.Variant == v.Name })
		})
	})
}
