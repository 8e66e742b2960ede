package validation

import (
	"context"
	"fmt"
	"slices"

	"gearshift/internal/calibrate/loadgen"
	"gearshift/internal/calibrate/profiling"
)

// measuredOutput is how many tokens each answer has whose steps are timed.
const measuredOutput = 32

// inTurns measures the profiles and sends the loads by turns, so that both meet the
// machine as it is by then, and holds all that was sent against the profiles that all of
// the measuring gives. The scenario's own say no more than how much load 1 is.
func (l *validator) inTurns(ctx context.Context) error {
	for _, m := range l.scenario.Models {
		if len(m.Hosts) > 0 {
			return fmt.Errorf("--turns: scenario %s has a profile of %s for some hosts; leave one profile of each variant without hosts", l.scenario.Name, m.Variant)
		}
	}
	l.Volley, l.slowByTurn = 0, map[string][]float64{}
	l.runs = l.Turns * len(l.Loads) * len(l.sets)
	sessions, err := l.sessions(ctx)
	defer func() {
		for _, s := range sessions {
			s.Close()
		}
	}()
	if err != nil {
		return err
	}
	turns := make([][]*sent, len(l.sets)*len(l.Loads))
	for turn := range l.Turns {
		if err := l.turn(ctx, turn, sessions, turns); err != nil {
			return err
		}
	}
	if err := l.adopt(sessions); err != nil {
		return err
	}
	l.noteSlowness(turns)
	for i, set := range l.sets {
		for k, load := range l.Loads {
			if err := l.judge(set, load, quiet(turns[i*len(l.Loads)+k])); err != nil {
				return err
			}
		}
	}
	return nil
}

// turn measures each variant alone just before it is loaded for the first time, and next to
// the others just before one of their loads together, and sends every load once.
func (l *validator) turn(ctx context.Context, turn int, sessions map[int]*loadgen.Session, turns [][]*sent) error {
	var begun, waiting []int // variants measured alone, and those not yet next to others
	sample := func(variants []int, words string, half func(*loadgen.Session, context.Context) error) error {
		for _, v := range variants {
			l.progress(fmt.Sprintf("turn %d of %d: measuring %s%s", turn+1, l.Turns, l.fleet.Table.Variants[v].Name, words))
			if err := half(sessions[v], ctx); err != nil {
				return err
			}
		}
		return nil
	}
	beside := func(n int) error {
		now := waiting[:n]
		waiting = waiting[n:]
		return sample(now, " next to others", (*loadgen.Session).Beside)
	}
	for i, set := range l.sets {
		fresh := l.variants(set, begun)
		begun, waiting = append(begun, fresh...), append(waiting, fresh...)
		if err := sample(fresh, "", (*loadgen.Session).Alone); err != nil {
			return err
		}
		together := len(set) > 1
		if together { // some are measured before each load, in each turn others before the first
			first := turn % max(1, len(waiting))
			waiting = slices.Concat(waiting[first:], waiting[:first])
		}
		for k, load := range l.Loads {
			if together {
				if err := beside(len(waiting) / (len(l.Loads) - k)); err != nil {
					return err
				}
			}
			s, err := l.direct(ctx, set, load)
			if err != nil {
				return err
			}
			turns[i*len(l.Loads)+k] = append(turns[i*len(l.Loads)+k], s)
		}
	}
	return beside(len(waiting))
}

// variants returns those of the replicas that are not among the others.
func (l *validator) variants(replicas, others []int) (list []int) {
	for _, r := range replicas {
		if v := l.fleet.Table.Replicas[r].Variant; !slices.Contains(others, v) && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// sessions begin the measurement of each variant that is loaded, by its index, next to
// the others of its host.
func (l *validator) sessions(ctx context.Context) (map[int]*loadgen.Session, error) {
	t := l.fleet.Table
	list := map[int]*loadgen.Session{}
	for _, r := range slices.Concat(l.sets...) {
		v := t.Replicas[r].Variant
		if list[v] != nil {
			continue
		}
		c := loadgen.Config{
			Batches: l.Batches, Prompts: l.Prompts, Output: measuredOutput,
			Seed: l.Seed<<8 + uint64(v), Transport: l.by, Processors: l.machine,
		}
		var err error
		if c.Target, err = l.server(r); err != nil {
			return list, err
		}
		for _, n := range t.ReplicasOn(t.Replicas[r].Host) {
			if n == r {
				continue
			}
			at, err := l.server(n)
			if err != nil {
				return list, err
			}
			c.Neighbours = append(c.Neighbours, at)
		}
		if list[v], err = loadgen.Begin(ctx, c); err != nil {
			delete(list, v)
			return list, err
		}
	}
	return list, nil
}

// adopt has the fleet run by the profiles measured.
func (l *validator) adopt(sessions map[int]*loadgen.Session) error {
	for i := range l.scenario.Models {
		m := &l.scenario.Models[i]
		s := sessions[l.fleet.Table.VariantIndex(m.Variant)]
		if s == nil {
			continue
		}
		measured, err := s.Measurement()
		if err != nil {
			return err
		}
		l.slowByTurn[m.Variant] = measured.Slowness()
		p, err := profiling.Of(measured, profiling.Options{
			Variant: m.Variant, Resamples: resamples, Seed: l.Seed,
			WeightBytes: m.WeightBytes, ActivationBytes: m.ActivationBytes, KVBytes: m.KVBytes,
		})
		if err != nil {
			return err
		}
		m.Profile = p.Profiles[0].Profile
		for _, fault := range p.Measured.Faults {
			l.out.Notes = append(l.out.Notes, fmt.Sprintf("the model does not fit %s: %s", m.Variant, fault))
		}
		l.out.Profiles = append(l.out.Profiles, p)
	}
	return l.simulate()
}

// noteSlowness notes of all that was sent how slow the measuring of its turn had found
// the variants, in addition to that of all turns.
func (l *validator) noteSlowness(runs [][]*sent) {
	t := l.fleet.Table
	for _, turns := range runs {
		for turn, s := range turns {
			s.before = map[int]float64{}
			for _, r := range s.replicas {
				s.before[r] = l.slowByTurn[t.Variants[t.Replicas[r].Variant].Name][turn]
			}
			s.after = s.before
		}
	}
}

// resamples are the refits that the intervals of a profile come from.
const resamples = 200

// quiet leaves out the turns during which much was stolen, unless there are no others.
func quiet(turns []*sent) []*sent {
	kept := slices.DeleteFunc(slices.Clone(turns), func(s *sent) bool { return s.stolen > loadgen.MostStolen })
	if len(kept) == 0 {
		return turns
	}
	return kept
}
