package validation

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"

	"gearshift/internal/calibrate/loadgen"
	"gearshift/internal/calibrate/profiling"
)

// run returns what is said of a load of the replicas in all cases.
func (l *validator) run(replicas []int, load float64) Run {
	t := l.fleet.Table
	run := Run{What: CoResident, Load: load}
	for _, r := range replicas {
		run.Rate += load / float64(len(replicas)) * l.rates[r]
	}
	if len(t.Hosts) > 1 {
		run.Host = t.Hosts[t.Replicas[replicas[0]].Host].Name
	}
	if len(replicas) == 1 {
		run.What, run.Variant = Alone, t.Variants[t.Replicas[replicas[0]].Variant].Name
	}
	return run
}

// judge enters a load of the replicas, which was sent once, or once in each turn.
func (l *validator) judge(replicas []int, load float64, turns []*sent) error {
	run := l.run(replicas, load)
	var all comparison
	for _, s := range turns {
		run.Stolen += s.stolen / float64(len(turns))
		c, err := l.compared(s)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	l.doubt(run)
	for _, r := range replicas { // each variant of its own, and all together
		v := l.fleet.Table.Replicas[r].Variant
		of := run
		of.Variant = l.fleet.Table.Variants[v].Name
		of.Slowness = slownessOf(r, turns)
		l.out.add(of, all, func(m *met) bool { return m.variant == v })
	}
	return nil
}

// doubt notes a run during which much of the processors' time was stolen.
func (l *validator) doubt(run Run) {
	if run.Stolen > loadgen.MostStolen {
		l.out.Notes = append(l.out.Notes, fmt.Sprintf("%s at load %g is doubtful: %s", run.name(), run.Load, profiling.StolenWords(run.Stolen)))
	}
}

// compared simulates what was sent to replicas that were named.
func (l *validator) compared(s *sent) (c compared, err error) {
	c.sent = s
	if c.predicted, err = simulatedRun(l.fleet, s.arrivals, &pinned{replicas: s.replicas}); err != nil || len(s.before) == 0 {
		return c, err
	}
	c.slowed, err = simulatedRun(l.slowedBy(s), s.arrivals, &pinned{replicas: s.replicas})
	return c, err
}

// compared is what was sent once, and what is predicted of it: slowed where a slowness
// was measured.
type compared struct {
	*sent
	predicted, slowed []met
}

// comparison is a load that was sent in one turn or several.
type comparison []compared

// mean returns that of a figure over the requests that the function says, or all; slowed
// compares with what is predicted of the slowed fleet.
func (c comparison) mean(slowed bool, of func(*met) bool, figure func(*met) float64) (p pair, n int) {
	for _, t := range c {
		predicted := t.predicted
		if slowed {
			predicted = t.slowed
		}
		for i := range t.measured {
			if m := &t.measured[i]; of == nil || of(m) {
				p.Measured, p.Predicted = p.Measured+figure(m), p.Predicted+figure(&predicted[i])
				n++
			}
		}
	}
	p.Measured, p.Predicted = p.Measured/float64(max(1, n)), p.Predicted/float64(max(1, n))
	return p, n
}

func endToEnd(m *met) float64 { return m.perToken * float64(m.tokens) }
func ttft(m *met) float64     { return m.ttft }
func tpot(m *met) float64     { return m.tpot }

// add enters a run, of the requests that the function says, or of all.
func (r *Report) add(run Run, c comparison, of func(*met) bool) {
	mean := func(figure func(*met) float64) (p pair) {
		p, run.Requests = c.mean(false, of, figure)
		return p
	}
	run.TTFT, run.TPOT, run.EndToEnd = mean(ttft), mean(tpot), mean(endToEnd)
	run.PerToken = mean(func(m *met) float64 { return m.perToken })
	run.Utility = mean(func(m *met) float64 { return m.utility })
	run.Met = mean(func(m *met) float64 {
		if m.inTime {
			return 1
		}
		return 0
	})
	if s := run.Slowness; s != nil {
		s.TPOT, _ = c.mean(true, of, tpot)
		s.EndToEnd, _ = c.mean(true, of, endToEnd)
	}
	for _, t := range c {
		run.Refused += t.refused
		for k, figure := range []func(*met) float64{endToEnd, ttft, tpot} {
			for i := range t.measured {
				if m := &t.measured[i]; (of == nil || of(m)) && figure(m) > 0 {
					run.errors[k] = append(run.errors[k], math.Abs(figure(&t.predicted[i])/figure(m)-1))
				}
			}
		}
		if len(c) > 1 {
			var each turn
			each.TPOT, _ = comparison{t}.mean(false, of, tpot)
			each.EndToEnd, _ = comparison{t}.mean(false, of, endToEnd)
			if run.Slowness != nil {
				each.SlowedTPOT, _ = comparison{t}.mean(true, of, tpot)
				each.SlowedEndToEnd, _ = comparison{t}.mean(true, of, endToEnd)
			}
			run.Turns = append(run.Turns, each)
		}
	}
	r.Runs = append(r.Runs, run)
}

// turn is what one turn says by itself.
type turn struct {
	TPOT     pair `json:"tpot_ms"`
	EndToEnd pair `json:"e2e_ms"`
	// The same, predicted as slow as the turn's measuring found the machine.
	SlowedTPOT     pair `json:"slowed_tpot_ms"`
	SlowedEndToEnd pair `json:"slowed_e2e_ms"`
}

func (t *turn) tpot() pair           { return t.TPOT }
func (t *turn) endToEnd() pair       { return t.EndToEnd }
func (t *turn) slowedTPOT() pair     { return t.SlowedTPOT }
func (t *turn) slowedEndToEnd() pair { return t.SlowedEndToEnd }

// within returns the standard error of a mean over turns, by how much they differ.
func within(turns []turn, of func(*turn) pair) float64 {
	var off []float64
	for i := range turns {
		off = append(off, of(&turns[i]).off())
	}
	return stat.StdErr(stat.StdDev(off, nil), float64(len(off)))
}
