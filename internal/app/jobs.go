package app

import (
	"fmt"
	"log/slog"
	"slices"

	"gearshift/checkpoints"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router/fleet"
	"gearshift/router/modality"
	"gearshift/router/profile"
	"gearshift/serving/jobs"
	"gearshift/workloads"
)

// jobsConfig is how jobs are served: by the models with modalities of the scenario. Tables of strategies
// come from the store, if there is one.
func jobsConfig(s *scenario.Scenario, t *fleet.Table, store *checkpoints.Store, log *slog.Logger) jobs.Config {
	planning := scenario.Of[scenario.JobPlanning](s)
	c := jobs.Config{
		Policy: planning.Policy, Mixing: planning.Mixing, Largest: planning.Table, Fixed: planning.FixedEstimates,
		Seed: workloads.Seed(workloads.Serving, 2),
	}
	for i := range s.Weights {
		if m := jobsModel(s, &s.Weights[i], t); len(m.Workers) > 0 && len(m.Tasks) > 0 {
			c.Models = append(c.Models, m)
		}
	}
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
// its network does not decide, that is foresight.
func planByStored(c *jobs.Config, store *checkpoints.Store, log *slog.Logger) error {
	if !modality.IsStored(c.Policy) {
		return nil
	}
	network, entry, err := (&policies.Source{Store: store}).Jobs(c.Policy)
	if err != nil {
		return fmt.Errorf("modality.policy %q: %w", c.Policy, err)
	}
	c.Policy = ""
	c.NewPolicy = func(t *modality.Table) (modality.Policy, error) { return modality.Trained(t, network) }
	log.Info("a stored policy plans jobs", "policy", entry.Ref().String(), "trained_on", entry.Meta.Scenario)
	return nil
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

// jobsModel is a model with what answers it. Hosts that have not all of its combinations get no
// jobs.
func jobsModel(s *scenario.Scenario, weights *scenario.Model, t *fleet.Table) jobs.Model {
	m := jobs.Model{Name: weights.Name, Modalities: weights.Modalities}
	var most []scenario.Combination
	for _, h := range s.Hosts {
		if list := s.Combinations(m.Name, h.Name); len(list) > len(most) {
			most = list
		}
	}
	for _, o := range most {
		m.Options = append(m.Options, jobs.Option{Variant: o.Variant, Modalities: o.Modalities})
	}
	for i := range s.Tasks {
		task := jobs.Task{Name: s.Tasks[i].Name, Quality: map[string]float64{}, Total: profile.Duration(s.Tasks[i].TotalMS)}
		for _, o := range most {
			if q, answers := o.Quality[task.Name]; answers {
				task.Quality[o.Variant] = q
			}
		}
		if len(task.Quality) > 0 {
			m.Tasks = append(m.Tasks, task)
		}
	}
	for _, h := range s.Hosts {
		if list := s.Combinations(m.Name, h.Name); slices.EqualFunc(list, most, func(a, b scenario.Combination) bool { return a.Variant == b.Variant }) && len(list) > 0 {
			m.Workers = append(m.Workers, jobsWorker(h.Name, list, t))
		}
	}
	return m
}

// jobsWorker is the engine on the host, with the times of its profile.
func jobsWorker(host string, list []scenario.Combination, t *fleet.Table) jobs.Worker {
	w := jobs.Worker{Name: host}
	for _, o := range list {
		w.Latency = append(w.Latency, o.Latency)
		w.Replicas = append(w.Replicas, slices.IndexFunc(t.Replicas, func(r fleet.Replica) bool { return r.Name == o.Variant+"@"+host }))
	}
	return w
}
