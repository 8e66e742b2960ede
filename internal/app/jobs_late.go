package app

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"gearshift/checkpoints"
	"gearshift/internal/training/policies"
	"gearshift/router/modality"
)

// lateJobs plans jobs by foresight until the store of their policy is back.
type lateJobs struct {
	name  string
	store *checkpoints.Store
	log   *slog.Logger

	mu      sync.Mutex // protects what follows
	workers []*latePolicy
	done    bool
}

// latePolicy plans one worker's jobs: by foresight, and later by the stored policy. It implements [modality.Foreseeing].
type latePolicy struct {
	modality.Policy
	table *modality.Table
	next  atomic.Pointer[modality.Policy] // nil: foresight stays
}

// Foresee implements [modality.Foreseeing]. It is called before each plan.
func (p *latePolicy) Foresee(a modality.Arrivals) {
	if next := p.next.Swap(nil); next != nil {
		p.Policy = *next
	}
	if f, ok := p.Policy.(modality.Foreseeing); ok {
		f.Foresee(a)
	}
}

// of returns a worker's policy.
func (l *lateJobs) of(t *modality.Table) (modality.Policy, error) {
	first, err := modality.Named("foresight", t, nil)
	if err != nil {
		return nil, err
	}
	p := &latePolicy{Policy: first, table: t}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workers = append(l.workers, p)
	return p, nil
}

// take puts the stored policy in charge of jobs, if the store has it. It returns the error of a store that is away again.
func (l *lateJobs) take() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return nil
	}
	network, entry, err := (&policies.Source{Store: l.store}).Jobs(l.name)
	if errors.Is(err, checkpoints.ErrAway) {
		return err
	}
	list := make([]modality.Policy, len(l.workers))
	for i, p := range l.workers {
		if err == nil {
			list[i], err = modality.Trained(p.table, network)
		}
	}
	if err != nil {
		l.log.Error("foresight plans jobs, as the stored policy cannot", "policy", l.name, "error", err)
		return nil
	}
	for i, p := range l.workers {
		p.next.Store(&list[i])
	}
	l.done = true
	l.log.Info("a stored policy plans jobs", "policy", entry.Ref().String(), "trained_on", entry.Meta.Scenario)
	return nil
}
