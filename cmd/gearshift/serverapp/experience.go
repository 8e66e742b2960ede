package serverapp

import (
	"gearshift/cmd/gearshift/scenario"
	"gearshift/serving"
	"gearshift/serving/experience"
	"gearshift/serving/recording"
)

// LogExperience makes the server log what it routes, if the scenario says so. Begin
// begins the files, which a start that fails leaves alone; end ends the log, after
// the server.
func LogExperience(o *serving.Options, s *scenario.Scenario) (begin func() error, end func(), err error) {
	if !o.Config.Experience.On() {
		return func() error { return nil }, func() {}, nil
	}
	header := experience.NewHeader(o.Router.Table())
	header.Scenario, header.ScenarioHash = s.Name, s.Hash()
	store, err := experience.New(o.Config.Experience, header, o.Log)
	if err != nil {
		return nil, nil, err
	}
	recorder := recording.New(o.Router, store)
	o.Router, o.Modules = recorder, append(o.Modules, serving.Parts{Metrics: recorder.Metrics(), Watcher: recorder})
	return store.Begin, func() {
		if err := store.Close(); err != nil {
			o.Log.Error("cannot end the log of experience", "error", err)
		}
	}, nil
}
