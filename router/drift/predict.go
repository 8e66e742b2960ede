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
	return profile.NewBatch(m.replicas[i].profile, sequences, context)
}

// step is the predicted time of the replica's next decode step, in milliseconds,
// and the duty of its neighbours.
func (m *Monitor) step(replica int) (ms, neighbours float64) {
	var room [8]profile.Batch // more busy replicas on one host would allocate
	busy := append(room[:0], m.batch(replica))
	for _, i := range m.table.ReplicasOn(m.table.Replicas[replica].Host) {
		r := &m.replicas[i]
		if i != replica && r.profile != nil && r.load.sequences.Load()+r.others.sequences.Load() > 0 {
			busy = append(busy, m.batch(i))
		}
	}
	neighbours = profile.Settle(busy) - busy[0].Duty
	return busy[0].Beside(neighbours), neighbours
}

// prefill adds what the prompt takes from those that decode on the replica.
func (m *Monitor) prefill(replica int, now time.Duration, prompt int) {
	r := &m.replicas[replica]
	step, neighbours := m.step(replica)
	before := time.Duration(r.begun.Swap(int64(now)))
	var ms float64
	if m.config.Chunked {
		sequences, context := m.runs(replica)
		ms, _ = r.profile.Time(sequences+prompt, sequences+1, context, neighbours)
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
