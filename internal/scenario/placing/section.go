// Package placing reads the section serving.placement of a scenario: the rule that decides which sizes are loaded on
// which host, and its limits.
package placing

import (
	"cmp"
	"fmt"
	"regexp"
	"time"

	"gearshift/router/placement/layouts"
)

// Section sets how a router decides which replicas of a host are up together. docs/placement.md describes the keys.
type Section struct {
	// Rule decides; empty leaves all replicas as they are.
	Rule string `yaml:"rule"`
	// Policy names a stored policy that decides in place of the rule, which is then the fallback.
	Policy string `yaml:"policy,omitempty"`
	// Pinned lists replicas, entries of replicas by their names, and variants that are part of every layout of their hosts.
	Pinned []string `yaml:"pinned,flow,omitempty"`
	// MovesPerMinute bounds the changes that begin within a minute; zero sets no bound.
	MovesPerMinute int `yaml:"moves_per_minute"`
	// StayS is the least time in seconds for which a layout stays; the rule's own counts if it is longer.
	StayS float64 `yaml:"stay_s,omitempty"`
	// DrainS bounds the time in seconds in which the requests of a replica end before it is put to sleep.
	DrainS float64 `yaml:"drain_s"`
	// Hours lists the times of the day at which changes may begin, such as 08:00-20:00; none is all day.
	Hours []string `yaml:"hours,flow,omitempty"`
	// Shadow reports changes, and makes none.
	Shadow bool `yaml:"shadow,omitempty"`
}

// Initial returns the defaults.
func Initial() Section { return Section{MovesPerMinute: 6, DrainS: 120} }

// On reports whether anything decides.
func (s *Section) On() bool { return s.Rule != "" || s.Policy != "" }

// Fallback returns the rule that decides where no policy does.
func (s *Section) Fallback() string { return cmp.Or(s.Rule, "worth") }

// Judge reports what is wrong with the numbers, by key below the section's.
func (s *Section) Judge(found func(key, format string, args ...any)) {
	if s.Rule != "" {
		if _, err := layouts.Parse(s.Rule); err != nil {
			found("rule", "%v", err)
		}
	}
	if s.MovesPerMinute < 0 || s.MovesPerMinute > 1000 {
		found("moves_per_minute", "want a number from 1 to 1000, or 0 for any, not %d", s.MovesPerMinute)
	}
	if !(s.StayS >= 0 && s.StayS <= 86400) {
		found("stay_s", "want seconds from 0 to 86400, not %v", s.StayS)
	}
	if !(s.DrainS > 0 && s.DrainS <= 3600) {
		found("drain_s", "want seconds above 0 and at most 3600, not %v", s.DrainS)
	}
	for i, text := range s.Hours {
		if _, err := hours(text); err != nil {
			found(fmt.Sprintf("hours[%d]", i), "%v", err)
		}
	}
}

// Options returns the settings of a controller, without what follows from the fleet. The section has been judged.
func (s *Section) Options() (o layouts.Options) {
	o.Rule, _ = layouts.Parse(s.Fallback())
	o.Stay = max(o.Stay, time.Duration(s.StayS*float64(time.Second)))
	o.PerMinute, o.Shadow = s.MovesPerMinute, s.Shadow
	o.Drain = time.Duration(s.DrainS * float64(time.Second))
	for _, text := range s.Hours {
		h, _ := hours(text)
		o.Hours = append(o.Hours, h)
	}
	return o
}

// partOfDay matches the whole text of a part of the day.
var partOfDay = regexp.MustCompile(`^\d{1,2}:\d{2}-\d{1,2}:\d{2}$`)

// hours reads a part of the day, such as 22:00-06:00.
func hours(text string) (h layouts.Hours, err error) {
	var from, fromMinute, to, toMinute int
	n, err := fmt.Sscanf(text, "%d:%d-%d:%d", &from, &fromMinute, &to, &toMinute)
	fits := func(hour, minute int) bool {
		return hour >= 0 && minute >= 0 && minute < 60 && (hour < 24 || hour == 24 && minute == 0)
	}
	if err != nil || n != 4 || !partOfDay.MatchString(text) || !fits(from, fromMinute) || !fits(to, toMinute) {
		return h, fmt.Errorf("%q is not a part of the day; want one such as 08:00-20:00", text)
	}
	if from == to && fromMinute == toMinute {
		return h, fmt.Errorf("%q begins when it ends; want one such as 08:00-20:00, or no hours for all day", text)
	}
	at := func(hour, minute int) time.Duration {
		return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute
	}
	return layouts.Hours{From: at(from, fromMinute), To: at(to, toMinute)}, nil
}
