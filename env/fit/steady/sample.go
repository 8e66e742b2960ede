package steady

import (
	"cmp"
	"math"
	"slices"
)

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

// Kind is the cell's kind.
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

// meanOf is a cell's mean time at its mean load.
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
