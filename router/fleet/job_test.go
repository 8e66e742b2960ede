package fleet_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"gearshift/router/fleet"
)

// Two requests by modality: 20, 30 and 60 ms after one another, of qualities .67, .70 and
// .80, with a job that starts at 20 ms.
func TestJobOutcome(t *testing.T) {
	type way struct {
		ms      int
		quality float64
	}
	audio, video, both := way{20, 0.67}, way{30, 0.70}, way{60, 0.80}
	job := fleet.Job{Requests: 2, Floor: 0.71, Deadline: 140 * time.Millisecond}
	for _, c := range []struct {
		ways    []way
		quality float64
		ends    int
		kept    bool
	}{
		{[]way{both, both}, 0.800, 140, true}, // to the millisecond
		{[]way{both, video}, 0.750, 110, true},
		{[]way{both, audio}, 0.735, 100, true},
		{[]way{video, video}, 0.700, 80, false},
		{[]way{video, audio}, 0.685, 70, false},
		{[]way{audio, audio}, 0.670, 60, false},
	} {
		at, answers := 20, []fleet.Answer(nil)
		for _, w := range c.ways {
			at += w.ms
			answers = append(answers, fleet.Answer{Quality: w.quality, Finished: time.Duration(at) * time.Millisecond})
		}
		o, err := job.Outcome(answers)
		if err != nil || o.Kept != c.kept || o.BelowFloor == c.kept || o.Late || math.Abs(o.Quality-c.quality) > 1e-12 || o.Finished != time.Duration(c.ends)*time.Millisecond {
			t.Errorf("%v: %+v, %v", c.ways, o, err)
		}
		// A floor that is the mean itself, however it is rounded, is kept.
		exact := fleet.Job{Requests: 2, Floor: c.quality, Deadline: o.Finished}
		if o, _ := exact.Outcome(answers); !o.Kept {
			t.Errorf("a floor of %v: %+v", c.quality, o)
		}
		exact.Deadline--
		if o, _ := exact.Outcome(answers); o.Kept || !o.Late || o.InTime != 1 {
			t.Errorf("with a nanosecond less: %+v", o)
		}
	}
}

func TestJobWithLostAnswers(t *testing.T) {
	job := fleet.Job{Requests: 3, Floor: 0.5, Deadline: time.Second}
	o, err := job.Outcome([]fleet.Answer{{Quality: 0.9, Finished: time.Second}, {Lost: true}, {Quality: 0.7, Finished: 2 * time.Second}})
	want := fleet.JobOutcome{Late: true, Quality: 0.8, Finished: 2 * time.Second, Answered: 2, Lost: 1, InTime: 1}
	if err != nil || o != want {
		t.Errorf("%+v, %v; want %+v", o, err, want)
	}
	o, err = job.Outcome([]fleet.Answer{{Lost: true}, {Lost: true}, {Lost: true}})
	if want := (fleet.JobOutcome{Lost: 3}); err != nil || o != want {
		t.Errorf("dropped: %+v, %v", o, err)
	}
	for _, n := range []int{2, 4} {
		if _, err := job.Outcome(make([]fleet.Answer, n)); err == nil {
			t.Errorf("%d of 3 requests make an outcome", n)
		}
	}
	free := fleet.Job{Requests: 1}
	if o, err := free.Outcome([]fleet.Answer{{Finished: time.Hour}}); err != nil || !o.Kept || o.InTime != 1 {
		t.Errorf("without floor and deadline: %+v, %v", o, err)
	}
}

// The order in which requests end does not count.
func TestJobOutcomeInAnyOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		job := fleet.Job{Requests: 1 + rng.IntN(8), Floor: rng.Float64(), Deadline: time.Duration(1 + rng.IntN(100))}
		answers := make([]fleet.Answer, job.Requests)
		for i := range answers {
			answers[i] = fleet.Answer{Quality: float64(rng.IntN(100)) / 64, Finished: time.Duration(rng.IntN(120)), Lost: rng.IntN(9) == 0}
		}
		want, err := job.Outcome(answers)
		if err != nil {
			t.Fatal(err)
		}
		rng.Shuffle(len(answers), func(i, j int) { answers[i], answers[j] = answers[j], answers[i] })
		var p fleet.JobProgress
		for i, a := range answers {
			if p.Ended(&job) {
				t.Fatalf("ended after %d of %d", i, job.Requests)
			}
			p.Add(&job, a)
		}
		if got, err := p.Outcome(&job); err != nil || got != want || !p.Ended(&job) {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
		if want.Answered+want.Lost != job.Requests || want.Kept != (want.InTime == job.Requests && !want.BelowFloor) {
			t.Fatalf("does not add up: %+v of %+v", want, job)
		}
	}
}

func TestJobNamesEveryFault(t *testing.T) {
	err := fleet.Job{Floor: math.NaN(), Deadline: -1}.Validate()
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("got %v", err)
	}
	if err := (fleet.Job{Requests: 1}).Validate(); err != nil {
		t.Error(err)
	}
}
