package policies

import (
	"fmt"

	"gearshift/checkpoints"
	"gearshift/internal/scenario"
	"gearshift/router/quality"
)

// NoPredictor is a reference that means none.
const NoPredictor = "none"

// Predicting prepares what predicts quality in simulations of the scenario: what quality.predictor
// says or, if it is not empty, ref in its place, of the flag --quality. It reads a predictor from
// the store where one is named.
func Predicting(s *scenario.Scenario, store *checkpoints.Store, ref string) error {
	if s.Workload.Prompts == "" {
		if ref != "" && ref != NoPredictor {
			return fmt.Errorf("--quality %s: the requests of %s carry no prompts; want workload.prompts in it", ref, s.Name)
		}
		return nil
	}
	source := "--quality"
	switch ref {
	case "":
		ref, source = s.Predictor(), "quality.predictor"
	case NoPredictor:
		ref = ""
	}
	if ref == "" || ref == scenario.FitPredictor || ref == scenario.OraclePredictor {
		s.Predict(ref, nil)
		return nil
	}
	m, err := storedPredictor(store, ref)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	s.Predict(ref, m)
	return nil
}

// storedPredictor reads a predictor from the store.
func storedPredictor(store *checkpoints.Store, ref string) (*quality.Regression, error) {
	parsed, err := checkpoints.ParsePredictorRef(ref)
	if err != nil {
		return nil, fmt.Errorf("predictor %q: %w; want %s, %s, %s or NAME[@VERSION]", ref, err, NoPredictor, scenario.FitPredictor, scenario.OraclePredictor)
	}
	data, entry, err := store.Predictors().Get(parsed)
	if err != nil {
		return nil, err
	}
	m, err := quality.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("cannot load predictor %q: %w", entry.Ref(), err)
	}
	return m, nil
}
