package policies

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/workloads"
)

// episode is one way through a simulated world, and the digest of what it came to.
type episode struct {
	scenario, workload, rule string
	requests                 int
	change                   func(*env.Config) // may be nil
	digest                   string
}

// What the simulator does is the same as before it had an agenda, bit for bit: at each
// decision the engines, the view and the choice, and the outcomes after it. (Other
// processors than that of the digests may round in another way.)
func TestEpisodesAreAsTheyWere(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the digests are of amd64; other processors fuse multiplications and additions, and round in another way")
	}
	routers := func(n int, gauges time.Duration) func(*env.Config) {
		return func(c *env.Config) { c.Routers = env.Routers{Number: n, Gauges: gauges} }
	}
	marginal := func(c *env.Config) { c.Marginal = true }
	declared := func(c *env.Config) { c.Declared = c.Profiles }
	for _, e := range []episode{
		{"titan-rtx-opt", "u1", "threshold", 1500, nil, "6f02f28c559f94d0d6e783eb467919c5"},
		{"titan-rtx-opt", "u1+lost:gpu0@60-90", "slackfit", 1500, nil, "08cec6215fee8e866c6f6de0cb560ad2"},
		{"titan-rtx-opt", "u2+lost:gpu2@20-", "task-aware:0.98,0.08,1,0.5,0.15", 1500, nil, "7ad80ba69d0b909f103383e8b4c140ed"},
		{"titan-rtx-opt", "u2+gpu:x1.25", "priced:1,0.025,0.25,0.6,0.25", 1500, nil, "4ed3c1afc05f8907ddad71ff90e2ada8"},
		{"titan-rtx-opt", "stable:20+lost:gpu1@5-20", "least-work:0.45,0.6625", 0, declared, "b0e3375b5ec95c2879f537b9aa022ee2"},
		{"titan-rtx-opt", "u1+lost:gpu0@30-60", "threshold", 1500, routers(3, time.Second), "5779408cba11bf3d64071e191d3547e3"},
		{"titan-rtx-opt", "u2", "threshold", 1000, routers(5, 250*time.Millisecond), "b21451e2adf20a69c1bd20933fa0e3e1"},
		{"titan-rtx-opt", "short-bursts+lost:gpu0@20-50", "slackfit", 800, marginal, "6dfd4711aeb47e60e96cad080556e485"},
		{"a100-modern", "poisson:20+outputs:x2", "slackfit", 800, nil, "22ab5bd3e55abe72d2bc2a19a4094d75"},
		{"cpu-three", "mmpp:1,12,20,10", "threshold", 500, nil, "6346dc14a1e5435deef10826b1018b9d"},
		{"five-sizes", "clusters", "least-work:0.45,0.6625", 1000, nil, "671406f38201f9d555a87520bee32a19"},
		{"pacing", "u1", "priced:1,0.025,0.25,0.6,0.25", 1500, nil, "b05bdfc5358264a573651e5362a0ed8c"},
		{"pacing", "u2+lost:gpu1@15-60", "least-work:0.45,0.6625", 1500, marginal, "89eec2632cbe415bd870e40b5ea7246f"},
		{"forty", "poisson:60+lost:gpu3@7-12", "slackfit", 1500, nil, "3a7ec2baec9c4d01fe72cee6a7452de7"}, // no sample has the lost host
		{"forty", "poisson:40", "slackfit", 1200, routers(4, 500*time.Millisecond), "028c49ae78863dcf840cb7628ca842b5"},
	} {
		t.Run(fmt.Sprint(e.scenario, " ", e.workload, " ", e.rule), func(t *testing.T) {
			if got := e.play(t); got != e.digest {
				t.Errorf("digest %s, want %s", got, e.digest)
			}
		})
	}
}

