package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"gearshift/checkpoints"
	"gearshift/internal/training/policies"
	"gearshift/router"
	"gearshift/router/policy"
	"gearshift/serving/admin/trial"
)

// Newer implements [serving.Reloader].
func (r *Reloader) Newer() (p router.Policy, back bool, err error) {
	entry, err := r.wanted()
	if err != nil {
		return nil, false, err
	}
	if entry.Digest == "" && r.options.Policy == "" && r.seen != "" && r.source.Store.Shared() {
		return nil, false, r.withdrawn()
	}
	differs := r.compare && r.options.Policy == "" && r.nameOf(entry) != r.core.PolicyName()
	if entry.Digest == "" || identity(entry) == r.seen && !differs {
		r.compare = false
		return nil, false, nil
	}
	if p, err = r.load(entry.Ref().String()); err != nil {
		return nil, false, err
	}
	if back, err = r.returns(entry); err != nil {
		return nil, false, err
	}
	r.seen, r.compare = identity(entry), false
	return p, back, nil
}

// withdrawn puts the fallback in charge: another router has rolled back to it, and nothing leads back. The last policy
// stays if the store is gone.
func (r *Reloader) withdrawn() error {
	_, err := r.store.Before()
	if errors.Is(err, checkpoints.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	before := r.core.PolicyName()
	if name, ok := r.core.Earlier(); ok && name == "" {
		err = r.core.Rollback()
	} else {
		err = r.core.SetPolicy(nil)
	}
	if err != nil {
		return err
	}
	r.seen, r.compare = "", false
	if name := r.core.PolicyName(); name != before {
		r.log.Info("no policy is in production: the fallback routes", "fallback", name, "why", r.fallback.why, "before", before)
	}
	return nil
}

// returns reports whether the store went back to the policy that was in charge before, by a
// rollback, and not on to it by a promotion: a promotion's previous version is the one in charge.
func (r *Reloader) returns(entry checkpoints.Entry) (bool, error) {
	if earlier, ok := r.core.Earlier(); !ok || earlier != r.nameOf(entry) {
		return false, nil
	}
	promoted, err := r.store.Before()
	if err != nil || promoted {
		return false, err // a promotion leads back, a rollback does not
	}
	previous, err := r.store.Lookup(checkpoints.Ref{Name: entry.Name, Alias: checkpoints.Previous})
	if errors.Is(err, checkpoints.ErrNotFound) {
		return true, nil
	}
	return err == nil && r.nameOf(previous) != r.core.PolicyName(), err
}

// nameOf returns the name under which a stored version routes. A rule routes under its own.
func (r *Reloader) nameOf(e checkpoints.Entry) string {
	if e.Rule == "" {
		return e.Ref().String()
	}
	if rule, err := r.maker.Parse(e.Rule); err == nil {
		return rule.Name()
	}
	return e.Rule
}

// identity distinguishes a stored version from others, and from one of the same name in a store
// that replaced this one.
func identity(e checkpoints.Entry) string { return e.Ref().String() + " " + e.Digest }

// wanted returns the stored policy that should route: the one asked for at the start, otherwise
// the one in production. It is empty if a rule was asked for, or none is in production.
func (r *Reloader) wanted() (checkpoints.Entry, error) {
	if policy.IsRule(r.options.Policy) {
		return checkpoints.Entry{}, nil
	}
	ref, err := r.reference()
	if errors.Is(err, checkpoints.ErrNotFound) {
		return checkpoints.Entry{}, nil
	}
	if err != nil {
		return checkpoints.Entry{}, err
	}
	return r.store.Lookup(ref)
}

func (r *Reloader) reference() (checkpoints.Ref, error) {
	if r.options.Policy != "" {
		return policies.StoredRef(r.options.Policy)
	}
	return r.store.Production()
}

// load reads a stored policy, and warns of one that was trained on another version of the scenario.
func (r *Reloader) load(ref string) (router.Policy, error) {
	rule, err := r.store.Rule(ref)
	if err != nil {
		return nil, err
	}
	if rule != "" {
		return r.maker.Parse(rule)
	}
	p, entry, err := r.store.Stored(ref, r.maker)
	if err != nil {
		return nil, err
	}
	r.objectives.loaded(entry)
	if entry.Meta.ScenarioHash != r.now.Hash() {
		r.log.Warn("the policy was trained on another version of the scenario", "policy", entry.Ref().String(), "trained on", entry.Meta.Scenario)
	}
	return p, nil
}

// remedy returns how to get a policy into production: the command that promotes what was trained
// for this scenario, or the rule that it is not better than, otherwise [Options.Remedy].
func (r *Reloader) remedy() (key, commands string) {
	stored, _ := r.store.List() // a store that cannot be read says so where it is needed
	if ref := toPromote(stored, r.now.Hash(), r.now.Training.Objective.String()); ref != "" {
		return "to_promote_one", policies.PromotionIn(r.options.Store)(ref)
	}
	return r.options.Remedy(r.options.Scenario, r.now.Name, r.options.Store)
}

// toPromote returns what to promote of the last version that was trained in a scenario and judged
// by the objective: itself, or the rule that it is not better than. It is "" if there is none.
func toPromote(stored []checkpoints.Entry, scenario, by string) string {
	slices.SortStableFunc(stored, func(a, b checkpoints.Entry) int { return b.Created.Compare(a.Created) })
	for _, entry := range stored {
		if verdict, judged := policies.StoredVerdict(entry); judged && entry.Meta.ScenarioHash == scenario && verdict.Objective.String() == by {
			return policies.VerdictChoice(verdict)
		}
	}
	return ""
}

// Choose puts the policy asked for in charge, otherwise the one in production. A policy that was
// asked for and cannot route is an error. If the one in production cannot, the fallback routes.
func (r *Reloader) Choose() error {
	if policy.IsRule(r.options.Policy) {
		rule, err := r.maker.Parse(r.options.Policy)
		if err != nil {
			return err
		}
		return r.core.SetPolicy(rule)
	}
	ref, err := r.reference()
	switch {
	case errors.Is(err, checkpoints.ErrAway):
		return r.waits(err)
	case r.options.Policy == "" && errors.Is(err, checkpoints.ErrNotFound):
		key, commands := r.remedy()
		level, message := slog.LevelWarn, "no policy is in production: the fallback routes"
		if onlyJobs(r.now) {
			level, message = slog.LevelInfo, "no policy is in production: the fallback routes single requests, and modality.policy plans jobs"
		}
		r.log.Log(context.Background(), level, message, "fallback", r.core.PolicyName(), "why", r.fallback.why, key, commands)
		return nil
	case err != nil:
		return err
	}
	entry, err := r.store.Lookup(ref)
	if errors.Is(err, checkpoints.ErrNotFound) && r.options.Policy != "" {
		err = policies.MeantRule(r.options.Policy, err)
	}
	if errors.Is(err, checkpoints.ErrAway) {
		return r.waits(err)
	}
	if err != nil {
		return err
	}
	r.seen = identity(entry) // without a change, another try would have the same result
	p, err := r.load(ref.String())
	if err == nil {
		err = r.core.SetPolicy(p)
	}
	if errors.Is(err, checkpoints.ErrAway) {
		r.seen = ""
		return r.waits(err)
	}
	if err != nil && r.options.Policy == "" && !errors.Is(err, checkpoints.ErrLocked) {
		r.log.Error("the policy in production cannot route: the fallback does", "policy", ref.String(), "error", err, "fallback", r.core.PolicyName(), "why", r.fallback.why)
		return nil
	}
	return err
}

// waits routes by the fallback until the store is back.
func (r *Reloader) waits(err error) error {
	r.log.Error("the store of policies is away: the fallback routes until it is back", "fallback", r.core.PolicyName(), "why", r.fallback.why, "error", err)
	return nil
}

// Policy implements [serving.Reloader].
func (r *Reloader) Policy(ref string) (router.Policy, error) {
	if ref == "" {
		return nil, fmt.Errorf("no policy named; want %s", policies.Forms)
	}
	if policy.IsRule(ref) {
		return r.maker.Parse(ref)
	}
	if named, err := policies.NewestRef(ref); err == nil {
		ref = named.String()
	}
	p, err := r.load(ref) // load reports what is wrong with others
	if errors.Is(err, checkpoints.ErrAway) {
		err = trial.Unavailable(err)
	}
	return p, err
}

// Admit implements [serving.Reloader]. A rule needs no evaluation, since others are compared with it. A store that
// is away admits none, as it could not save the promotion.
func (r *Reloader) Admit(name, reason string) error {
	if err := r.store.away(); err != nil {
		return err
	}
	if policy.IsRule(name) || strings.TrimSpace(reason) != "" {
		return nil
	}
	ref, err := policies.StoredRef(name)
	if err != nil {
		return err
	}
	c, entry, err := r.store.Get(ref)
	if err == nil && c != nil {
		err = policies.CheckEvaluation(c, entry)
	}
	if err != nil {
		return err
	}
	return policies.Admit(entry, policies.PromotionIn(r.source.Store.Path), io.Discard)
}

// starts reports whether a restart would route by the policy of the name anyway: the rule that was
// asked for, or the fallback if nothing is in production.
func (r *Reloader) starts(name string) bool {
	if policy.IsRule(r.options.Policy) {
		rule, err := r.maker.Parse(r.options.Policy)
		return err == nil && rule.Name() == name
	}
	wanted, err := r.wanted()
	return name == "" && err == nil && wanted.Digest == ""
}

// Record implements [serving.Reloader].
func (r *Reloader) Record(name, reason string) error {
	return r.remember(name, func(e checkpoints.Entry) error {
		if reason = strings.TrimSpace(reason); reason == "" {
			reason = e.Forced
		}
		return r.store.Promote(e.Name, e.Version, reason)
	})
}

// Restore implements [serving.Reloader].
func (r *Reloader) Restore(name string) error {
	if name == "" && !r.starts(name) { // the fallback routes
		if err := r.store.Withdraw(); err != nil || r.options.Policy == "" {
			return err
		}
		return fmt.Errorf("none is in production, but serve was started with --policy %s", r.options.Policy)
	}
	return r.remember(name, func(e checkpoints.Entry) error { return r.store.Restore(e.Name, e.Version) })
}

// entry returns the stored version of the policy of the name. It stores a rule that is not stored yet.
func (r *Reloader) entry(name string) (checkpoints.Entry, error) {
	if policy.IsRule(name) {
		return r.store.PutRule(name, time.Now())
	}
	ref, err := policies.StoredRef(name)
	if err != nil {
		return checkpoints.Entry{}, err
	}
	return r.store.Lookup(ref)
}

// remember puts a stored policy into production by put, unless a restart would route by the
// policy of the name anyway.
func (r *Reloader) remember(name string, put func(checkpoints.Entry) error) error {
	defer func() {
		// What the store has in production now is not news at the next look.
		if entry, err := r.wanted(); err == nil && entry.Digest != "" {
			r.seen = identity(entry)
		}
	}()
	if r.starts(name) {
		return nil
	}
	entry, err := r.entry(name)
	if err != nil {
		return err
	}
	if err := put(entry); err != nil {
		return err
	}
	if r.options.Policy != "" {
		return fmt.Errorf("%s is in production, but serve was started with --policy %s", name, r.options.Policy)
	}
	return nil
}

// objectives are what the stored policies that were loaded are trained for, by name, except
// those of mean utility. A page may ask at any time.
type objectives struct{ of sync.Map }

// loaded notes what a policy is trained for that may route from now on.
func (o *objectives) loaded(e checkpoints.Entry) {
	if name := e.Ref().String(); e.Meta.Objective == "" {
		o.of.Delete(name) // another store may have had a policy of the name
	} else {
		o.of.Store(name, e.Meta.Objective)
	}
}

func (o *objectives) objective(name string) string {
	of, _ := o.of.Load(name)
	text, _ := of.(string)
	return text
}
