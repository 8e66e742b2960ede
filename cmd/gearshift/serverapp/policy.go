package serverapp

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/gate"
	"gearshift/cmd/gearshift/policies"
	"gearshift/router"
	"gearshift/router/policy"
)

// Newer implements [serving.Steward].
func (w *Steward) Newer() (p router.Policy, back bool, err error) {
	entry, err := w.wanted()
	if err != nil || entry.Digest == "" || identity(entry) == w.seen {
		return nil, false, err
	}
	if p, err = w.load(entry.Ref().String()); err != nil {
		return nil, false, err
	}
	if back, err = w.returns(entry); err != nil {
		return nil, false, err
	}
	w.seen = identity(entry)
	return p, back, nil
}

// returns says whether the store has gone back to the policy that was in charge before,
// and not on to it: after a promotion it would lead back to the one that is in charge.
func (w *Steward) returns(entry checkpoints.Entry) (bool, error) {
	if earlier, ok := w.core.Earlier(); !ok || earlier != w.nameOf(entry) {
		return false, nil
	}
	promoted, err := w.store.Before()
	if err != nil || promoted {
		return false, err // a promotion leads back, a rollback does not
	}
	previous, err := w.store.Lookup(checkpoints.Ref{Name: entry.Name, Alias: checkpoints.Previous})
	if errors.Is(err, checkpoints.ErrNotFound) {
		return true, nil
	}
	return err == nil && w.nameOf(previous) != w.core.PolicyName(), err
}

// nameOf is the name under which a stored version routes: a rule's own.
func (w *Steward) nameOf(e checkpoints.Entry) string {
	if e.Rule == "" {
		return e.Ref().String()
	}
	if rule, err := w.maker.Parse(e.Rule); err == nil {
		return rule.Name()
	}
	return e.Rule
}

// identity tells a stored version from others, and from one that has taken its
// place in another store.
func identity(e checkpoints.Entry) string { return e.Ref().String() + " " + e.Digest }

// wanted is the stored policy that should route: the one asked for at the start,
// or else the one in production. It is empty if a rule was asked for, or none is
// in production.
func (w *Steward) wanted() (checkpoints.Entry, error) {
	if policy.IsRule(w.options.Policy) {
		return checkpoints.Entry{}, nil
	}
	ref, err := w.reference()
	if errors.Is(err, checkpoints.ErrNotFound) {
		return checkpoints.Entry{}, nil
	}
	if err != nil {
		return checkpoints.Entry{}, err
	}
	return w.store.Lookup(ref)
}

func (w *Steward) reference() (checkpoints.Ref, error) {
	if w.options.Policy != "" {
		return policies.StoredRef(w.options.Policy)
	}
	return w.store.Production()
}

// load reads a stored policy, and warns of one from another world.
func (w *Steward) load(ref string) (router.Policy, error) {
	rule, err := w.store.Rule(ref)
	if err != nil {
		return nil, err
	}
	if rule != "" {
		return w.maker.Parse(rule)
	}
	p, entry, err := w.store.Stored(ref, w.maker)
	if err != nil {
		return nil, err
	}
	w.objectives.loaded(entry)
	if entry.Meta.ScenarioHash != w.now.Hash() {
		w.log.Warn("the policy was trained on another version of the scenario", "policy", entry.Ref().String(), "trained on", entry.Meta.Scenario)
	}
	return p, nil
}

// remedy is how the store comes by a policy in production: what was trained for this
// scenario is promoted, or the rule that it does not beat.
func (w *Steward) remedy() (key, commands string) {
	stored, _ := w.store.List() // a store that cannot be read says so where it is needed
	if ref := toPromote(stored, w.now.Hash(), w.now.Training.Objective.String()); ref != "" {
		return "to_promote_one", gate.PromotionIn(w.options.Store)(ref)
	}
	return w.options.Remedy(w.options.Scenario, w.now.Name, w.options.Store)
}

// toPromote is what the last version that was trained in a scenario and judged by the
// objective stands for: itself, or the rule that it is not better than; "" if there is none.
func toPromote(stored []checkpoints.Entry, scenario, by string) string {
	slices.SortStableFunc(stored, func(a, b checkpoints.Entry) int { return b.Created.Compare(a.Created) })
	for _, entry := range stored {
		if verdict, judged := gate.Stored(entry); judged && entry.Meta.ScenarioHash == scenario && verdict.Objective.String() == by {
			return gate.Choice(verdict)
		}
	}
	return ""
}

