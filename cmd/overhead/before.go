//go:build linux

package main

import (
	"fmt"
	"io"
	"math"
	"slices"
)

// The two builds that are compared: the present commit's, and an earlier one's.
const (
	present = "gearshift"
	before  = "gearshift-before"
)

// alternate puts the two builds side by side, the earlier one first in every other
// round: what changes on the machine from one measurement to the next then
// favours each as often as the other.
func alternate(targets []target, round int) {
	named := func(name string) int {
		return slices.IndexFunc(targets, func(t target) bool { return t.name == name })
	}
	if named(present) < 0 || named(before) < 0 {
		return
	}
	earlier := targets[named(before)]
	rest := slices.Delete(targets, named(before), named(before)+1)
	at := named(present) + round%2
	copy(targets[at+1:], rest[at:])
	targets[at] = earlier
}

// compared is a figure of which the two builds' difference is reported.
type compared struct {
	name    string
	kind    string
	value   func(measurement) float64
	added   bool // less that without a proxy
	largest bool // measured with the largest prompts as well; else with the smallest alone
}

var comparisons = []compared{
	{"added to the median with one client", kindLatency, measurement.p50us, true, true},
	{"answers a second with 32 clients", kindThroughput, func(m measurement) float64 { return m.Rate }, false, true},
	{"processor time of a request with 32 clients", kindThroughput, func(m measurement) float64 { return m.CPU }, false, true},
	{"p99 at 70 % of its own most", kindOpen, measurement.p99ms, false, true},
	{"added to the first event of a stream", kindStream, measurement.p50us, true, false},
}

// differences is the table of how the present build stands to the earlier one,
// if both were measured.
func (t *table) differences(out io.Writer) {
	if !slices.Contains(t.targets, before) || !slices.Contains(t.targets, present) {
		return
	}
	fmt.Fprintf(out, "\n## %s against %s, paired by round\n\n", present, before)
	fmt.Fprint(out, "Median difference in % of the earlier build's figure, and its 95 % interval.\n\n|  |")
	for _, size := range t.sizes {
		fmt.Fprintf(out, " %d KB |", size>>10)
	}
	fmt.Fprint(out, "\n|---|")
	for range t.sizes {
		fmt.Fprint(out, "---|")
	}
	fmt.Fprintln(out)
	for _, c := range comparisons {
		fmt.Fprintf(out, "| %s |", c.name)
		for i, size := range t.sizes {
			if i > 0 && !c.largest {
				fmt.Fprint(out, " – |")
				continue
			}
			fmt.Fprintf(out, " %s |", t.difference(c, size))
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out)
}

func (t *table) difference(c compared, size int) string {
	f := t.of(c.kind, size, c.value)
	if c.added {
		f = added(f)
	}
	var list []float64
	for round := range t.rounds {
		now, ok := f(round, present)
		then, also := f(round, before)
		if ok && also && then > 0 {
			list = append(list, 100*(now-then)/then)
		}
	}
	if len(list) == 0 {
		return "–"
	}
	slices.Sort(list)
	n := len(list)
	middle := (list[(n-1)/2] + list[n/2]) / 2
	k := rank(n)
	if k < 0 {
		return fmt.Sprintf("%+.1f (%d rounds are too few for an interval)", middle, n)
	}
	return fmt.Sprintf("%+.1f (%+.1f to %+.1f)", middle, list[k], list[n-1-k])
}

// rank is the largest k for which the k-th smallest and the k-th largest of n values,
// counted from zero, enclose their distribution's median with a probability of
// at least 95 %: the interval of the sign test. It is -1 if n is too small for one.
func rank(n int) int {
	below, p := 0.0, math.Pow(0.5, float64(n)) // P(X ≤ k), P(X = k) for X binomial of n and 1/2
	for k := 0; ; k++ {
		if below += p; below > 0.025 || k > n {
			return k - 1
		}
		p *= float64(n-k) / float64(k+1)
	}
}
