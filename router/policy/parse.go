package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gearshift/router/fleet"
)

// RuleForms are the references that Parse understands, for error messages.
const RuleForms = "static:VARIANT, threshold[:a,b], task-threshold[:a,b/a,b/…], slackfit[:f[,k]], " +
	"least-work[:b,w], priced[:l,s,o,u,b], task-aware[:f,g,k,h,b], budget[:s,c,f,g,k,h,b] or universal[:s,n,o,u,b]"

// kinds are the words before the colon.
var kinds = []string{"static", "threshold", "task-threshold", "slackfit", "least-work", "priced", "task-aware", "budget", Untuned}

// Kinds are the words that rules begin with.
func Kinds() []string { return slices.Clone(kinds) }

// IsRule reports whether a reference has the form of a rule, right or wrong; else
// it can only name a stored policy.
func IsRule(ref string) bool {
	kind, _, _ := strings.Cut(ref, ":")
	return slices.Contains(kinds, kind)
}

// Parse makes the rule that ref names, one of [RuleForms]: of static a variant's
// name, of threshold n−1 ascending limits for n variants, of task-threshold
// such limits for each task, of the others the parameters that their types
// describe, of which the last may be left out.
func (m *Maker) Parse(ref string) (Rule, error) {
	t := m.Table
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
	case kind == "task-threshold":
		rule, err = parseTaskThreshold(rest, t)
	default:
		rule, err = m.parseNumbers(kind, rest)
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
	limits, err := parseLimits(list, "threshold:a,b")
	if err != nil {
		return nil, err
	}
	return NewThreshold(t, limits...)
}

func parseTaskThreshold(list string, t *fleet.Table) (Rule, error) {
	var ladders [][]int
	if list != "" {
		for ladder := range strings.SplitSeq(list, "/") {
			limits, err := parseLimits(ladder, "task-threshold:a,b/a,b")
			if err != nil {
				return nil, err
			}
			ladders = append(ladders, limits)
		}
	}
	return NewTaskThreshold(t, ladders...)
}

func parseLimits(list, want string) ([]int, error) {
	if list == "" {
		return nil, nil
	}
	var limits []int
	for word := range strings.SplitSeq(list, ",") {
		limit, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number; want %s", word, want)
		}
		limits = append(limits, limit)
	}
	return limits, nil
}

// numbered are the rules whose parameters are numbers, and what makes them.
var numbered = []struct {
	form *form
	make func(m *Maker, values []float64) (Rule, error)
}{
	{&slackFitForm, newSlackFit},
	{&leastWorkForm, newLeastWork},
	{&pricedForm, newPriced},
	{&taskAwareForm, newTaskAware},
	{&budgetForm, newBudget},
	{&universalForm, newUniversal},
}

func (m *Maker) parseNumbers(kind, list string) (Rule, error) {
	for _, rule := range numbered {
		if rule.form.kind == kind {
			values, err := rule.form.parse(list)
			if err != nil {
				return nil, err
			}
			return rule.make(m, values)
		}
	}
	return nil, fmt.Errorf("no such rule; want %s", RuleForms)
}