// worldOf is a built-in scenario, or one made of titan-rtx-opt: "pacing" has hosts that
// change their pace, "forty" so many hosts that a decision looks at a sample.
func worldOf(t *testing.T, name string) *scenario.Scenario {
	t.Helper()
	if name != "pacing" && name != "forty" {
		s, err := scenario.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	text, err := workloads.Scenario("titan-rtx-opt")
	if err != nil {
		t.Fatal(err)
	}
	hosts, pace := 4, ", slowdown: {min: 0.9, max: 1.6, mean_s: 8}"
	if name == "forty" {
		hosts, pace = 40, ""
	}
	var list, names []string
	for h := range hosts {
		list = append(list, fmt.Sprintf("  - {name: gpu%d, memory: 24GiB%s}\n", h, pace))
		names = append(names, fmt.Sprintf("gpu%d", h))
	}
	changed := regexp.MustCompile(`(?m)^hosts:\n(?:  - .*\n)+`).ReplaceAllString(string(text), "hosts:\n"+strings.Join(list, ""))
	changed = strings.ReplaceAll(changed, "[gpu0, gpu1, gpu2, gpu3]", "["+strings.Join(names, ", ")+"]")
	s, err := scenario.Parse(name+".yaml", []byte(changed))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (x *episode) play(t *testing.T) string {
	t.Helper()
	s := worldOf(t, x.scenario)
	config, err := s.Simulation()
	if err != nil {
		t.Fatal(err)
	}
	work, err := s.Evaluated([]string{x.workload}, x.requests)
	if err != nil {
		t.Fatal(err)
	}
	config.Open, config.KnownRate, config.Check = work[0].Open, work[0].KnownRate, true
	if x.change != nil {
		x.change(&config)
	}
	if err := work[0].Perturb(&config); err != nil {
		t.Fatal(err)
	}
	maker, err := s.Maker(config.Table)
	if err != nil {
		t.Fatal(err)
	}
	rule, err := maker.Parse(x.rule)
	if err != nil {
		t.Fatal(err)
	}
	if config.Encoder, err = maker.Encoder(s.Spec()); err != nil {
		t.Fatal(err)
	}
	e, err := env.New(config)
	if err != nil {
		t.Fatal(err)
	}
	sum, failed := digest{sha256.New()}, false
	observation, err := e.Reset(7)
	if err != nil {
		t.Fatal(err)
	}
	scratch := make([]float32, rule.Scratch())
	for {
		choice := rule.Decide(e.View(), e.Request(), scratch)
		sum.decision(e, observation, choice)
		step, err := e.Step(choice)
		if err != nil {
			t.Fatal(err)
		}
		sum.step(&step)
		failed = failed || slices.ContainsFunc(step.Info.Outcomes, func(o env.Outcome) bool { return o.Failed })
		if observation = step.Observation; step.Terminated || step.Truncated {
			if lost := len(config.Losses) > 0; failed != lost {
				t.Errorf("hosts are lost: %t, requests fail: %t", lost, failed)
			}
			return sum.String()
		}
	}
}

// digest sums up an episode. Fields are named one by one, since those to come do not
// change what there was.
type digest struct{ hash.Hash }

func (d digest) String() string { return hex.EncodeToString(d.Sum(nil)[:16]) }

func (d digest) put(values ...any) {
	for _, x := range values {
		switch x := x.(type) {
		case int:
			binary.Write(d, binary.LittleEndian, int64(x))
		default:
			binary.Write(d, binary.LittleEndian, x)
		}
	}
}

func (d digest) decision(e *env.Environment, observation []float32, choice int) {
	v := e.View()
	d.put(e.Fingerprint(), choice, v.Now, v.InFlight, v.ByTask, v.Held, v.Down, v.Elsewhere, v.Caps, v.Excess, v.Rate, v.Smoothed, v.Recent, observation)
	for _, r := range v.Replicas() {
		d.put(r)
		if len(v.Forecasts) > 0 {
			d.put(math.Float64bits(v.Forecasts[r].Pace), math.Float64bits(v.Forecasts[r].Misses))
		}
	}
}

func (d digest) step(s *env.Step) {
	d.put(s.Reward, s.Terminated, s.Truncated, s.Info.Elapsed)
	for i := range s.Info.Outcomes {
		o := &s.Info.Outcomes[i]
		d.put(o.Decision, o.Request.Task, o.Request.PromptTokens, o.Request.Arrival, o.Variant, o.Replica, o.OutputTokens,
			o.FirstToken, o.Finished, o.Utility, o.Marginal, o.Met, o.Failed)
	}
}

// An evaluation's JSON is the same as before the simulator had an agenda, byte for byte,
// with a planner and a host that is lost among what is evaluated.
func TestAnEvaluationIsAsItWas(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the digest is of amd64")
	}
	s := worldOf(t, "titan-rtx-opt")
	list, err := Contestants(s, nil, []string{"static:opt-1.3b", "threshold", "slackfit", "clairvoyant:threshold@5s"}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	work, err := s.Evaluated([]string{"u1", "u2+lost:gpu0@20-60", "stable:8", "poisson:6+gpu:x1.2"}, 200)
	if err != nil {
		t.Fatal(err)
	}
	plan := evaluation.Plan{
		Contestants: list, Workloads: work, Seeds: workloads.Seeds(workloads.Evaluation, 2), Objectives: evaluation.Beside(),
	}
	results, err := plan.Evaluate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	report := evaluation.Report{Scenario: s.Name, Seeds: 2, Results: results, Variants: s.Table().Variants}
	var out bytes.Buffer
	if err := report.Write(&out, "json"); err != nil {
		t.Fatal(err)
	}
	const want = "9132f8bcd52b57fca98b4314fbee7fa8"
	if sum := sha256.Sum256(out.Bytes()); hex.EncodeToString(sum[:16]) != want {
		t.Errorf("digest %x, want %s, of\n%.2000s", sum[:16], want, out.String())
	}
}
