package scenario

import (
	"regexp"

	"gearshift/router/fleet"
	"gearshift/serving/config"
)

// Quality says what predicts how good each variant's answer to a prompt would be, in the simulator
// and in a router, and how a router learns from scores. docs/scenario.md describes the keys.
type Quality struct {
	// Predictor is a reference to a stored predictor, [FitPredictor], or empty: none.
	Predictor string `yaml:"predictor,omitempty"`
	// Quality is what only a router uses.
	config.Quality `yaml:",inline"`
}

// FitPredictor is the value of [Quality.Predictor] that has a predictor fitted to those prompts of
// the workload that are not played.
const FitPredictor = "fit"

// predictorForm is a name of the store, with a version or an alias.
var predictorForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(@[A-Za-z0-9][A-Za-z0-9._-]*)?$`)

func qualitySection() registered {
	return section[Quality]{
		key:     "quality",
		initial: func() Quality { return Quality{Quality: config.DefaultQuality()} },
		check:   (*checker).predicting,
		world:   func(q *Quality) { q.Quality = config.Quality{} },
		live:    []string{""},
	}
}

// Predictor returns what predicts quality: a reference to a stored predictor, [FitPredictor], or
// nothing.
func (s *Scenario) Predictor() string { return Of[Quality](s).Predictor }

func (c *checker) predicting(q *Quality) {
	const key = "quality.predictor"
	c.own("quality", q.Validate())
	if q.Predictor == "" {
		return
	}
	c.judgeIf(!predictorForm.MatchString(q.Predictor), key, "%q is not the name of a predictor; want %s, or a name of the store such as chat or chat@2", q.Predictor, FitPredictor)
	if n := len(c.s.Variants); n > fleet.MostPredicted {
		c.judge(key, "quality is predicted for %d variants at most; the file has %d: want no predictor", fleet.MostPredicted, n)
	}
	for i, t := range c.s.Tasks {
		for name, x := range sorted(t.Quality) {
			c.judgeIf(x > 1, child(child(item("tasks", i), "quality"), name), "%v is above 1; with quality.predictor, a quality is a mean score from 0 to 1", x)
		}
	}
}

// Columns returns the names that the variants have in scores of prompts, by variant.
func (s *Scenario) Columns() []string {
	return namesOf(s.Variants, func(v Variant) string {
		if v.ScoresAs != "" {
			return v.ScoresAs
		}
		return v.Name
	})
}
