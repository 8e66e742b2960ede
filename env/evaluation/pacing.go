package evaluation

import (
	"runtime"

	"gearshift/env"
)

// Pacing bounds how much of the machine an evaluation or a search takes. The zero value takes all cores.
// Results do not depend on it.
type Pacing struct {
	// Cores bounds those that play; 0 is all.
	Cores int
	// Pause, if set, is called by each of them between some decisions and the next.
	Pause func()
}

// pauseEvery counts the decisions that a core plays between two pauses, in about half a millisecond.
const pauseEvery = 64

func (p *Pacing) cores() int {
	if p.Cores > 0 {
		return min(p.Cores, runtime.GOMAXPROCS(0))
	}
	return runtime.GOMAXPROCS(0)
}

// due returns a function that is called at each decision of a run; nil without pauses.
func (p *Pacing) due() func(*env.Environment) {
	if p.Pause == nil {
		return nil
	}
	decisions := 0
	return func(*env.Environment) {
		if decisions++; decisions%pauseEvery == 0 {
			p.Pause()
		}
	}
}
