// Package profiling makes latency profiles, as they are written, of measured engines and
// of logs, and reports of what they leave unexplained.
package profiling

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"gearshift/env/engine"
	"gearshift/env/fit"
	"gearshift/env/fit/steady"
	"gearshift/internal/calibrate/loadgen"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
	"gearshift/router/profile"
)

// Profile is a measured profile as it is written: the entry of a scenario, and where it
// is from.
type Profile struct {
	// Profiles has one entry, as a scenario has them.
	Profiles []scenario.LatencyModel `yaml:"profiles"`
	Measured provenance              `yaml:"measured"`

	fitted *steady.Fitted
}

// provenance is where a measured profile is from, and how good it is.
type provenance struct {
	Date       string   `yaml:"date"`
	Machine    string   `yaml:"machine"`
	Engine     string   `yaml:"engine"`
	Model      string   `yaml:"model"`
	Neighbours []string `yaml:"neighbours,omitempty,flow"`
	Requests   int      `yaml:"requests"`
	Seconds    float64  `yaml:"seconds"`
	// Stolen is the share of the processors' time that their host gave to others.
	Stolen float64 `yaml:"stolen,omitempty"`
	// Fits is false if Faults has a word on it.
	Fits      bool                    `yaml:"fits"`
	Faults    []string                `yaml:"faults,omitempty"`
	Explained float64                 `yaml:"explained_variance"`
	Quality   []steady.Quality        `yaml:"quality"`
	Intervals map[string]fit.Interval `yaml:"intervals_90,omitempty"`
	Held      []string                `yaml:"held,flow"`
	Simulated *simulatedCheck         `yaml:"simulated,omitempty"`
	Notes     []string                `yaml:"notes,omitempty"`
}

// simulatedCheck is how far a simulation of the measurement's own requests, those
// alone, lies from what they took.
type simulatedCheck struct {
	Scheduler string `yaml:"scheduler"`
	// OnePrompt is that each prompt has a step of its own, as with max_prompts: 1.
	OnePrompt  bool `yaml:"one_prompt_a_step,omitempty"`
	fit.Errors `yaml:",inline"`
}

// Options say how a measurement becomes a profile.
type Options struct {
	Variant                               string
	Machine                               string // in words; "": this one, where the engine is local
	Date                                  string // YYYY-MM-DD; "": today
	WeightBytes, ActivationBytes, KVBytes int64  // of the weights, of what else is held, and of a cached token
	Resamples                             int    // refits that the intervals come from; 0 for none
	Seed                                  uint64
}

// Of fits the profile to what was measured. It fails where that is too little to fit.
func Of(m *loadgen.Measurement, o Options) (*Profile, error) {
	neighbours, err := fitNeighbours(m, o)
	if err != nil {
		return nil, err
	}
	f, err := steady.Fit(steadySamples(m, neighbours), steady.Options{Resamples: o.Resamples, Seed: o.Seed})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Target.Model, err)
	}
	f.Widen(dutyRange(m, neighbours))
	model := scenario.LatencyModel{Variant: o.Variant, Profile: f.Profile}
	model.WeightBytes, model.ActivationBytes, model.KVBytes = o.WeightBytes, o.ActivationBytes, o.KVBytes
	p := &Profile{Profiles: []scenario.LatencyModel{model}, fitted: f, Measured: provenance{
		Date: o.Date, Machine: o.Machine, Engine: m.Target.URL, Model: m.Target.Model,
		Requests: len(m.Requests), Seconds: m.Took.Round(time.Second / 10).Seconds(), Stolen: m.Stolen,
		Fits: f.Fits(), Faults: f.Faults, Explained: f.Explained, Quality: f.Quality, Intervals: f.Intervals, Held: f.Held,
		Notes: m.Notes, Simulated: simulateAlone(f, m.Requests),
	}}
	if p.Measured.Date == "" {
		p.Measured.Date = time.Now().UTC().Format(time.DateOnly)
	}
	if p.Measured.Machine == "" {
		p.Measured.Machine = MachineOf(m.Target.URL)
	}
	for _, n := range m.Neighbours {
		p.Measured.Neighbours = append(p.Measured.Neighbours, n.Model+" at "+n.URL)
	}
	return p, nil
}

