package steady

import (
	"cmp"
	"math"
	"slices"

	"gearshift/router/profile"
)

// The parameters, by their keys in a profile and in this order in a search, which
// knows their logarithms.
var names = []string{
	"launch_floor_ms", "weights_ms", "growth_per_sequence", "token_ms", "context_token_ms",
	"overhead_ms", "sequence_ms", "contention", "crowding", "prompt_ms", "request_ms",
}

const (
	floor = iota
	weights
	growth
	token
	context
	overhead
	sequence
	contention
	crowding
	prompt
	request
)

// profileAt returns the profile at the parameters.
func profileAt(x []float64) profile.Profile {
	return profile.Profile{
		LaunchFloor: math.Exp(x[floor]), Weights: math.Exp(x[weights]), Growth: math.Exp(x[growth]),
		Token: math.Exp(x[token]), Context: math.Exp(x[context]),
		Overhead: math.Exp(x[overhead]), Sequence: math.Exp(x[sequence]),
		Contention: math.Exp(x[contention]), Crowding: math.Exp(x[crowding]),
		Prompt: math.Exp(x[prompt]), Request: math.Exp(x[request]),
	}
}

// predict returns what the model makes of a sample, in ms.
func predict(p *profile.Profile, s *Sample) float64 {
	if !s.Prefill {
		ms, _ := p.Step(s.Tokens, s.Sequences, int(math.Round(s.Context)), s.Neighbours)
		return ms
	}
	ms := p.Prefill(s.Tokens, s.Neighbours)
	if !s.Queued {
		ms += p.Request
	}
	return ms
}

// belief is what is believed of the parameters before anything is measured, as
// multiples of the shortest decode step, and how far they may be from it, in their
// logarithms: 2 is a factor of 7 either way. It decides what samples leave open:
// that little of a step is overhead, and that growth may be next to nothing or so
// large that tokens add to the weight read.
var belief = []struct{ centre, spread float64 }{
	floor: {0.2, 2}, weights: {0.6, 1.5}, growth: {0.03, 3}, token: {0.01, 2}, context: {5e-5, 2},
	overhead: {0.08, 1.3}, sequence: {0.01, 2}, contention: {0.3, 1.5}, crowding: {0.3, 1.5}, prompt: {0.03, 2}, request: {0.03, 2},
}

// believed returns the logarithms of the parameters in the middle of the belief.
func believed(cells []Cell) []float64 {
	step := shortest(cells).MS
	x := make([]float64, len(names))
	for i, b := range belief {
		if x[i] = math.Log(b.centre); i != growth && i != contention && i != crowding {
			x[i] += math.Log(step)
		}
	}
	return x
}

// start returns where a search begins: rough figures read off the cells, and of the
// others what is believed.
func (s *search) start() []float64 {
	step, perSequence, perContext := decodeGuess(s.cells)
	x := slices.Clone(s.centre)
	for i, v := range map[int]float64{weights: 0.8 * step, token: prefillGuess(s.cells, step), context: perContext, sequence: perSequence} {
		if !s.fixed[i] {
			x[i] = math.Log(v)
		}
	}
	return x
}

// shortest returns the cell with the shortest decode step alone.
func shortest(cells []Cell) *Cell {
	var low *Cell
	for i := range cells {
		if c := &cells[i]; c.Kind() == Decode && (low == nil || c.MS < low.MS) {
			low = c
		}
	}
	return low
}

// decodeGuess returns the shortest decode step of those alone, and what a sequence and
// a token of context may add to it.
func decodeGuess(cells []Cell) (step, perSequence, perContext float64) {
	var low, high *Cell
	for i := range cells {
		c := &cells[i]
		if c.Kind() != Decode {
			continue
		}
		if low == nil || c.Sequences < low.Sequences || c.Sequences == low.Sequences && c.Context < low.Context {
			low = c
		}
		if high == nil || c.Sequences > high.Sequences || c.Sequences == high.Sequences && c.Context > high.Context {
			high = c
		}
	}
	const least = 1e-3 // of a step: what is not seen is small
	more := max(high.MS-low.MS, least*low.MS) / 3
	perSequence = more / float64(max(1, high.Sequences-low.Sequences))
	perContext = more / max(1, high.Context-low.Context)
	return low.MS, perSequence, perContext
}

