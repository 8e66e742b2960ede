// Package mosel makes the report of modality selection: the evaluation of MOSEL
// (arXiv 2310.18481) repeated in the simulator, with models whose profiles are derived
// from what the paper says of them.
package mosel

import (
	"math/bits"
	"strings"

	"gearshift/cmd/gearshift/jobtraining"
	"gearshift/router/modality"
)

// model is one of the paper's (MOSEL-18, 19, 20, 21).
type model struct {
	name       string
	modalities []string // from the fastest on
	capacity   float64  // requests per second with all inputs (DERIVED: half the paper's largest rate)
	gain       float64  // the paper's throughput, relative to no selection
	fewer      float64  // percentage points by which the paper's violations are lower
}

var models = []model{
	{"TVLT", []string{"audio", "video"}, 30, 5.3, 25},
	{"AV-HuBERT", []string{"audio", "video"}, 10, 2.2, 15},
	{"TBN", []string{"audio", "image", "video"}, 20, 3.1, 17},
	{"MMSA", []string{"text", "audio", "video"}, 50, 1.12, 4},
	{"ViLT", []string{"text", "image"}, 20, 4.3, 18},
}

// largest is the largest batch that is profiled; larger jobs are split.
const largest = 16

// speedup is how many times as fast as all inputs the fastest one is. The paper has it of
// TVLT alone: 11, at a gain of 5.3. The other models get the same ratio of both, which is
// a choice.
func (m *model) speedup() float64 { return 11 / 5.3 * m.gain }

// qualities of single inputs, from the fastest on, of pairs of three, and of all: those of
// the paper's Figure 2, and values between them where it has none.
var (
	singles = []float64{0.67, 0.70, 0.72}
	pairs   = map[uint]float64{0b011: 0.74, 0b101: 0.76, 0b110: 0.77}
)

const allInputs = 0.80

// costs are the milliseconds that each input adds to a request. The fastest is all inputs'
// time divided by the speedup; a second has what is left, of three the third has 60 % of it.
func (m *model) costs() []float64 {
	all := 1000 / m.capacity
	fast := all / m.speedup()
	if len(m.modalities) == 2 {
		return []float64{fast, all - fast}
	}
	return []float64{fast, 0.4 * (all - fast), 0.6 * (all - fast)}
}

// options are the model's combinations. A batch takes as long as its requests one by one,
// times estimate, which is how wrong the table is.
func (m *model) options(estimate float64) []modality.Option {
	costs := m.costs()
	var list []modality.Option
	for _, mask := range modality.Combinations(len(m.modalities)) {
		o := modality.Option{Name: m.named(mask), Quality: m.quality(mask)}
		var each float64
		for i, c := range costs {
			if mask>>i&1 == 1 {
				each += c
			}
		}
		for n := range largest {
			o.Latency = append(o.Latency, estimate*each*float64(n+1))
		}
		list = append(list, o)
	}
	return list
}

func (m *model) named(mask uint) string {
	var names []string
	for i, name := range m.modalities {
		if mask>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}

func (m *model) quality(mask uint) float64 {
	switch bits.OnesCount(mask) {
	case len(m.modalities):
		return allInputs
	case 1:
		return singles[bits.TrailingZeros(mask)]
	}
	return pairs[mask]
}

// Trained are the paper's models, as a policy is trained on them.
func Trained() []jobtraining.Model {
	var list []jobtraining.Model
	for i := range models {
		list = append(list, jobtraining.Model{Name: models[i].name, Options: models[i].options(1)})
	}
	return list
}