// steadySamples returns those of the engine measured. What its neighbours did becomes
// their duty: the share of the time in which they load the machine.
func steadySamples(m *loadgen.Measurement, neighbours []*steady.Fitted) []steady.Sample {
	var list []steady.Sample
	for i := range m.Samples {
		if s := &m.Samples[i]; s.Engine == 0 {
			sample := steadySample(s)
			for _, a := range s.Beside {
				sample.Neighbours += duty(&neighbours[a.Engine-1].Profile, a, len(neighbours) > 1)
			}
			list = append(list, sample)
		}
	}
	return list
}

func steadySample(s *loadgen.Sample) steady.Sample {
	return steady.Sample{Cell: s.Cell, Prefill: s.Prefill, Queued: s.Queued, Tokens: s.Tokens, Sequences: s.Sequences, Context: s.Context, MS: s.MS}
}

// fitNeighbours fits profiles to what was measured of the neighbours alone.
func fitNeighbours(m *loadgen.Measurement, o Options) ([]*steady.Fitted, error) {
	var list []*steady.Fitted
	for i, n := range m.Neighbours {
		var samples []steady.Sample
		for k := range m.Samples {
			if s := &m.Samples[k]; s.Engine == 1+i {
				samples = append(samples, steadySample(s))
			}
		}
		f, err := steady.Fit(samples, steady.Options{Resamples: o.Resamples / 2, Seed: o.Seed})
		if err != nil {
			return nil, fmt.Errorf("neighbour %s: %w", n.Model, err)
		}
		list = append(list, f)
	}
	return list, nil
}

// duty returns the share of the time in which the work of an engine under load loads the
// machine. Where neighbours crowd each other that is all but the overhead: one that
// waits for its turn counts too.
func duty(p *profile.Profile, a loadgen.Activity, crowded bool) float64 {
	if crowded {
		overhead := a.Steps*(p.Overhead+a.Sequences*p.Sequence) + a.Prefills*(p.Overhead+p.Sequence+p.Prompt)
		return max(0, 1-overhead/1e3)
	}
	decoding := a.Steps * p.GPU(max(1, int(a.Sequences+0.5)), int(a.Context))
	return (decoding + a.Prefills*p.GPU(max(1, int(a.PrefillTokens)), 0)) / 1e3
}

// dutyRange returns how much less or more the neighbours' duty may be than was fitted
// with, as far as their own profiles are uncertain.
func dutyRange(m *loadgen.Measurement, neighbours []*steady.Fitted) (low, high float64) {
	low, high = 1, 1
	crowded := len(neighbours) > 1
	for i, n := range neighbours {
		var ratios []float64
		for _, draw := range n.Draws {
			var drawn, fitted float64
			for k := range m.Samples {
				for _, a := range m.Samples[k].Beside {
					if a.Engine == 1+i {
						drawn, fitted = drawn+duty(&draw, a, crowded), fitted+duty(&n.Profile, a, crowded)
					}
				}
			}
			ratios = append(ratios, drawn/fitted)
		}
		if slices.Sort(ratios); len(ratios) > 0 && ratios[0] > 0 {
			low, high = min(low, ratios[len(ratios)/20]), max(high, ratios[len(ratios)-1-len(ratios)/20])
		}
	}
	return low, high
}

