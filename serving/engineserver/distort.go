package engineserver

import (
	"math"
	"slices"

	"gearshift/router/signals"
)

// How the server may misreport its load.
const (
	LoadZero     = "load_zero"     // nothing is in flight, ever
	LoadFrozen   = "load_frozen"   // what was said first is said for ever
	LoadJumps    = "load_jumps"    // every other report says a million requests
	LoadBack     = "load_back"     // the number of answered requests goes back
	LoadOverflow = "load_overflow" // no value is a number that a counter can have
	LoadAnother  = "load_another"  // it is said of another model
)

// misreports are all of them.
var misreports = []string{LoadZero, LoadFrozen, LoadJumps, LoadBack, LoadOverflow, LoadAnother}

// isMisreport reports whether the word stands for one.
func isMisreport(word string) bool { return slices.Contains(misreports, word) }

// distort makes of the load what the faults want.
func (i *injector) distort(l *signals.Load) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.reports++
	switch i.faults.Misreport {
	case LoadZero:
		l.Requests, l.Waiting, l.Host, l.Examples, l.Work, l.Utilization = 0, 0, 0, 0, 0, 0
	case LoadFrozen:
		if i.frozen == nil {
			i.frozen = &signals.Load{}
			*i.frozen = *l
		}
		*l = *i.frozen
	case LoadJumps:
		if i.reports%2 == 0 {
			l.Requests, l.Host, l.Work = 1e6, 1e6, 1e6
		}
	case LoadBack:
		l.Answered = max(0, 1e6-float64(i.reports))
	case LoadOverflow:
		l.Requests, l.Waiting, l.Host, l.Work = math.Inf(1), 1e308, math.Inf(1), math.NaN()
		l.Utilization, l.CPU = math.NaN(), 1e300
	case LoadAnother:
		l.Model++
	}
}
