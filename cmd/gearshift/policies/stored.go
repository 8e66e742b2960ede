package policies

import (
	"fmt"
	"io"
	"strings"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/router/policy"
)

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
