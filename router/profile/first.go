package profile

// Joining is a request about to join a replica's batch, and what it finds there.
type Joining struct {
	// Prompt is its length in tokens.
	Prompt int
	// Sequences are those of the batch without it, and Held the tokens that they hold.
	Sequences, Held int
	// KVTokens is what the replica's KV cache holds, and Output the mean length of an
	// answer, in tokens; where either is 0, no wait for room in the cache is foreseen.
	KVTokens int
	Output   float64
	// Neighbours is the sum of the duties of the host's other busy engines.
	Neighbours float64
}

// First is the time to the request's first token in milliseconds: what is left of the step
// under way, taken to be all of it, the wait for room in the KV cache, and its prefill.
//
// With answers of geometric length, a batch of n sequences that holds so many tokens
// releases, in each step, one part in Output of them. What it lacks for the prompt is
// therefore there after lacking ÷ held × Output steps.
//
// Where batches run to their end it is the time until the answer is there.
func (p *Profile) First(j Joining) float64 {
	if p.Batches != nil {
		return p.Answer(0, j.Sequences, j.Neighbours)
	}
	ms := p.Prefill(j.Prompt, j.Neighbours)
	if j.Sequences == 0 {
		return ms
	}
	step, _ := p.Time(j.Sequences, j.Sequences, j.Held, j.Neighbours)
	ms += step
	if lacking := j.Held + j.Prompt - j.KVTokens; lacking > 0 && j.KVTokens > 0 && j.Held > 0 {
		ms += float64(lacking) / float64(j.Held) * j.Output * step
	}
	return ms
}

// Total is the time to the end of an answer of so many tokens in milliseconds, by those to
// its first token and from each to the next.
func Total(first, pace, output float64) float64 { return first + max(0, output-1)*pace }
