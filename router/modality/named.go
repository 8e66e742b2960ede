package modality

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Names of the policies that a configuration can choose, the usual one first.
var Names = []string{"foresight", "foresight-bold", "optimized", "optimized-literal", "random", "aggressive", "none-drop", "none"}

// boldly is the caution of the policy that has the most quality, and more violations than with
// [Caution].
const boldly = 1.5

// quickly bounds the states of a plan that is made while jobs wait; see [Planner.Limit].
const quickly = 512

// CheckName reports a name that is none of Names.
func CheckName(name string) error {
	if !slices.Contains(Names, name) {
		return fmt.Errorf("unknown policy %q; want one of %s", name, strings.Join(Names, ", "))
	}
	return nil
}

// Named makes the policy of a name for a worker that runs. Those that draw, draw from rng.
func Named(name string, t *Table, rng *rand.Rand) (Policy, error) {
	switch name {
	case "foresight":
		return foresighted(t, Caution), nil
	case "foresight-bold":
		return foresighted(t, boldly), nil
	case "optimized":
		return planner(t, PrefixSafe)
	case "optimized-literal":
		return planner(t, Literal)
	case "random":
		return NewRandom(t, StopByFinish, rng)
	case "aggressive":
		return NewAggressive(t), nil
	case "none-drop":
		return NewDropping(t), nil
	case "none":
		return NewAgnostic(t), nil
	}
	return nil, CheckName(name)
}

// IsStored reports whether a configuration's name is that of a stored policy: NAME@VERSION,
// NAME@ALIAS or store:NAME.
func IsStored(name string) bool {
	return strings.Contains(name, "@") || strings.HasPrefix(name, "store:")
}

// Trained makes the policy of a network for a worker that runs.
func Trained(t *Table, n Network) (Policy, error) {
	p, err := NewLearned(t, n)
	if err != nil {
		return nil, err
	}
	p.Limit(quickly)
	return p, nil
}

func foresighted(t *Table, caution float64) Policy {
	p := NewForesighted(t, caution)
	p.Limit(quickly)
	return p
}

func planner(t *Table, mode Mode) (Policy, error) {
	p, err := NewPlanner(t, mode)
	if err != nil {
		return nil, err
	}
	p.Limit(quickly)
	return p, nil
}
