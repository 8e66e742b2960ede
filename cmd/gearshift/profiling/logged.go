package profiling

import (
	"time"

	"go.yaml.in/yaml/v3"

	"gearshift/cmd/gearshift/hostinfo"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/engine"
	"gearshift/env/fit"
)

// Logged is a profile fitted to a log, as it is written: the entry of a scenario,
// the engine that was assumed or found, and how good it is.
type Logged struct {
	Profiles  []scenario.LatencyModel `yaml:"profiles"`
	Date      string                  `yaml:"date"`
	Machine   string                  `yaml:"machine"`
	Served    string                  `yaml:"model"`
	Log       string                  `yaml:"log"`
	Requests  int                     `yaml:"requests"`
	Engine    engine.Config           `yaml:"engine"`
	KVTokens  int                     `yaml:"kv_tokens"`
	Intervals map[string]fit.Interval `yaml:"intervals_90,omitempty"`
	Held      []string                `yaml:"held,flow"`
	Errors    fit.Errors              `yaml:"errors"`
	Explained float64                 `yaml:"explained_variance"`
	Fits      bool                    `yaml:"fits"`
}

// Words are what a log does not tell of its engine.
type Words struct {
	Variant        string // "": measured
	Machine, Model string // "": [hostinfo.Unsaid]
	Date           string // YYYY-MM-DD; "": today
}

// OfLog is the fitted profile in these words.
func OfLog(f *fit.Fitted, w Words) Logged {
	or := func(words, other string) string {
		if words == "" {
			return other
		}
		return words
	}
	return Logged{
		Profiles: []scenario.LatencyModel{{Variant: or(w.Variant, "measured"), Profile: f.Profile}},
		Date:     or(w.Date, time.Now().UTC().Format(time.DateOnly)), Machine: or(w.Machine, hostinfo.Unsaid), Served: or(w.Model, hostinfo.Unsaid),
		Log: f.Log, Requests: f.Requests, Engine: f.Engine, KVTokens: f.KVTokens,
		Intervals: f.Intervals, Held: f.Held, Errors: f.Errors, Explained: f.Explained, Fits: f.Fits,
	}
}

// Text is the file, with its fractions as long as they mean something.
func (m *Logged) Text() ([]byte, error) {
	var doc yaml.Node
	if err := doc.Encode(m); err != nil {
		return nil, err
	}
	return profileText(&doc, m.Intervals)
}
