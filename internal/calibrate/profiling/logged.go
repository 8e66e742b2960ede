package profiling

import (
	"cmp"
	"time"

	"go.yaml.in/yaml/v3"

	"gearshift/env/fit"
	"gearshift/internal/scenario"
)

// Logged is a profile fitted to a log, as it is written: the entry of a scenario,
// the engine that was assumed or found, and how good it is.
type Logged struct {
	Profiles   []scenario.LatencyModel `yaml:"profiles"`
	Date       string                  `yaml:"date"`
	Machine    string                  `yaml:"machine"`
	Served     string                  `yaml:"model"`
	fit.Fitted `yaml:",inline"`
}

// Words are what a log does not say of its engine.
type Words struct {
	Variant        string // "": measured
	Machine, Model string // "": [hostinfo.Unsaid]
	Date           string // YYYY-MM-DD; "": today
}

// OfLog returns the fitted profile in these words.
func OfLog(f *fit.Fitted, w Words) Logged {
	return Logged{
		Profiles: []scenario.LatencyModel{{Variant: cmp.Or(w.Variant, "measured"), Profile: f.Profile}},
		Date:     cmp.Or(w.Date, time.Now().UTC().Format(time.DateOnly)), Machine: cmp.Or(w.Machine, Unsaid), Served: cmp.Or(w.Model, Unsaid),
		Fitted: *f,
	}
}

// Text returns the file, with its fractions as long as they mean something.
func (m *Logged) Text() ([]byte, error) {
	var doc yaml.Node
	if err := doc.Encode(m); err != nil {
		return nil, err
	}
	return profileText(&doc, m.Intervals)
}
