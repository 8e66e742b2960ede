package profile_test

import (
	"math"
	"testing"
	"time"

	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/profile"
)

// Before an answer lie the half of the batch under way, the full batches that wait, and
// the request's own.
func TestAnswerByBatches(t *testing.T) {
	p := &profile.Profile{Overhead: 1, Contention: 0.5, Batches: batches(t, map[string]map[int]float64{"": {1: 5, 4: 11}})}
	for others, want := range map[int]float64{0: 5, 1: 2.5 + 5, 4: 5.5 + 5, 5: 5.5 + 7, 7: 5.5 + 11, 8: 5.5 + 11 + 5, 14: 5.5 + 22 + 9} {
		if got := p.Answer(0, others, 0); math.Abs(got-want) > 1e-9 {
			t.Errorf("behind %d others %v ms, want %v", others, got, want)
		}
	}
	// Neighbours slow all but the overhead of each batch.
	if got, want := p.Answer(0, 1, 1), 7.5+0.5*(7.5-1.5); math.Abs(got-want) > 1e-9 {
		t.Errorf("beside a neighbour %v ms, want %v", got, want)
	}
}

// Forecasts are of the time until the answer, against the deadline to its end, and by the
// task's kind of input.
func TestForecastOfBatches(t *testing.T) {
	table := *conformance.Fleet(0)
	table.Tasks = append([]fleet.Task{}, table.Tasks...)
	task := &table.Tasks[0]
	task.Kind, task.Deadline, task.Total, task.Pace = "text", 0, 20*time.Millisecond, 20*time.Millisecond
	times := batches(t, map[string]map[int]float64{"image": {1: 50}, "text": {1: 5, 4: 11}})
	profiles := make([]*profile.Profile, len(table.Replicas))
	for i := range profiles {
		profiles[i] = &profile.Profile{Overhead: 1, Contention: 0.5, Batches: times}
	}
	v := &fleet.View{Table: &table, InFlight: make([]int32, 12), Held: make([]int32, 12), Down: make([]bool, 12), Now: 2 * time.Millisecond}
	v.InFlight[0] = 5
	f := profile.NewForecaster(profiles).Expecting(make([]float64, len(table.Tasks)))
	request := &fleet.Request{PromptTokens: 90}
	forecast := func() { f.Forecast(v, request) }
	forecast()
	if got, want := v.Forecasts[0].Pace, 12.5/20; math.Abs(got-want) > 1e-9 {
		t.Errorf("pace %v, want %v", got, want)
	}
	if got, want := v.Forecasts[0].Total, 14.5/20; math.Abs(got-want) > 1e-9 {
		t.Errorf("with 2 ms waited, %v of the deadline, want %v", got, want)
	}
	// An idle replica beside it is slowed by it, one on another host is not.
	if beside, away := v.Forecasts[1].Pace, v.Forecasts[3].Pace; away != 5.0/20 || beside <= away {
		t.Errorf("beside the busy one pace %v, away from it %v", beside, away)
	}
	v.InFlight[0] = 13 // the batch after the next two
	forecast()
	if got := v.Forecasts[0]; got.Misses < 0.9 || got.Total < 1 {
		t.Errorf("behind 13 others it is forecast in time: %+v", got)
	}
	if n := testing.AllocsPerRun(100, forecast); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
