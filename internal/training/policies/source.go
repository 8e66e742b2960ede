package policies

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/router/nn"
	"gearshift/router/policy"
)

// Runner runs the networks of stored policies.
type Runner func(*nn.MLP) (policy.ValueFunction, error)

// Source is where stored policies come from, and what runs them.
type Source struct {
	Store *checkpoints.Store
	Run   Runner // nil: the native one
}

// Values returns the network as the source runs it.
func (s *Source) Values(n *nn.MLP) (policy.ValueFunction, error) {
	if s.Run == nil {
		return n, nil
	}
	return s.Run(n)
}

// Stored loads the policy that ref names and fits it to the maker's fleet, which
// must have what [observation.Spec.Match] asks of it.
func (s *Source) Stored(ref string, m *policy.Maker) (policy.Network, checkpoints.Entry, error) {
	parsed, err := StoredRef(ref)
	if err != nil {
		return nil, checkpoints.Entry{}, fmt.Errorf("policy %q: %w; want %s", ref, err, Forms)
	}
	c, entry, err := s.Store.Get(parsed)
	if errors.Is(err, checkpoints.ErrNotFound) {
		err = MeantRule(ref, err)
	}
	if err != nil {
		return nil, entry, err
	}
	if err := Routes(entry); err != nil {
		return nil, entry, err
	}
	network, err := s.Values(c.Network)
	if err != nil {
		return nil, entry, fmt.Errorf("cannot load policy %q: %w", entry.Ref().String(), err)
	}
	p, err := m.Network(entry.Ref().String(), c.Meta.Spec, network, Trust(c.Meta))
	return p, entry, err
}

// Routes returns an error unless a stored policy routes requests, so that it can be the one in production.
func Routes(entry checkpoints.Entry) error {
	switch {
	case entry.Meta.Jobs != nil:
		return fmt.Errorf("policy %q decides which inputs jobs use, and routes no requests; gearshift train makes one that does", entry.Ref().String())
	case entry.Meta.Placement != nil:
		return fmt.Errorf("policy %q decides which sizes are loaded, and routes no requests; want it as serving.placement.policy", entry.Ref().String())
	}
	return nil
}

// Rule returns the rule that a reference to a stored version stands for; false if the version
// holds a network, or is not to be had, which [Source.Stored] says.
func (s *Source) Rule(ref string) (rule string, ok bool) {
	parsed, err := StoredRef(ref)
	if err != nil {
		return "", false
	}
	entry, err := s.Store.Lookup(parsed)
	return entry.Rule, err == nil && entry.Rule != ""
}

// Objective returns what a stored policy was trained for.
func Objective(m checkpoints.Meta) (evaluation.Objective, error) {
	o, err := evaluation.ParseObjective(m.Objective)
	if err != nil {
		err = fmt.Errorf("it was trained for what another version knows: %w", err)
	}
	return o, err
}

// Aim returns the objective as a checkpoint has it, which leaves out utility; see [Objective].
func Aim(o evaluation.Objective) string {
	if o == evaluation.MeanUtility {
		return ""
	}
	return o.String()
}

// Trust returns how far a stored policy is to be trusted against advice.
func Trust(m checkpoints.Meta) policy.Trust {
	return policy.Trust{Seen: m.Seen, Caution: m.Caution}
}

// Network returns the policy of the reference, on the whole fleet also if it is static. It notes a
// stored one that was trained on another version of the scenario.
func (s *Source) Network(m *policy.Maker, ref string, on *scenario.Scenario, notes *[]string) (policy.Network, error) {
	if IsClairvoyant(ref) {
		return nil, fmt.Errorf("policy %q: a clairvoyant looks into the simulator, and has no choice on a logged view; want %s", ref, Forms)
	}
	if stored, ok := s.Rule(ref); ok && !policy.IsRule(ref) {
		ref = stored
	}
	if policy.IsRule(ref) {
		return m.Parse(ref)
	}
	p, entry, err := s.Stored(ref, m)
	if err == nil && entry.Meta.ScenarioHash != on.Hash() {
		*notes = append(*notes, fmt.Sprintf("policy %s was trained on another version of the scenario (%s %.12s, here %s %.12s)",
			entry.Ref(), entry.Meta.Scenario, entry.Meta.ScenarioHash, on.Name, on.Hash()))
	}
	return p, err
}

// StoredRef reads a reference to a stored policy, with or without the "store:"
// that sets it apart from rules elsewhere.
func StoredRef(text string) (checkpoints.Ref, error) {
	name, isStored := strings.CutPrefix(text, "store:")
	ref, err := checkpoints.ParseRef(name)
	if err != nil && !isStored {
		err = MeantRule(name, err)
	}
	return ref, err
}

// MeantRule adds to what is wrong with a reference the rule that it is nearly the name of.
func MeantRule(text string, err error) error {
	kind, _, parameters := strings.Cut(text, ":")
	switch meant := scenario.Closest(kind, policy.Kinds()); {
	case meant != "" && meant != kind:
		return fmt.Errorf("%w; did you mean the rule %s?", err, meant)
	case parameters:
		return fmt.Errorf("%w; the rules are %s", err, strings.Join(policy.Kinds(), ", "))
	}
	return err
}

// NewestRef is [StoredRef] for what is to be tried or promoted: a name alone is its
// newest version, as the one in production needs neither.
func NewestRef(text string) (checkpoints.Ref, error) {
	ref, err := StoredRef(text)
	if err == nil && ref.Version == 0 && ref.Alias == "" {
		ref.Alias = checkpoints.Newest
	}
	return ref, err
}

// CheckName refuses a --name that a stored policy cannot have.
func CheckName(name string) error {
	if ref, err := checkpoints.ParseRef(name); err != nil || ref != (checkpoints.Ref{Name: name}) || policy.IsRule(name) {
		return fmt.Errorf("--name %q cannot name a policy: want a-z, 0-9, '.', '_' and '-', and none of the rules' names", name)
	}
	return nil
}

// TooOld is why a store removes versions by itself.
const TooOld = ", the oldest without an alias"

// TellRemoved says which versions of a policy are removed, and why.
func TellRemoved(w io.Writer, name string, versions []int, why string) {
	for _, version := range versions {
		fmt.Fprintf(w, "removed %s%s\n", checkpoints.Ref{Name: name, Version: version}, why)
	}
}
