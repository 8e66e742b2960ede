package env

// Fingerprint is a hash of what the engines hold and do, down to each token and
// the ends of the steps in progress. Two ways of the same episode with the same
// fingerprint at the same request have met: the same actions lead both to the
// same end from there on, but for a chance of one in 2⁶⁴.
func (e *Environment) Fingerprint() uint64 {
	s := e.sim
	var sum uint64
	for _, h := range s.hosts {
		sum = sum*0x100000001b3 ^ h.Fingerprint(func(id uint64) uint64 { return uint64(s.jobs[id].outcome.Decision) })
	}
	return sum
}