// prefillGuess returns what a token of a prompt takes.
func prefillGuess(cells []Cell, step float64) float64 {
	var low, high *Cell
	for i := range cells {
		c := &cells[i]
		if c.Kind() != FirstToken {
			continue
		}
		if low == nil || c.Tokens < low.Tokens {
			low = c
		}
		if high == nil || c.Tokens > high.Tokens {
			high = c
		}
	}
	return max(high.MS-low.MS, 1e-3*step) / float64(max(1, high.Tokens-low.Tokens))
}

// Sample is one measurement of a load.
type Sample struct {
	// Cell names the load; the samples of a cell belong together.
	Cell string
	// Prefill is that MS is the time to the first token of an idle engine, from
	// outside, or, if Queued, the step of one prompt behind others; else it is one
	// decode step.
	Prefill, Queued bool
	// Tokens are the new ones of the step, Sequences those in it, and Context the
	// tokens that these attend to.
	Tokens, Sequences int
	Context           float64
	// Neighbours is the sum of the duties of the host's other engines meanwhile.
	Neighbours float64
	MS         float64
}

// Cell is a load with the mean of its samples.
type Cell struct {
	Sample
	Samples   int
	Predicted float64 // ms

	scatter []float64 // relative distances of samples from the mean, of several
}

// Error is predicted ÷ measured − 1.
func (c *Cell) Error() float64 { return c.Predicted/c.MS - 1 }

// Kinds of cells, which err for different reasons.
const (
	Decode       = "decode step"
	FirstToken   = "time to the first token"
	DecodeBeside = "decode step beside busy neighbours"
	FirstBeside  = "time to the first token beside busy neighbours"
	PromptStep   = "step of a prompt behind others"
)

// Kinds lists them.
var Kinds = []string{Decode, FirstToken, DecodeBeside, FirstBeside, PromptStep}

// Kind returns the cell's kind.
func (s *Sample) Kind() string {
	if s.Queued {
		return PromptStep
	}
	kind := 0
	if s.Prefill {
		kind = 1
	}
	if s.Neighbours > 0 {
		kind += 2
	}
	return Kinds[kind]
}

// cellsOf gathers the samples of each cell.
func cellsOf(samples []Sample) []Cell {
	sorted := slices.Clone(samples)
	slices.SortStableFunc(sorted, func(a, b Sample) int { return cmp.Compare(a.Cell, b.Cell) })
	var cells []Cell
	for len(sorted) > 0 {
		n := 1
		for n < len(sorted) && sorted[n].Cell == sorted[0].Cell {
			n++
		}
		cells = append(cells, meanOf(sorted[:n]))
		sorted = sorted[n:]
	}
	return cells
}

// meanOf returns a cell's mean time at its mean load.
func meanOf(of []Sample) Cell {
	c := Cell{Sample: of[0], Samples: len(of)}
	n := float64(len(of))
	var tokens float64
	c.Context, c.Neighbours, c.MS = 0, 0, 0
	for _, s := range of {
		tokens += float64(s.Tokens) / n
		c.Context += s.Context / n
		c.Neighbours += s.Neighbours / n
		c.MS += s.MS / n
	}
	c.Tokens = int(math.Round(tokens))
	if len(of) > 1 { // one is the mean itself, and says nothing
		for _, s := range of {
			c.scatter = append(c.scatter, math.Abs(math.Log(s.MS/c.MS))*math.Sqrt(n/(n-1)))
		}
	}
	return c
}
