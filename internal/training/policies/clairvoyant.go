package policies

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/env/planner"
	"gearshift/internal/scenario"
)

// ClairvoyantForms is how a clairvoyant over another policy is referred to.
const ClairvoyantForms = clairvoyantPrefix + "REF[@HORIZON[,PASSES]], HORIZON with its unit, such as 25s"

const clairvoyantPrefix = "clairvoyant:"

// IsClairvoyant reports whether a reference has the form of a clairvoyant, right or wrong.
func IsClairvoyant(ref string) bool {
	return strings.HasPrefix(ref, clairvoyantPrefix) || ref+":" == clairvoyantPrefix
}

// parseClairvoyant returns the base and the options that a reference names.
func parseClairvoyant(ref string) (base string, o planner.ClairvoyantOptions, err error) {
	o = planner.ClairvoyantOptions{Horizon: planner.DefaultHorizon, Passes: 1}
	_, base, _ = strings.Cut(ref, ":")
	if at := strings.LastIndexByte(base, '@'); at >= 0 {
		horizon, passes, several := strings.Cut(base[at+1:], ",")
		// A policy's own version follows an @ too; it is a bare number.
		if d, wrong := time.ParseDuration(horizon); wrong == nil && strings.ContainsAny(horizon, "smh") {
			base, o.Horizon = base[:at], d
			if several {
				o.Passes, err = strconv.Atoi(passes)
			}
		}
	}
	switch { // now, and not when others have been played
	case err != nil:
		err = errors.New("the passes are not a number")
	case o.Horizon < 0:
		err = fmt.Errorf("a horizon of %v lies in the past", o.Horizon)
	case o.Passes < 0:
		err = fmt.Errorf("%d passes; 0 or more are possible", o.Passes)
	case base == "":
		err = errors.New("no policy to plan with follows the colon")
	}
	if err != nil {
		err = fmt.Errorf("cannot use policy %q: %w; want %s", ref, err, ClairvoyantForms)
	}
	return base, o, err
}

// clairvoyantContestant returns the clairvoyant that ref names, on the scenario's whole
// fleet, even where its base would be evaluated alone.
func clairvoyantContestant(s *scenario.Scenario, source *Source, ref string, warn func(string)) (evaluation.Contestant, error) {
	name, options, err := parseClairvoyant(ref)
	if err != nil {
		return evaluation.Contestant{}, err
	}
	base, err := OnWholeFleet(s, source, name, warn)
	if err != nil {
		return evaluation.Contestant{}, err
	}
	return Clairvoyant(base, options), nil
}

// OnWholeFleet returns the policy with every replica to choose from, be it static.
func OnWholeFleet(s *scenario.Scenario, source *Source, ref string, warn func(string)) (evaluation.Contestant, error) {
	if IsClairvoyant(ref) {
		return evaluation.Contestant{}, fmt.Errorf("cannot plan with %q as the base: a clairvoyant over a clairvoyant takes too long", ref)
	}
	c, err := Contestant(s, source, ref, warn)
	if err != nil {
		return c, err
	}
	if _, ok := c.Decider.(evaluation.Placer); ok {
		return c, fmt.Errorf("cannot plan with %q as the base: it chooses replicas, a clairvoyant plans with variants", ref)
	}
	c.Fleet, err = s.Simulation()
	return c, err
}

// Clairvoyant returns the clairvoyant whose base is the contestant's policy.
func Clairvoyant(base evaluation.Contestant, o planner.ClairvoyantOptions) evaluation.Contestant {
	c := base
	c.Rule, c.Objective = false, evaluation.MeanUtility // it looks ahead for utility, whatever its base is
	c.Name = fmt.Sprintf("%s%s@%s", clairvoyantPrefix, base.Name, short(o.Horizon))
	if o.Passes > 1 {
		c.Name += fmt.Sprintf(",%d", o.Passes)
	}
	c.Open = func(e *env.Environment, r evaluation.Run) (evaluation.Decider, error) {
		return planner.NewClairvoyant(e, r.Seed, base.Decider, o)
	}
	return c
}

// short writes a duration without the zeros that follow from its parts.
func short(d time.Duration) string {
	if d%time.Second == 0 {
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return d.String()
}
