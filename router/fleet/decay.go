package fleet

// Decay is the deadline weight w of Eq. 1: the share of the quality that an
// answer is still worth after its latency. Latency and deadline are in
// milliseconds per output token. The factor lies in [0, 1], and is 1 up to the
// deadline.
type Decay interface {
	Factor(latency, deadline float64) float64
}

// Hard is the binary weight: all up to the deadline, nothing past it (LBE-2).
type Hard struct{}

// Factor implements [Decay].
func (Hard) Factor(latency, deadline float64) float64 {
	if latency <= deadline {
		return 1
	}
	return 0
}

// Soft loses PerMillisecond of the reward for each millisecond past the
// deadline while the violation stays under Cutoff × deadline, and all of it
// from there on (LBE-3; at exactly the cutoff the factor is 0).
type Soft struct {
	PerMillisecond float64
	Cutoff         float64
}

// PaperSoft is the paper's soft deadline: 1 % a millisecond, nothing from 10 %.
func PaperSoft() Soft { return Soft{PerMillisecond: 0.01, Cutoff: 0.10} }

// Factor implements [Decay].
func (s Soft) Factor(latency, deadline float64) float64 {
	over := latency - deadline
	switch {
	case over <= 0:
		return 1
	case over >= s.Cutoff*deadline:
		return 0
	}
	return max(0, 1-s.PerMillisecond*over)
}

// Last is the latency, in milliseconds per output token, from which on nothing is left.
func (s Soft) Last(deadline float64) float64 {
	last := deadline * (1 + s.Cutoff)
	if s.PerMillisecond > 0 {
		last = min(last, deadline+1/s.PerMillisecond)
	}
	return last
}
