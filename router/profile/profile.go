// Package profile is the latency models of a variant on a host, and its memory:
// the numbers that the simulator steps by and that the heuristics predict with.
package profile

import "time"

// Profile is the cost of one engine iteration. Times are in milliseconds,
// sizes in tokens and bytes. The zero value costs nothing.
//
//	gpu(n, ctx) = max(n·Token, min(Weights·(1+Growth·(n−1)), Weights + n·Token)) + ctx·Context
//	step        = max(LaunchFloor, gpu·interference) + Overhead + sequences·Sequence
//	interference = 1 + Contention·D + Crowding·max(0, D − 1)
//	step of prompts = step + prompts·Prompt
//
// n is the number of new tokens in the iteration (the batch size in decode,
// prompt tokens in prefill), ctx the summed context of the decoding sequences, and
// D the sum of the duties of the host's other busy engines.
type Profile struct {
	// LaunchFloor is the time to launch the kernels, below which no step falls.
	LaunchFloor float64 `yaml:"launch_floor_ms"`
	// Weights is the time to read the weights once.
	Weights float64 `yaml:"weights_ms"`
	// Growth is the relative slowing of the weight read per further sequence.
	Growth float64 `yaml:"growth_per_sequence"`
	// Token is the arithmetic of one new token.
	Token float64 `yaml:"token_ms"`
	// Context is the reading of one cached token.
	Context float64 `yaml:"context_token_ms"`
	// Overhead per step (sampling, scheduling) that nobody contends for.
	Overhead float64 `yaml:"overhead_ms"`
	// Sequence is the further overhead for each sequence in the step.
	Sequence float64 `yaml:"sequence_ms"`
	// Prompt is the further overhead for each prompt that the step completes: what its
	// request takes of the engine beside its tokens.
	Prompt float64 `yaml:"prompt_ms,omitempty"`
	// Request is what a request takes outside the engine, to its server and back to who
	// asked. It is part of no step.
	Request float64 `yaml:"request_ms,omitempty"`
	// Contention is γ: how much a neighbour's full duty slows the GPU part.
	Contention float64 `yaml:"contention"`
	// Crowding is how much more the neighbours slow it beyond the first: engines that
	// take turns, such as three on two processors.
	Crowding float64 `yaml:"crowding,omitempty"`

	// Batches, if set, are the times of an engine that runs each batch to its end. Of the
	// times above only Overhead, which is part of theirs, and Request have a meaning then;
	// the others are 0. A step is a batch of so many sequences, of the first kind of input
	// where none is said.
	Batches *Batches `yaml:"-"`

	// WeightBytes and ActivationBytes are taken before the KV cache gets the
	// rest of a replica's memory; KVBytes is one cached token's.
	WeightBytes     int64 `yaml:"weight_bytes"`
	ActivationBytes int64 `yaml:"activation_bytes"`
	KVBytes         int64 `yaml:"kv_bytes_per_token"`
}

// Slower is the profile of an engine that takes so many times as long for each step.
// What loads the GPU is the same share of it.
func (p Profile) Slower(times float64) *Profile {
	for _, ms := range []*float64{&p.LaunchFloor, &p.Weights, &p.Token, &p.Context, &p.Overhead, &p.Sequence, &p.Prompt} {
		*ms *= times
	}
	if p.Batches != nil {
		p.Batches = p.Batches.scaled(func(ms float64) float64 { return ms * times })
	}
	return &p
}

// SlowerGPU is the profile where the GPU part of each step takes so many times as long.
func (p Profile) SlowerGPU(times float64) *Profile {
	for _, ms := range []*float64{&p.Weights, &p.Token, &p.Context} {
		*ms *= times
	}
	if p.Batches != nil {
		p.Batches = p.Batches.scaled(func(ms float64) float64 {
			return min(ms, p.Overhead) + max(0, ms-p.Overhead)*times
		})
	}
	return &p
}

