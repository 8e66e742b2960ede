package env

// Fingerprint returns a hash of what the engines hold and do, down to each token and the
// ends of the steps in progress. If two runs of one episode have the same fingerprint at
// the same request, the same actions lead both to the same end from there on, except with a
// probability of 2⁻⁶⁴. Searches use that to drop duplicates.
func (e *Environment) Fingerprint() uint64 {
	s := e.sim
	var sum uint64
	for _, h := range s.hosts {
		sum = sum*0x100000001b3 ^ h.Fingerprint(func(id uint64) uint64 { return uint64(s.jobs[id].outcome.Decision) })
	}
	return sum
}
