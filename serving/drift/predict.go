package drift

import (
	"time"

	"gearshift/router/profile"
)

// sweeps is how often the duties of a host's engines are worked out in turn: each
// slows the others, and is the less busy for being slowed.
const sweeps = 3

// batch is what a replica runs.
type batch struct {
	profile            *profile.Profile
	sequences, context int
	duty               float64
}

// beside works out its step and duty beside neighbours of that duty.
func (b *batch) beside(neighbours float64) (ms float64) {
	ms, b.duty = b.profile.Step(b.sequences, b.sequences, b.context, neighbours)
	return ms
}

// batch is what the replica runs now, with one sequence at least. Of more than an
// engine runs at once, the rest waits.
func (m *Monitor) batch(i int) batch {
	r := &m.replicas[i]
	n := int(r.load.sequences.Load() + r.others.sequences.Load())
	context := int(r.load.context.Load() + r.others.context.Load())
	if most := m.config.Sequences; most > 0 && n > most {
		n, context = most, context*most/n
	}
	return batch{profile: r.profile, sequences: max(n, 1), context: max(context, 0)}
}

// step is the predicted time of the replica's next decode step, in milliseconds,
// and the duty of its neighbours.
func (m *Monitor) step(replica int) (ms, neighbours float64) {
	var room [8]batch // more busy replicas on one host would allocate
	busy := append(room[:0], m.batch(replica))
	for _, i := range m.table.ReplicasOn(m.table.Replicas[replica].Host) {
		r := &m.replicas[i]
		if i != replica && r.profile != nil && r.load.sequences.Load()+r.others.sequences.Load() > 0 {
			busy = append(busy, m.batch(i))
		}
	}
	var duties float64
	for k := range busy {
		ms = busy[k].beside(0)
		duties += busy[k].duty
	}
	if len(busy) > 1 {
		for range sweeps {
			for k := range busy {
				duties -= busy[k].duty
				busy[k].beside(duties)
				duties += busy[k].duty
			}
		}
		neighbours = duties - busy[0].duty
		ms = busy[0].beside(neighbours)
	}
	return ms, neighbours
}

// prefill adds what the prompt takes from those that decode on the replica.
func (m *Monitor) prefill(replica int, now time.Duration, prompt int) {
	r := &m.replicas[replica]
	step, neighbours := m.step(replica)
	before := time.Duration(r.begun.Swap(int64(now)))
	var ms float64
	if m.config.Chunked {
		b := m.batch(replica)
		ms, _ = r.profile.Time(b.sequences+prompt, b.sequences+1, b.context, neighbours)
		ms -= step
	} else if ms, _ = r.profile.Time(prompt, 1, 0, neighbours); now-before < profile.Duration(ms/2) {
		// Sooner after another than a step takes: both were in the same.
		all := int(r.together.Add(int64(prompt)))
		less, _ := r.profile.Time(all-prompt, 1, 0, neighbours)
		ms, _ = r.profile.Time(all, 2, 0, neighbours)
		ms -= less
	} else {
		r.together.Store(int64(prompt))
	}
	r.prefilled.Add(int64(profile.Duration(max(ms, 0) + r.profile.Prompt)))
}
