// Package mosel makes the report of modality selection: the evaluation of MOSEL
// (arXiv 2310.18481) repeated in the simulator, with models whose profiles are derived
// from what the paper says of them.
package mosel

import (
	"strings"

	"gearshift/internal/scenario"
	"gearshift/internal/training"
	"gearshift/router/modality"
)

// model is one of the paper's (MOSEL-18, 19, 20, 21). Its profile is that of a built-in
// scenario.
type model struct {
	name     string
	scenario string
	capacity float64 // requests per second with all inputs (DERIVED: half the paper's largest rate)
	gain     float64 // the paper's throughput, relative to no selection
	fewer    float64 // percentage points by which the paper's violations are lower
}

var models = []model{
	{"TVLT", "mosel-tvlt", 30, 5.3, 25},
	{"AV-HuBERT", "mosel-av-hubert", 10, 2.2, 15},
	{"TBN", "mosel-tbn", 20, 3.1, 17},
	{"MMSA", "mosel-mmsa", 50, 1.12, 4},
	{"ViLT", "mosel-vilt", 20, 4.3, 18},
}

// largest is the largest batch that is profiled; larger jobs are split.
const largest = 16

// Floors of jobs are between the least and the best quality of any combination.
const leastQuality, bestQuality = 0.67, 0.80

// options are the model's combinations. Their times are those of the profile times estimate,
// which is how wrong the table is.
func (m *model) options(estimate float64) []modality.Option {
	s, err := scenario.Load(m.scenario)
	if err != nil {
		panic(err) // it is built in
	}
	var list []modality.Option
	for _, c := range s.Combinations(s.Weights[0].Name, s.Hosts[0].Name) {
		o := modality.Option{Name: strings.Join(c.Modalities, "+"), Quality: c.Quality[s.Tasks[0].Name]}
		for _, ms := range c.Latency {
			o.Latency = append(o.Latency, estimate*ms)
		}
		list = append(list, o)
	}
	return list
}

// Trained are the paper's models, as a policy is trained on them.
func Trained() []training.JobsModel {
	var list []training.JobsModel
	for i := range models {
		list = append(list, training.JobsModel{Name: models[i].name, Options: models[i].options(1)})
	}
	return list
}
