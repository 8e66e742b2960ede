package profile_test

import (
	"testing"
	"time"

	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/profile"
)

// forecasts is a function that forecasts a request on the paper's fleet: three
// sizes on each of four hosts, the largest close to its deadline alone.
func forecasts(t *testing.T) (*fleet.View, func() []fleet.Forecast) {
	t.Helper()
	table := conformance.Fleet(0)
	sizes := []*profile.Profile{
		{LaunchFloor: 3.24, Weights: 0.636, Growth: 0.003, Token: 0.0035, Overhead: 1.5, Sequence: 0.2, Contention: 0.15},
		{LaunchFloor: 6.48, Weights: 6.69, Growth: 0.003, Token: 0.0368, Overhead: 1.5, Sequence: 0.2, Contention: 0.15},
		{LaunchFloor: 8.64, Weights: 33.83, Growth: 0.003, Token: 0.186, Overhead: 1.5, Sequence: 0.2, Contention: 0.15},
	}
	var profiles []*profile.Profile
	for _, r := range table.Replicas {
		profiles = append(profiles, sizes[r.Variant])
	}
	v := &fleet.View{Table: table, InFlight: make([]int32, 12), Held: make([]int32, 12), Down: make([]bool, 12)}
	f := profile.NewForecaster(profiles)
	return v, func() []fleet.Forecast {
		f.Forecast(v, &fleet.Request{PromptTokens: 90})
		return v.Forecasts
	}
}

const medium, large = 1, 2 // on the first host; three further on on each next

func TestForecastOfTheRequestItself(t *testing.T) {
	v, forecast := forecasts(t)
	idle := forecast()
	// By hand, alone: 33.83 + 1.5 + 0.2 ms against 40.
	if got, want := idle[large].Pace, 35.53/40; got < want-1e-9 || got > want+1e-9 {
		t.Errorf("pace %v, want %v", got, want)
	}
	if idle[medium].Misses >= idle[large].Misses {
		t.Errorf("the medium size adds %v misses, the large one %v", idle[medium].Misses, idle[large].Misses)
	}
	v.InFlight[large], v.Held[large] = 20, 4000
	busy := forecast()
	if busy[large].Pace <= idle[large+3].Pace || busy[large].Misses <= busy[large+3].Misses {
		t.Errorf("a batch of 20 is no worse to join than none: %+v, %+v", busy[large], busy[large+3])
	}
}

func TestForecastOfTheNeighbours(t *testing.T) {
	v, forecast := forecasts(t)
	v.InFlight[large], v.Held[large] = 3, 600
	got := forecast()
	// Beside the large size, a medium one slows three requests past their
	// deadline; on the next host nobody.
	if got[medium].Misses < 1 || got[medium+3].Misses > 0.5 {
		t.Errorf("a medium request adds %v misses beside three large ones, %v on an idle host", got[medium].Misses, got[medium+3].Misses)
	}
	// Once a medium one is there, a second does little further harm.
	v.InFlight[medium], v.Held[medium] = 4, 800
	if more := forecast(); more[medium].Misses > got[medium].Misses/3 {
		t.Errorf("one more medium request adds %v misses, the first added %v", more[medium].Misses, got[medium].Misses)
	}
	// An idle host that a medium request wakes is one fewer for large ones.
	v.InFlight[medium+6], v.Held[medium+6] = 1, 200
	if hosts := forecast(); hosts[medium+3].Misses <= hosts[medium+6].Misses {
		t.Errorf("waking an idle host costs %v, joining one on another %v", hosts[medium+3].Misses, hosts[medium+6].Misses)
	}
}

// A request's own deadline counts, not its task's.
// A neighbour that is not loaded is harmed by nothing: it gets no request soon.
func TestForecastOfNeighboursThatSleep(t *testing.T) {
	v, forecast := forecasts(t)
	before := forecast()[medium].Misses
	v.States = make([]fleet.State, 12)
	v.States[large] = fleet.Warm
	if asleep := forecast()[medium].Misses; !(asleep < before) {
		t.Errorf("misses of %v next to an idle large size, %v next to one that sleeps", before, asleep)
	}
}

func TestForecastByDeadline(t *testing.T) {
	v, forecast := forecasts(t)
	strict := forecast()[large]
	table := *v.Table
	table.Tasks = append([]fleet.Task{}, v.Table.Tasks...)
	table.Tasks[0].Deadline *= 2
	v.Table = &table
	if loose := forecast()[large]; loose.Pace != strict.Pace/2 || loose.Misses >= strict.Misses {
		t.Errorf("with twice the time %+v, before %+v", loose, strict)
	}
}

