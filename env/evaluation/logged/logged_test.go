package logged_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/engine"
	"gearshift/env/evaluation"
	"gearshift/env/evaluation/logged"
	"gearshift/router/balance"
	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/workloads"
)

const small, large = 0, 1

// world is one host with a quick size and a better one, whose deadline is near.
func world(t *testing.T) env.Config {
	t.Helper()
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "chat", Deadline: 40 * time.Millisecond, Weight: 1, Quality: []float64{0.6, 1}}},
		[]fleet.Variant{{Name: "small"}, {Name: "large"}}, []fleet.Host{{Name: "a"}},
		[]fleet.Replica{{Name: "small@a", Variant: small}, {Name: "large@a", Variant: large}})
	if err != nil {
		t.Fatal(err)
	}
	profiles := []*profile.Profile{
		{LaunchFloor: 3, Weights: 2, Token: 0.02, Overhead: 1, Sequence: 0.2},
		{LaunchFloor: 6, Weights: 28, Token: 0.2, Overhead: 1, Sequence: 0.6},
	}
	return env.Config{
		Table: table, Profiles: profiles, KVTokens: []int{20_000, 20_000},
		Engine:   engine.Config{Scheduler: engine.PrefillFirst, MaxBatchTokens: 1024, MaxSequences: 64, BlockTokens: 16},
		Balancer: balance.SmallestBatch{}, Forecaster: profile.NewForecaster(profiles),
	}
}

// always chooses one variant.
type always int

func (always) Scratch() int                                        { return 0 }
func (a always) Decide(*fleet.View, *fleet.Request, []float32) int { return int(a) }

func scorer(c env.Config, l *logged.Log) *logged.Scorer {
	return logged.NewScorer(l, c.Forecaster, c.Balancer, len(c.Table.Variants))
}

