package drift

import (
	"time"

	"gearshift/router/profile"
)

// runs is what the replica runs now, with one sequence at least, and the tokens that
// they hold. Of more than an engine runs at once, the rest waits.
func (m *Monitor) runs(i int) (sequences, context int) {
	r := &m.replicas[i]
	n := int(r.load.sequences.Load() + r.others.sequences.Load())
	context = int(r.load.context.Load() + r.others.context.Load())
	if most := m.config.Sequences; most > 0 && n > most {
		n, context = most, context*most/n
	}
	return max(n, 1), max(context, 0)
}

func (m *Monitor) batch(i int) profile.Batch {
	sequences, context := m.runs(i)
	return profile.NewBatch(m.replicas[i].profile.Load(), sequences, context)
}

// step returns the predicted time of the replica's next decode step, in milliseconds, and what it
// runs then.
func (m *Monitor) step(replica int) (ms float64, with Load) {
	var room [8]profile.Batch // more busy replicas on one host would allocate
	sequences, context := m.runs(replica)
	busy := append(room[:0], profile.NewBatch(m.replicas[replica].profile.Load(), sequences, context))
	for _, i := range m.table.ReplicasOn(m.table.Replicas[replica].Host) {
		r := &m.replicas[i]
		if i != replica && r.profile.Load() != nil && r.load.sequences.Load()+r.others.sequences.Load() > 0 {
			busy = append(busy, m.batch(i))
		}
	}
	neighbours := profile.Settle(busy) - busy[0].Duty
	return busy[0].Beside(neighbours), Load{float64(sequences), float64(context), neighbours}
}

// prefill adds what the prompt takes from those that decode on the replica.
func (m *Monitor) prefill(replica int, now time.Duration, prompt int) {
	r := &m.replicas[replica]
	step, with := m.step(replica)
	p, neighbours := r.profile.Load(), with.Neighbours
	before := time.Duration(r.begun.Swap(int64(now)))
	steps := 1
	var ms float64
	if m.config.Chunked {
		sequences, context := m.runs(replica)
		ms, _ = p.Time(sequences+prompt, sequences+1, context, neighbours)
		ms -= step
	} else if ms, _ = p.Time(prompt, 1, 0, neighbours); now-before < profile.Duration(ms/2) {
		// Sooner after another than a step takes: both were in the same.
		all := int(r.together.Add(int64(prompt)))
		steps = 0
		less, _ := p.Time(all-prompt, 1, 0, neighbours)
		ms, _ = p.Time(all, 2, 0, neighbours)
		ms -= less
	} else {
		r.together.Store(int64(prompt))
	}
	r.prompts.add(steps, prompt)
	r.prefilled.Add(int64(profile.Duration(max(ms, 0) + p.Prompt)))
}
