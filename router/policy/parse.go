package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gearshift/router/fleet"
	"gearshift/router/profile"
)

// RuleForms are the references that Parse understands, for error messages.
const RuleForms = "static:VARIANT, threshold[:a,b] or slackfit[:f]"

// IsRule says whether a reference has the form of a rule, right or wrong; else
// it can only name a stored policy.
func IsRule(ref string) bool {
	kind, _, _ := strings.Cut(ref, ":")
	return slices.Contains([]string{"static", "threshold", "slackfit"}, kind)
}

// Parse makes the rule that ref names: static:VARIANT, threshold[:a,b] (n−1
// ascending limits for n variants) or slackfit[:f]. Profiles are by replica
// index, and only slackfit needs them and the lengths.
func Parse(ref string, t *fleet.Table, profiles []*profile.Profile, lengths Lengths) (Rule, error) {
	kind, rest, given := strings.Cut(ref, ":")
	var rule Rule
	var err error
	switch {
	case kind == "static":
		rule, err = parseStatic(rest, t)
	case given && rest == "":
		err = fmt.Errorf("nothing follows the colon; want %s", RuleForms)
	case kind == "threshold":
		rule, err = parseThreshold(rest, t)
	case kind == "slackfit":
		rule, err = parseSlackFit(rest, t, profiles, lengths)
	default:
		err = fmt.Errorf("no such rule; want %s", RuleForms)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use policy %q: %w", ref, err)
	}
	return rule, nil
}

func parseStatic(name string, t *fleet.Table) (Rule, error) {
	variant := t.VariantIndex(name)
	if variant < 0 {
		names := make([]string, len(t.Variants))
		for i, v := range t.Variants {
			names[i] = v.Name
		}
		return nil, fmt.Errorf("no variant %q; the variants are %s", name, strings.Join(names, ", "))
	}
	return NewStatic(t, variant)
}

func parseThreshold(list string, t *fleet.Table) (Rule, error) {
	var limits []int
	if list != "" {
		for word := range strings.SplitSeq(list, ",") {
			limit, err := strconv.Atoi(strings.TrimSpace(word))
			if err != nil {
				return nil, fmt.Errorf("%q is not a whole number; want threshold:a,b", word)
			}
			limits = append(limits, limit)
		}
	}
	return NewThreshold(t, limits...)
}

func parseSlackFit(word string, t *fleet.Table, profiles []*profile.Profile, lengths Lengths) (Rule, error) {
	factor := DefaultFactor
	if word != "" {
		var err error
		if factor, err = strconv.ParseFloat(word, 64); err != nil {
			return nil, fmt.Errorf("%q is not a number; want slackfit:f", word)
		}
	}
	return NewSlackFit(t, profiles, lengths, factor)
}
