package main

import (
	"gearshift/cmd/gearshift/scenario"
	"gearshift/serving"
	"gearshift/serving/experience"
)

// logExperience makes the server log what it routes, if the scenario says so. The
// function returned ends the log, after the server.
func logExperience(o *serving.Options, s *scenario.Scenario) (end func(), err error) {
	if !o.Config.Experience.On() {
		return func() {}, nil
	}
	header := experience.NewHeader(o.Router.Table())
	header.Scenario, header.ScenarioHash = s.Name, s.Hash()
	store, err := experience.Open(o.Config.Experience, header, o.Log)
	if err != nil {
		return nil, err
	}
	recorder := serving.NewRecorder(o.Router, store)
	o.Router, o.Watchers = recorder, append(o.Watchers, recorder)
	return func() {
		if err := store.Close(); err != nil {
			o.Log.Error("cannot end the log of experience", "error", err)
		}
	}, nil
}