// served is what the simulator makes of requests, as a router would have logged
// them: with the probability p the large size was chosen, else the small one.
func served(t *testing.T, c env.Config, n int, rate, p float64) *logged.Log {
	t.Helper()
	random := rand.New(rand.NewPCG(7, 7))
	script := &logged.Log{Runs: make([]logged.Run, 1)}
	var at time.Duration
	for i := range n {
		at += time.Duration(random.ExpFloat64() / rate * float64(time.Second))
		d := logged.Decision{
			Request: fleet.Request{ID: uint64(i + 1), PromptTokens: 20 + random.IntN(40), Arrival: at}, Policy: "coin",
			OutputTokens: 1 + random.IntN(60), Judged: true, Propensity: 1 - p,
		}
		if random.Float64() < p {
			d.Variant, d.Replica, d.Propensity = large, large, p
		}
		d.View = &fleet.View{Table: c.Table, Now: at, InFlight: make([]int32, 2), Held: make([]int32, 2), Down: make([]bool, 2)}
		script.Runs[0].Decisions = append(script.Runs[0].Decisions, d)
	}
	// What the views were and what was earned, the simulator says.
	w := evaluation.Workload{Open: opener(script)}
	list := script.Runs[0].Decisions
	samples, err := evaluation.Samples(context.Background(), &evaluation.Contestant{Decider: recorder{list}, Fleet: c}, &w, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range samples {
		list[i].Utility, list[i].Met, list[i].PerToken = s.Utility, s.Met, s.PerToken
	}
	return script
}

// recorder takes the scripted choice and notes the view.
type recorder struct{ list []logged.Decision }

func (recorder) Scratch() int { return 0 }
func (r recorder) Decide(v *fleet.View, q *fleet.Request, _ []float32) int {
	d := &r.list[q.ID]
	d.View.CopyFrom(v)
	return d.Variant
}

// The logged choices, replayed in the world that they were made in, give what was
// measured, and each policy gets what it earns there, which its own log shows.
func TestReplayIsTheWorldItself(t *testing.T) {
	c := world(t)
	log := served(t, c, 1500, 6, 0.5)
	p := logged.Replayer{Log: log, Fleet: c, Seed: 3}
	got, err := p.AsLogged(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	measured := logged.Summarise(log, c.Table.Variants)
	if got.Utility != measured.Utility || got.DeadlineMet != measured.DeadlineMet || got.OverLogged.Mean != 0 {
		t.Errorf("replayed %+v, measured %+v", got, measured)
	}
	for _, variant := range []int{small, large} {
		replay, err := p.Play(t.Context(), "always", always(variant))
		if err != nil {
			t.Fatal(err)
		}
		share := []float64{1, 0}[variant] // of the small size
		truth := logged.Summarise(served(t, c, 1500, 6, float64(variant)), c.Table.Variants)
		if math.Abs(replay.Utility.Mean-truth.Utility.Mean) > 1e-9 || math.Abs(replay.Share["small"]-share) > 1e-9 {
			t.Errorf("variant %d: replayed %+v, in truth %+v", variant, replay, truth.Utility)
		}
		if want := replay.Utility.Mean - got.Utility.Mean; math.Abs(replay.OverLogged.Mean-want) > 1e-9 {
			t.Errorf("over the logged choices %v, want %v", replay.OverLogged, want)
		}
	}
}

// Where chance chose and load does not matter, matching and the doubly robust
// estimate find the truth, and their intervals hold it; the forecast is near it.
func TestEstimatesFindTheTruth(t *testing.T) {
	c := world(t)
	log := served(t, c, 4000, 0.5, 0.3)
	s := scorer(c, log)
	for variant, truth := range map[int]float64{small: 0.6, large: logged.Summarise(served(t, c, 4000, 0.5, 1), c.Table.Variants).Utility.Mean} {
		got := s.Score(always(variant))
		for name, x := range map[string]*evaluation.Interval{"matched": got.Matched, "doubly robust": got.DoublyRobust, "forecast": got.Forecast} {
			if x == nil || math.Abs(x.Mean-truth) > 0.05 {
				t.Errorf("variant %d: %s %+v, truth %v", variant, name, x, truth)
			}
			if name != "forecast" && (x.Lo-0.01 > truth || x.Hi+0.01 < truth) {
				t.Errorf("variant %d: %s %+v does not hold %v", variant, name, x, truth)
			}
		}
		if p := []float64{0.7, 0.3}[variant]; math.Abs(got.Agreement-p) > 0.03 || got.Matches != int(math.Round(got.Agreement*4000)) || math.Abs(got.EffectiveMatches-float64(got.Matches)) > 1e-6 {
			t.Errorf("variant %d: %+v", variant, got)
		}
	}
}

// Only rows that a policy decided and whose deadline was judged count; where
// nothing is known, nothing is said.
func TestWhatCounts(t *testing.T) {
	c := world(t)
	log := served(t, c, 40, 1, 0)
	list := log.Runs[0].Decisions
	list[0].Pinned, list[1].Judged, list[2].Propensity = true, false, 0
	s := scorer(c, log)
	agrees := s.Score(always(small))
	if agrees.Agreement != 1 || agrees.Matches != 37 {
		t.Errorf("%+v", agrees)
	}
	never := s.Score(always(large))
	if never.Agreement != 0 || never.Matched != nil || never.DoublyRobust == nil || never.DoublyRobust.Mean != never.Forecast.Mean {
		t.Errorf("%+v", never)
	}
	sum := logged.Summarise(log, c.Table.Variants)
	if sum.Judged != 39 || sum.Pinned != 1 || sum.Requests != 40 || sum.Policies["coin"] != 40 {
		t.Errorf("%+v", sum)
	}
	// A pinned request stays where it was, whatever the policy, and a deadline of its
	// own holds in the replay.
	list[5].Request.Deadline = time.Microsecond
	p := logged.Replayer{Log: log, Fleet: c}
	replay, err := p.Play(t.Context(), "large", always(large))
	if err != nil || math.Abs(replay.Share["small"]-1./39) > 1e-9 || replay.DeadlineMet.Mean > 38./39+1e-9 {
		t.Errorf("%+v, %v", replay, err)
	}
	for _, unknown := range []int{3, 4} {
		list[unknown].OutputTokens = 0
	}
	list[7].Request.Arrival = list[6].Request.Arrival - 1 // stamped out of order
	if _, err := p.Play(t.Context(), "large", always(large)); err != nil {
		t.Error(err)
	}
}

// notes is a balancer that notes in which quarter its random numbers lie.
type notes struct{ quarters *[4]int }

func (n notes) Pick(v *fleet.View, _ *fleet.Request, variant int, random uint64) int {
	n.quarters[random>>62]++
	return v.ReplicasOf(variant)[0]
}

// Balancers draw among equals by numbers that are spread evenly, though those of
// requests are 1, 2, 3 …
func TestBalancersGetUniformNumbers(t *testing.T) {
	c := world(t)
	log := served(t, c, 400, 1, 0)
	for i := range log.Runs[0].Decisions {
		log.Runs[0].Decisions[i].Pinned = i%2 == 0
	}
	even := func(what string, quarters [4]int) {
		t.Helper()
		for _, n := range quarters { // 50 each, with a standard deviation of 6
			if n < 25 || n > 75 {
				t.Errorf("%s: by quarter %v, want about 50 each", what, quarters)
			}
		}
	}
	var scored, replayed [4]int
	c.Balancer = notes{&scored}
	scorer(c, log).Score(always(small))
	even("scored", scored)
	c.Balancer = notes{&replayed}
	p := logged.Replayer{Log: log, Fleet: c}
	if _, err := p.Play(t.Context(), "places", places{small}); err != nil {
		t.Fatal(err)
	}
	even("replayed", replayed)
}

// places is always, for the replica too.
type places struct{ always }

func (p places) Place(*fleet.View, *fleet.Request, []float32) int { return int(p.always) }

func TestReports(t *testing.T) {
	c := world(t)
	log := served(t, c, 100, 1, 0.5)
	p, s := logged.Replayer{Log: log, Fleet: c}, scorer(c, log)
	replay, err := p.Play(t.Context(), "always", always(small))
	if err != nil {
		t.Fatal(err)
	}
	r := logged.Report{
		Scenario: "test", Log: logged.Summarise(log, c.Table.Variants), Variants: c.Table.Variants, Assumptions: []string{"the sky is blue"}, Notes: []string{"rain"},
		Results: []logged.Result{{Policy: "a", Scores: s.Score(always(small)), Replay: &replay}, {Policy: "b"}},
	}
	r.Log.Simulated = &replay
	var table, text, sheet strings.Builder
	for format, w := range map[string]*strings.Builder{"table": &table, "json": &text, "csv": &sheet} {
		if err := r.Write(w, format); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"decided by coin (100)", "measured", "logged choices, simulated", "- the sky is blue", "note: rain"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("%q is not in\n%s", want, &table)
		}
	}
	var back logged.Report
	if err := json.Unmarshal([]byte(text.String()), &back); err != nil || back.Results[0].Replay.Utility != replay.Utility || back.Results[1].Matched != nil {
		t.Errorf("%v: %s", err, &text)
	}
	rows, err := csv.NewReader(strings.NewReader(sheet.String())).ReadAll()
	if err != nil || len(rows) != 5 || rows[3][1] != "a" || rows[4][3] != "" {
		t.Errorf("%v: %s", err, &sheet)
	}
	if err := r.Write(&table, "svg"); err == nil || !strings.Contains(fmt.Sprint(err), "table, json, csv") {
		t.Errorf("%v", err)
	}
}

func opener(l *logged.Log) func(uint64) (workloads.Stream, error) {
	return func(seed uint64) (workloads.Stream, error) { return l.Stream(0, 0, seed), nil }
}

// What engines are slower by is found from what was measured, by variant, also
// where slowness makes queues.
func TestCalibrate(t *testing.T) {
	c := world(t)
	slow := c
	slow.SlowVariants([]float64{0.8, 1.25})
	for _, rate := range []float64{1, 5} {
		p := logged.Replayer{Log: served(t, slow, 2000, rate, 0.5), Fleet: c}
		factors, err := p.Calibrate(t.Context())
		if err != nil || math.Abs(factors[small]-0.8) > 0.03 || math.Abs(factors[large]-1.25) > 0.03 {
			t.Errorf("at %v per second: %v, %v; want 0.8 and 1.25", rate, factors, err)
		}
		got, err := p.AsLogged(t.Context())
		if err != nil || got.PaceRatio["large"] < 1.2 || got.PaceRatio["small"] > 0.9 {
			t.Errorf("at %v per second: %v, %v", rate, got.PaceRatio, err)
		}
	}
	// Of a variant that was never chosen nothing is known; it gets the others' factor.
	p := logged.Replayer{Log: served(t, slow, 500, 1, 1), Fleet: c}
	if factors, err := p.Calibrate(t.Context()); err != nil || factors[small] != factors[large] || math.Abs(factors[large]-1.25) > 0.03 {
		t.Errorf("%v, %v", factors, err)
	}
	if p.Fleet.Profiles[1].Weights != 28 {
		t.Error("the replayer's own fleet has changed")
	}
}

// What a request takes on its way to the engine is no slowness.
func TestCalibrateLeavesTheWayOut(t *testing.T) {
	c := world(t)
	p := logged.Replayer{Log: served(t, c, 1000, 1, 0.5), Fleet: c}
	const way = 40 // ms
	for i := range p.Log.Runs[0].Decisions {
		d := &p.Log.Runs[0].Decisions[i]
		d.PerToken += profile.Duration(way) / time.Duration(d.OutputTokens)
	}
	for _, q := range c.Profiles {
		q.Request = way
	}
	factors, err := p.Calibrate(t.Context())
	if err != nil || math.Abs(factors[small]-1) > 0.01 || math.Abs(factors[large]-1) > 0.01 {
		t.Errorf("%v, %v; want 1 of both", factors, err)
	}
	if got, err := p.AsLogged(t.Context()); err != nil || math.Abs(got.PaceRatio["small"]-1) > 0.01 {
		t.Errorf("%v, %v", got.PaceRatio, err)
	}
}

// Endless arrivals go round the runs with the log's own gaps.
func TestEndless(t *testing.T) {
	c := world(t)
	a, b := served(t, c, 5, 1, 0), served(t, c, 4, 1, 0)
	log := &logged.Log{Runs: []logged.Run{a.Runs[0], b.Runs[0]}}
	a.Runs[0].Decisions[2].OutputTokens = 0
	const fits = 60 // not every request
	s := log.Endless(9+3, fits, 1)
	var list []workloads.Arrival
	for range 20 {
		x, ok := s.Next()
		if !ok || len(list) > 0 && x.At < list[len(list)-1].At || x.OutputTokens < 1 || x.PromptTokens+x.OutputTokens > fits {
			t.Fatalf("%+v after %+v", x, list)
		}
		list = append(list, x)
	}
	run := a.Runs[0].Decisions
	prompt, _ := workloads.Fit(run[3].Request.PromptTokens, run[3].OutputTokens, fits)
	if got, want := list[1].At-list[0].At, run[4].Request.Arrival-run[3].Request.Arrival; got != want || list[0].PromptTokens != prompt {
		t.Errorf("begins %+v, gap %v; want %v", list[0], got, want)
	}
	if list[11].At-list[10].At != list[2].At-list[1].At || list[9].PromptTokens != list[0].PromptTokens || list[2].At <= list[1].At {
		t.Errorf("the second round differs: %v", list)
	}
}

// sees chooses what is predicted best, and counts the requests for which something is.
type sees struct{ predicted *int }

func (sees) Scratch() int { return 0 }
func (s sees) Decide(_ *fleet.View, r *fleet.Request, _ []float32) int {
	if !r.Predicted.Known {
		return large
	}
	*s.predicted++
	if r.Predicted.Quality[small] > r.Predicted.Quality[large] {
		return small
	}
	return large
}
func (s sees) Place(v *fleet.View, r *fleet.Request, scratch []float32) int {
	return s.Decide(v, r, scratch) // each size has one replica
}

// deciding is sees without its Place.
type deciding struct{ evaluation.Decider }

// What was predicted of a logged request is shown to those who are asked about it again,
// replayed and row by row.
func TestPredictionsAreShownAgain(t *testing.T) {
	c := world(t)
	log := served(t, c, 300, 1, 0.5)
	for i := range log.Runs[0].Decisions {
		p := &log.Runs[0].Decisions[i].Request.Predicted
		if p.Known = i%3 > 0; i%3 == 1 {
			p.Quality[small] = 1
		}
	}
	var predicted int
	for _, decider := range []evaluation.Decider{sees{&predicted}, deciding{sees{&predicted}}} {
		predicted = 0
		replay, err := (&logged.Replayer{Log: log, Fleet: c, Seed: 3}).Play(t.Context(), "sees", decider)
		if err != nil {
			t.Fatal(err)
		}
		if share := replay.Share["small"]; predicted != 200 || math.Abs(share-1./3) > 1e-9 {
			t.Errorf("replayed: %d of 300 predicted, %v to the small size; want 200 and a third", predicted, share)
		}
	}
	predicted = 0
	scorer(c, log).Score(sees{&predicted})
	if predicted != 200 {
		t.Errorf("row by row: %d of 300 predicted, want 200", predicted)
	}
}
