package draft

import (
	"math"
	"slices"

	"gearshift/internal/scenario"
	"gearshift/router/profile"
)

// What a common GPU does with half-precision weights, of which step times are guessed.
const (
	bytesPerMS      = 0.6e9 // of memory read
	flopsPerMS      = 50e9
	activationBytes = 300_000_000
)

// profileOf returns the latency model of a variant by its size, or by its step where that was
// measured.
func (f *Fleet) profileOf(variant int) profile.Profile {
	v := f.Variants[variant]
	weights := f.weightBytes(variant)
	kv := f.kvBytes(variant)
	p := profile.Profile{
		LaunchFloor: 2, Overhead: 1, Sequence: 0.1, Growth: 0.003,
		Weights:     tidy(float64(weights) * v.Active / v.Parameters / bytesPerMS),
		Token:       tidy(2 * v.Active / flopsPerMS),
		Context:     tidy(float64(kv) / bytesPerMS),
		WeightBytes: weights, ActivationBytes: activationBytes, KVBytes: kv,
	}
	if v.StepMS > 0 {
		p.Overhead = tidy(min(1, v.StepMS/10))
		p.Sequence = tidy(min(0.1, v.StepMS/50))
		p.Weights = tidy(v.StepMS - p.Overhead - p.Sequence)
		p.LaunchFloor = tidy(min(p.LaunchFloor, p.Weights))
		p.Token = tidy(min(max(p.Token, p.Weights/300), p.Weights/8))
	}
	if f.crowded(variant) {
		p.Contention = 0.15
	}
	return p
}

// weightBytes returns what the engine says, or what so many parameters take.
func (f *Fleet) weightBytes(variant int) int64 {
	v := f.Variants[variant]
	if v.Weights > 0 {
		return v.Weights
	}
	return int64(tidy(v.Parameters * v.Width))
}

// kvBytes returns what the engine says of a cached token, or what it takes in most models of
// that size: of 1, 8 and 70 billion parameters about 48, 128 and 320 KiB.
func (f *Fleet) kvBytes(variant int) int64 {
	for _, r := range f.Replicas {
		if r.Variant == variant && r.Model.KVBytes > 0 {
			return r.Model.KVBytes
		}
	}
	kib := 48 * math.Pow(f.Variants[variant].Parameters/1e9, 0.45)
	return int64(max(1, math.Round(kib/4))) * 4096
}

// crowded reports whether any replica of the variant shares its host.
func (f *Fleet) crowded(variant int) bool {
	return slices.ContainsFunc(f.Replicas, func(r Replica) bool {
		return r.Variant == variant && slices.ContainsFunc(f.Replicas, func(o Replica) bool { return o.Host == r.Host && o.Variant != variant })
	})
}

// usualContext is assumed for a model that does not report its own.
const usualContext = 4096

func (m *Model) context() int {
	switch {
	case m.Context > 0 && m.KVTokens > 0:
		return min(m.Context, m.KVTokens)
	case m.Context > 0:
		return m.Context
	case m.KVTokens > 0:
		return min(usualContext, m.KVTokens)
	}
	return usualContext
}

// tokens returns what the KV cache of a replica holds, and whether its engine said so.
func (m *Model) tokens() (n int, said bool) {
	switch {
	case m.KVTokens > 0:
		return m.KVTokens, true
	case m.Sequences > 0:
		return m.Sequences * m.context(), false
	}
	return max(16384, 4*m.context()), false
}

// gpus are the sizes of memory that machines come with, in GiB.
var gpus = []int64{8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 128, 141, 192, 256, 384, 512, 768, 1024, 1536, 2048}

// hostMemory returns the least of them of which nine tenths hold so much, in GiB.
func hostMemory(bytes int64) int64 {
	for _, gib := range gpus {
		if float64(bytes) <= 0.9*float64(gib<<30) {
			return gib
		}
	}
	return int64(math.Ceil(float64(bytes)/0.9/(1<<30)/64)) * 64
}

// Qualities returns the numbers offered where the user says none: even steps up to 1.
func (f *Fleet) Qualities() []float64 {
	n := len(f.Variants)
	list := make([]float64, n)
	for i := range list {
		list[i] = 1
		if n > 1 {
			list[i] = math.Round((0.6+0.4*float64(i)/float64(n-1))*100) / 100
		}
	}
	return list
}

// Deadline returns the time per output token that is offered, in ms: 20 tokens a second, or
// enough for the largest variant by half as much again, in steps of 5.
func (f *Fleet) Deadline() float64 {
	deadline := 50.
	for i := range f.Variants {
		p := f.profileOf(i)
		ms, _ := p.Step(1, 1, 200, 0)
		deadline = max(deadline, math.Ceil(1.5*ms/5)*5)
	}
	return deadline
}

// lengths of requests, in tokens.
type lengths struct {
	mean, max int
	answered  int // requests that the mean is taken from; 0: a guess
}

// requests returns the prompts and outputs of the workload: by what the engines have
// answered, and within what the smallest context holds.
func (f *Fleet) requests() (prompt, output lengths) {
	prompt.mean, output.mean = 200, 150
	context, answered := math.MaxInt, 0
	var prompts, outputs float64
	for _, r := range f.Replicas {
		context = min(context, r.Model.context())
		if n, _ := r.Model.tokens(); n < context {
			context = n
		}
		answered += r.Model.Answered
		prompts += float64(r.Model.Answered) * r.Model.MeanPrompt
		outputs += float64(r.Model.Answered) * r.Model.MeanOutput
	}
	if answered >= 100 {
		n := float64(answered)
		prompt = lengths{mean: max(1, int(prompts/n+0.5)), answered: answered}
		output = lengths{mean: max(1, int(outputs/n+0.5)), answered: answered}
	}
	prompt.max = max(1, min(2048, context*2/3))
	output.max = max(1, min(1024, context-prompt.max))
	prompt.mean, output.mean = min(prompt.mean, prompt.max), min(output.mean, output.max)
	return prompt, output
}

// tidy returns x to three digits, as people write numbers.
func tidy(x float64) float64 { return scenario.Round(x, 3) }
