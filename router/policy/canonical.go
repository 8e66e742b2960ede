package policy

import (
	"errors"
	"fmt"
	"strings"
)

// Canonical is the reference of a rule in the form of its name, with the parameters that
// were left out. It returns an error for what is no rule of any fleet; whether this one has
// the sizes and tasks that the rule names, [Maker.Parse] says.
func Canonical(ref string) (string, error) {
	kind, rest, given := strings.Cut(ref, ":")
	name, err := ref, error(nil)
	switch {
	case !IsRule(ref):
		err = fmt.Errorf("no such rule; want %s", RuleForms)
	case given && rest == "" || kind == "static" && !given:
		err = errors.New("nothing follows the colon; want " + RuleForms)
	case kind == "threshold":
		_, err = parseLimits(rest, "threshold:a,b")
	case kind == "task-threshold":
		for ladder := range strings.SplitSeq(rest, "/") {
			if _, err = parseLimits(ladder, "task-threshold:a,b/a,b"); err != nil {
				break
			}
		}
	}
	for _, rule := range numbered {
		if rule.form.kind == kind && err == nil {
			var values []float64
			if values, err = rule.form.parse(rest); err == nil {
				name = rule.form.name(values)
			}
		}
	}
	if err != nil {
		return "", fmt.Errorf("cannot use policy %q: %w", ref, err)
	}
	return strings.ReplaceAll(name, " ", ""), nil
}
