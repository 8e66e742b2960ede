package profile

// Batch is what an engine of a host decodes, for [Settle].
type Batch struct {
	Profile   *Profile
	Sequences int
	GPU       float64 // ms of a step without interference
	// Duty is the share of a step in which the batch loads the GPU; see [Profile.Time].
	Duty float64

	idle bool // it does not run
}

// NewBatch is a batch of so many sequences that hold so many tokens; of none it is
// idle.
func NewBatch(p *Profile, sequences, context int) Batch {
	return Batch{Profile: p, Sequences: sequences, GPU: p.decode(sequences, context), idle: sequences == 0}
}

// Beside is the time of a step beside neighbours, in milliseconds.
func (b *Batch) Beside(neighbours float64) float64 {
	return b.Profile.beside(b.GPU, b.Sequences, neighbours)
}

// settle works out the duty beside neighbours.
func (b *Batch) settle(neighbours float64) {
	b.Duty = 0
	if ms := b.Beside(neighbours); ms > 0 && !b.idle {
		gpu := b.GPU
		if b.Profile.Crowding > 0 {
			gpu *= b.Profile.Interference(neighbours)
		}
		b.Duty = gpu / ms
	}
}

// sweeps is how often the duties of a host's engines are worked out in turn: each
// slows the others, and for being slowed loads the GPU less, or, where engines take
// turns, for longer.
const sweeps = 3

// Settle works out the duties of the batches of a host, each beside the others, and
// returns their sum.
func Settle(batches []Batch) (duties float64) {
	for k := range batches {
		batches[k].settle(0)
		duties += batches[k].Duty
	}
	if len(batches) < 2 {
		return duties
	}
	for range sweeps {
		for k := range batches {
			b := &batches[k]
			duties -= b.Duty
			b.settle(duties)
			duties += b.Duty
		}
	}
	return duties
}