// GPU is the uncontended GPU part of a step, in milliseconds.
func (p *Profile) GPU(tokens, context int) float64 {
	// Comparisons, since min and max mind NaN and signed zeros, and this is where a
	// simulation spends its time.
	n := float64(tokens)
	arithmetic := n * p.Token
	bound := p.Weights * (1 + p.Growth*(n-1))
	if after := p.Weights + arithmetic; after < bound {
		bound = after
	}
	if arithmetic > bound {
		bound = arithmetic
	}
	return bound + float64(context)*p.Context
}

// Step is the time of one iteration in milliseconds, and the engine's duty in
// it: the share of the step that loads the GPU, which its neighbours feel.
// Neighbours is the sum of the duties of the host's other busy engines.
func (p *Profile) Step(tokens, sequences, context int, neighbours float64) (ms, duty float64) {
	var gpu float64
	if p.Batches != nil {
		ms, gpu = p.Batch(0, sequences, neighbours)
	} else {
		ms, gpu = p.Time(tokens, sequences, context, neighbours)
	}
	if ms > 0 {
		duty = gpu / ms
	}
	return ms, duty
}

// Time is as Step, with what of the step loads the GPU in place of the duty, which
// is that part's share: a division that most callers never need. It is the GPU part
// without interference; an engine that takes turns, though, loads the GPU for as long
// as it waits for its own. It is of profiles by token alone, being where a simulation
// spends its time.
func (p *Profile) Time(tokens, sequences, context int, neighbours float64) (ms, gpu float64) {
	gpu = p.GPU(tokens, context)
	ms = p.beside(gpu, sequences, neighbours)
	if p.Crowding > 0 {
		gpu *= p.Interference(neighbours)
	}
	return ms, gpu
}

// Prefill is the time of a step of one prompt of so many tokens, in milliseconds. Where
// batches run to their end there is no such step.
func (p *Profile) Prefill(tokens int, neighbours float64) float64 {
	if p.Batches != nil {
		return 0
	}
	return p.beside(p.GPU(max(1, tokens), 0), 1, neighbours) + p.Prompt
}

// Interference is the factor by which neighbours of so much duty in sum slow the GPU
// part.
func (p *Profile) Interference(neighbours float64) float64 {
	by := 1 + p.Contention*neighbours
	if neighbours > 1 {
		by += p.Crowding * (neighbours - 1)
	}
	return by
}

// beside is the time of a step with that GPU part beside neighbours.
func (p *Profile) beside(gpu float64, sequences int, neighbours float64) float64 {
	slowed := gpu * p.Interference(neighbours)
	if slowed < p.LaunchFloor {
		slowed = p.LaunchFloor
	}
	return slowed + p.Overhead + float64(sequences)*p.Sequence
}

// alone is the GPU part of a decode step of n sequences, and its duty where
// nobody else is busy.
func (p *Profile) alone(n, held int) (gpu, duty float64) {
	gpu = p.GPU(n, held)
	if ms := p.beside(gpu, n, 0); ms > 0 {
		duty = gpu / ms
	}
	return gpu, duty
}

// decode is the uncontended GPU part of a step of n sequences that hold so many tokens.
func (p *Profile) decode(n, held int) float64 {
	if p.Batches != nil {
		return max(0, p.Batches.Time(0, n)-p.Overhead)
	}
	return p.GPU(n, held)
}

// KVTokens is how many tokens the KV cache holds in a replica of so many
// bytes, in whole blocks. It is zero if the weights and activations do not fit.
func (p *Profile) KVTokens(memoryBytes int64, blockTokens int) int {
	rest := memoryBytes - p.WeightBytes - p.ActivationBytes
	if rest <= 0 || p.KVBytes <= 0 || blockTokens <= 0 {
		return 0
	}
	return int(rest/(p.KVBytes*int64(blockTokens))) * blockTokens
}

// Duration converts the model's milliseconds to a Duration.
func Duration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