// simulateAlone simulates the requests that came while no neighbour was loaded, by
// the scheduler that comes closer. It is nil if there are none.
func simulateAlone(f *steady.Fitted, records []loadgen.Record) *simulatedCheck {
	var requests []fit.Request
	longest := 0
	for _, r := range records {
		if len(r.Neighbours) == 0 && r.First > r.Arrival {
			requests = append(requests, fit.Request{
				ID: r.ID, PromptTokens: r.PromptTokens, OutputTokens: r.OutputTokens,
				Arrival: r.Arrival, Scheduled: r.Arrival, First: r.First, Last: r.Last,
			})
			longest = max(longest, (r.PromptTokens+r.OutputTokens+fit.BlockTokens)*(1+r.Beside))
		}
	}
	var best *simulatedCheck
	const ample = 1 << 20 // tokens in a step: chunks are not what was measured
	for _, way := range []struct {
		scheduler string
		prompts   int
	}{{engine.PrefillFirst, 0}, {engine.ChunkedPrefill, 0}, {engine.PrefillFirst, 1}} {
		m := fit.Model{Profile: f.Profile, KVTokens: 2 * longest, Engine: engine.Config{
			Scheduler: way.scheduler, MaxBatchTokens: ample, MaxPrompts: way.prompts, MaxSequences: ample, BlockTokens: fit.BlockTokens,
		}}
		times, err := m.Predict(requests)
		if err != nil || len(requests) == 0 {
			continue
		}
		for i := range times { // the clients that measured are not at the engine
			times[i].First += f.Profile.Request / 1e3
			times[i].Last += f.Profile.Request / 1e3
		}
		if e := fit.Compare(requests, times); best == nil || apart(&e) < apart(&best.Errors) {
			best = &simulatedCheck{way.scheduler, way.prompts == 1, e}
		}
	}
	return best
}

// apart returns how far a simulation lies from what was measured in all: schedulers may
// differ in the first tokens and the pace alone, and make up for one by the other.
func apart(e *fit.Errors) float64 { return e.EndToEnd.Median + e.TTFT.Median + e.TPOT.Median }

// Warn says in words which parts of the profile are not to be trusted.
func (p *Profile) Warn(stderr io.Writer) {
	m := &p.Measured
	for _, fault := range m.Faults {
		fmt.Fprintf(stderr, "gearshift: warning: the model does not fit %s: %s\n", m.Model, fault)
	}
	if m.Stolen > loadgen.MostStolen {
		fmt.Fprintf(stderr, "gearshift: warning: %s while %s was measured; see its notes\n", StolenWords(m.Stolen), m.Model)
	}
	if len(m.Held) > 0 {
		fmt.Fprintf(stderr, "gearshift: warning: the measurement hardly determines %s of %s\n", strings.Join(m.Held, ", "), m.Model)
	}
	if p.Profiles[0].KVBytes == 0 || p.Profiles[0].WeightBytes == 0 {
		fmt.Fprintln(stderr, "gearshift: warning: the profile lacks the model's memory; say it with --model-bytes and --kv-bytes-per-token, or --scenario")
	}
}

// Text returns the file, with the intervals next to the figures.
func (p *Profile) Text() ([]byte, error) {
	var doc yaml.Node
	if err := doc.Encode(p); err != nil {
		return nil, err
	}
	doc.HeadComment = "Measured by gearshift profile measure. The entry goes into a scenario's profiles:\n" +
		"gearshift scenario profiles SCENARIO --from FILE puts it there."
	return profileText(&doc, p.Measured.Intervals)
}

// profileText returns a document that begins with a list of one profile, whose figures get
// their intervals next to them.
func profileText(doc *yaml.Node, intervals map[string]fit.Interval) ([]byte, error) {
	entry := doc.Content[1].Content[0]
	for i := 0; i+1 < len(entry.Content); i += 2 {
		key, value := entry.Content[i].Value, entry.Content[i+1]
		if interval, ok := intervals[key]; ok {
			value.LineComment = fmt.Sprintf("90 %%: %.3g to %.3g", interval.Low, interval.High)
		}
	}
	shorten(doc)
	return output.YAML(doc)
}

// shorten rounds the fractions in a document to five digits: more say nothing.
func shorten(n *yaml.Node) {
	var v float64
	if n.Tag == "!!float" && n.Decode(&v) == nil {
		n.Value, n.Tag = fmt.Sprintf("%.5g", v), "" // 55941 is no "!!float 55941"
	}
	for _, c := range n.Content {
		shorten(c)
	}
}

// RequestLog returns a log of requests, JSON lines, which [fit.ReadLog] reads.
func RequestLog(records []loadgen.Record) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, r := range records {
		if err := e.Encode(r); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// FileOf names the file of a variant's profile among those of other variants.
func FileOf(variant string) string { return "profile-" + variant + ".yaml" }
