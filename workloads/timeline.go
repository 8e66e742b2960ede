package workloads

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Step is one change of a replica at a time.
type Step struct {
	// Verb is load, unload, sleep, wake, drain or undrain.
	Verb string
	// Replica is named VARIANT@HOST.
	Replica string
	// At is the time since the workload began.
	At time.Duration
}

// String is the step as it is written in a workload.
func (s Step) String() string { return s.Verb + ":" + s.Replica + "@" + plainSeconds(s.At) }

// step reads "opt-6.7b@gpu0@60", and writes it into the timeline.
func step(verb string) func(d *Departure, text string) error {
	return func(d *Departure, text string) error {
		at := max(0, strings.LastIndexByte(text, '@'))
		variant, host, _ := strings.Cut(text[:at], "@")
		moment, ok := parseMoment(strings.TrimPrefix(text[at:], "@"))
		if variant == "" || host == "" || !ok {
			return fmt.Errorf("%q is not a replica and a time such as +%s:opt-6.7b@gpu0@60, in seconds", text, verb)
		}
		d.Timeline += "+" + Step{Verb: verb, Replica: text[:at], At: moment}.String()
		return nil
	}
}

// Steps are those of the timeline in order of their times.
func (d Departure) Steps() (steps []Step) {
	for _, text := range strings.Split(d.Timeline, "+") {
		verb, rest, _ := strings.Cut(text, ":")
		at := strings.LastIndexByte(rest, '@')
		if verb == "lost" || at < 0 {
			continue
		}
		moment, _ := parseMoment(rest[at+1:])
		steps = append(steps, Step{Verb: verb, Replica: rest[:at], At: moment})
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return steps
}

// Losses are all hosts that are lost.
func (d Departure) Losses() (losses []Loss) {
	if d.Lost != (Loss{}) {
		losses = append(losses, d.Lost)
	}
	for _, text := range strings.Split(d.Timeline, "+") {
		if rest, ok := strings.CutPrefix(text, "lost:"); ok {
			if l, err := parseLoss(rest); err == nil { // as it was when it was written
				losses = append(losses, l)
			}
		}
	}
	return losses
}
