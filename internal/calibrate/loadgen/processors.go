package loadgen

import (
	"fmt"

	"github.com/prometheus/procfs"
)

// Processors is what the processors that engines run on did since some moment, in
// seconds of all of them: All of their time, and what of it the host of a virtual
// machine gave to others. Nothing that is timed meanwhile is the engine's alone.
type Processors struct{ All, Stolen float64 }

// ReadProcessors reads what this machine's processors did since it began; nothing where
// its system does not report that.
func ReadProcessors() Processors {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return Processors{}
	}
	stat, err := fs.Stat()
	if err != nil {
		return Processors{}
	}
	c := &stat.CPUTotal
	return Processors{All: c.User + c.Nice + c.System + c.Idle + c.Iowait + c.IRQ + c.SoftIRQ + c.Steal, Stolen: c.Steal}
}

// StolenSince is the stolen share of the time since an earlier reading.
func (p Processors) StolenSince(before Processors) float64 {
	if p.All <= before.All {
		return 0
	}
	return (p.Stolen - before.Stolen) / (p.All - before.All)
}

// MostStolen is the stolen share above which what was timed is doubtful.
const MostStolen = 0.02

func (r *run) processors() Processors {
	if r.Processors == nil {
		return Processors{}
	}
	return r.Processors()
}

// undisturbed leaves out, of each cell, the samples during which more was stolen,
// unless it has no others.
func (r *run) undisturbed() {
	quiet := map[string]bool{}
	for i := range r.out.Samples {
		if s := &r.out.Samples[i]; s.Stolen <= MostStolen {
			quiet[s.Cell] = true
		}
	}
	var kept []Sample
	disturbed, out := map[string]bool{}, 0
	for _, s := range r.out.Samples {
		switch {
		case s.Stolen <= MostStolen:
		case quiet[s.Cell]:
			out++
			continue
		default:
			disturbed[s.Cell] = true
		}
		kept = append(kept, s)
	}
	const while = "while the host of this virtual machine gave more than %.0f %% of its processors to others"
	if out > 0 {
		r.out.Notes = append(r.out.Notes, fmt.Sprintf("%d of %d samples left out: they were taken "+while, out, len(r.out.Samples), 100*MostStolen))
	}
	if len(disturbed) > 0 {
		r.out.Notes = append(r.out.Notes, fmt.Sprintf("%d of %d loads were sampled only "+while+": doubtful", len(disturbed), len(disturbed)+len(quiet), 100*MostStolen))
	}
	r.out.Samples = kept
}