// Choose puts the policy asked for in charge. One that is asked for and cannot
// route is an error; one in production that cannot is left out, and the fallback
// routes.
func (w *Steward) Choose() error {
	if policy.IsRule(w.options.Policy) {
		rule, err := w.maker.Parse(w.options.Policy)
		if err != nil {
			return err
		}
		return w.core.SetPolicy(rule)
	}
	ref, err := w.reference()
	switch {
	case w.options.Policy == "" && errors.Is(err, checkpoints.ErrNotFound):
		key, commands := w.remedy()
		w.log.Warn("no policy is in production: the fallback routes", "fallback", w.core.PolicyName(), "why", w.fallback.why, key, commands)
		return nil
	case err != nil:
		return err
	}
	entry, err := w.store.Lookup(ref)
	if errors.Is(err, checkpoints.ErrNotFound) && w.options.Policy != "" {
		err = policies.MeantRule(w.options.Policy, err)
	}
	if err != nil {
		return err
	}
	w.seen = identity(entry) // another try without a change would come to the same
	p, err := w.load(ref.String())
	if err == nil {
		err = w.core.SetPolicy(p)
	}
	if err != nil && w.options.Policy == "" && !errors.Is(err, checkpoints.ErrLocked) {
		w.log.Error("the policy in production cannot route: the fallback does", "policy", ref.String(), "error", err, "fallback", w.core.PolicyName(), "why", w.fallback.why)
		return nil
	}
	return err
}

// Policy implements [serving.Steward].
func (w *Steward) Policy(ref string) (router.Policy, error) {
	if ref == "" {
		return nil, fmt.Errorf("no policy named; want %s", policies.Forms)
	}
	if policy.IsRule(ref) {
		return w.maker.Parse(ref)
	}
	if named, err := policies.NewestRef(ref); err == nil {
		ref = named.String()
	}
	return w.load(ref) // which says what is wrong with others
}

// Admit implements [serving.Steward]. A rule needs no evaluation: it is what
// others are held against.
func (w *Steward) Admit(name, reason string) error {
	if policy.IsRule(name) || strings.TrimSpace(reason) != "" {
		return nil
	}
	ref, err := policies.StoredRef(name)
	if err != nil {
		return err
	}
	c, entry, err := w.store.Get(ref)
	if err == nil && c != nil {
		err = gate.Bound(c, entry)
	}
	if err != nil {
		return err
	}
	return gate.Admit(entry, gate.PromotionIn(w.source.Store.Path), io.Discard)
}

// starts says whether a restart would route by the policy of the name anyway: the
// rule that was asked for, or the fallback where nothing is in production.
func (w *Steward) starts(name string) bool {
	if policy.IsRule(w.options.Policy) {
		rule, err := w.maker.Parse(w.options.Policy)
		return err == nil && rule.Name() == name
	}
	wanted, err := w.wanted()
	return name == "" && err == nil && wanted.Digest == ""
}

// Record implements [serving.Steward].
func (w *Steward) Record(name, reason string) error {
	return w.remember(name, func(e checkpoints.Entry) error {
		if reason = strings.TrimSpace(reason); reason == "" {
			reason = e.Forced
		}
		return w.store.Promote(e.Name, e.Version, reason)
	})
}

// Restore implements [serving.Steward].
func (w *Steward) Restore(name string) error {
	if name == "" && !w.starts(name) { // the fallback routes
		if err := w.store.Withdraw(); err != nil || w.options.Policy == "" {
			return err
		}
		return fmt.Errorf("none is in production, but serve was started with --policy %s", w.options.Policy)
	}
	return w.remember(name, func(e checkpoints.Entry) error { return w.store.Restore(e.Name, e.Version) })
}

// entry is the stored version of the policy of the name. A rule is stored if it is not yet.
func (w *Steward) entry(name string) (checkpoints.Entry, error) {
	if policy.IsRule(name) {
		return w.store.PutRule(name, time.Now())
	}
	ref, err := policies.StoredRef(name)
	if err != nil {
		return checkpoints.Entry{}, err
	}
	return w.store.Lookup(ref)
}

// remember has a stored policy put into production, unless a restart would route by
// the policy of the name anyway.
func (w *Steward) remember(name string, put func(checkpoints.Entry) error) error {
	defer func() {
		// What the store has in production by now is no news, whatever it is.
		if entry, err := w.wanted(); err == nil && entry.Digest != "" {
			w.seen = identity(entry)
		}
	}()
	if w.starts(name) {
		return nil
	}
	entry, err := w.entry(name)
	if err != nil {
		return err
	}
	if err := put(entry); err != nil {
		return err
	}
	if w.options.Policy != "" {
		return fmt.Errorf("%s is in production, but serve was started with --policy %s", name, w.options.Policy)
	}
	return nil
}