func TestForecastDoesNotAllocate(t *testing.T) {
	_, forecast := forecasts(t)
	forecast()
	if n := testing.AllocsPerRun(100, func() { forecast() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkForecast(b *testing.B) {
	table := conformance.Fleet(0)
	profiles := make([]*profile.Profile, len(table.Replicas))
	for i := range profiles {
		profiles[i] = &profile.Profile{Weights: 7, Growth: 0.003, Token: 0.04, Overhead: 1.5, Sequence: 0.2, Contention: 0.15}
	}
	v := &fleet.View{Table: table, InFlight: make([]int32, 12), Held: make([]int32, 12), Down: make([]bool, 12)}
	for i := range v.InFlight {
		v.InFlight[i], v.Held[i] = int32(i), int32(300*i)
	}
	f := profile.NewForecaster(profiles)
	for b.Loop() {
		f.Forecast(v, &fleet.Request{PromptTokens: 90})
	}
}

// turns are three sizes whose engines take turns on one host, in profiles and in a
// view of three requests on each.
func turns() (*fleet.View, []*profile.Profile) {
	table := conformance.Fleet(0)
	var profiles []*profile.Profile
	for _, r := range table.Replicas {
		weights := []float64{4, 8, 16}[r.Variant]
		profiles = append(profiles, &profile.Profile{Weights: weights, Overhead: 1, Sequence: 0.5, Contention: 0.2, Crowding: 1})
	}
	v := &fleet.View{Table: table, InFlight: make([]int32, 12), Held: make([]int32, 12), Down: make([]bool, 12)}
	for i := range v.InFlight {
		v.InFlight[i] = 3
	}
	return v, profiles
}

// Engines that take turns slow each other, and load the host for as long as they wait.
// What is forecast is the step that they come to.
func TestForecastWhereEnginesTakeTurns(t *testing.T) {
	v, profiles := turns()
	f := profile.NewForecaster(profiles)
	request := &fleet.Request{PromptTokens: 90}
	f.Forecast(v, request)
	if n := testing.AllocsPerRun(100, func() { f.Forecast(v, request) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	on := v.Table.ReplicasOn(0)
	for k, i := range on {
		duties, steps := make([]float64, len(on)), make([]float64, len(on))
		for range 50 {
			for j, o := range on {
				n, neighbours := 3, 0.0
				if j == k {
					n = 4
				}
				for other, duty := range duties {
					if other != j {
						neighbours += duty
					}
				}
				steps[j], duties[j] = profiles[o].Step(n, n, 0, neighbours)
			}
		}
		if got, want := 40*v.Forecasts[i].Pace, steps[k]; got < 0.999*want || got > 1.001*want {
			t.Errorf("replica %d is forecast a step of %v ms; they come to %v", i, got, want)
		}
	}
}

// Where engines take turns, an idle one's first token waits for those that are busy.
func TestForecastOfTheFirstTokenWhereEnginesTakeTurns(t *testing.T) {
	v, profiles := turns()
	idle := v.Table.ReplicasOn(0)[0]
	for i := range profiles {
		profiles[i].Token = 0.1
	}
	request := &fleet.Request{PromptTokens: 90, FirstToken: time.Second}
	first := func(busy int32) float64 {
		for _, i := range v.Table.ReplicasOn(0) {
			v.InFlight[i] = busy
		}
		v.InFlight[idle] = 0
		profile.NewForecaster(profiles).Forecast(v, request)
		return v.Forecasts[idle].First * 1000
	}
	alone, beside := profiles[idle].Prefill(90, 0), profiles[idle].Prefill(90, 1.5)
	if got := first(0); got < 0.999*alone || got > 1.001*alone {
		t.Errorf("%v ms on an idle host, want %v", got, alone)
	}
	if got := first(3); got < beside {
		t.Errorf("%v ms beside two busy engines, want %v at least; alone it is %v", got, beside, alone)
	}
}

// The duties settle to where each is that of a step beside the others.
func TestSettle(t *testing.T) {
	_, profiles := turns()
	batches := []profile.Batch{profile.NewBatch(profiles[0], 2, 0), profile.NewBatch(profiles[4], 0, 0), profile.NewBatch(profiles[8], 5, 0), profile.NewBatch(profiles[5], 1, 0)}
	sum := profile.Settle(batches)
	for k, b := range batches {
		_, want := b.Profile.Step(b.Sequences, b.Sequences, 0, sum-b.Duty)
		if b.Sequences == 0 {
			want = 0
		}
		if d := b.Duty - want; d < -1e-3 || d > 1e-3 {
			t.Errorf("batch %d has duty %v, beside the others %v", k, b.Duty, want)
		}
	}
}

func BenchmarkForecastWhereEnginesTakeTurns(b *testing.B) {
	v, profiles := turns()
	f := profile.NewForecaster(profiles)
	for b.Loop() {
		f.Forecast(v, &fleet.Request{PromptTokens: 90})
	}
}
