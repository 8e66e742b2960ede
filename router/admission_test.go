package router_test

import (
	"testing"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/profile"
)

var rule = router.AdmissionRule{DeadlineShare: 0.9, KV: 0.9, Output: 250}

// view is of two hosts with a replica each, of a task with a hard deadline of 40 ms
// per token, and one with a soft deadline.
func view(t *testing.T) *fleet.View {
	t.Helper()
	table, err := fleet.NewTable(
		[]fleet.Task{
			{Name: "hard", Deadline: 40 * time.Millisecond, Quality: []float64{1}},
			{Name: "soft", Deadline: 40 * time.Millisecond, Decay: fleet.PaperSoft(), Quality: []float64{1}},
		},
		[]fleet.Variant{{Name: "only"}},
		[]fleet.Host{{Name: "a"}, {Name: "b"}},
		[]fleet.Replica{{Name: "only@a", KVTokens: 1000}, {Name: "only@b", Host: 1}},
	)
	if err != nil {
		t.Fatal(err)
	}
	v := &fleet.View{}
	fleet.NewLedger(table).View(0, v)
	v.Forecasts = []fleet.Forecast{{Pace: 0.5}, {Pace: 0.5}}
	v.InFlight, v.Held, v.Down = []int32{1, 1}, []int32{100, 100}, []bool{false, false}
	return v
}

// bounded is how tight the deadlines are on every replica.
type bounded time.Duration

func (bounded) Held(int) int                 { return 0 }
func (b bounded) Tightest(int) time.Duration { return time.Duration(b) }

func TestRoomIsAMatterOfTime(t *testing.T) {
	const hard, soft = 0, 1
	const ms = time.Millisecond
	for _, c := range []struct {
		name     string
		pace     float64
		task     int
		deadline time.Duration // of the request
		tightest time.Duration // of those there
		inFlight int32
		want     bool
	}{
		{name: "within the pace", pace: 0.89, inFlight: 1, want: true},
		{name: "beyond it", pace: 0.91, inFlight: 1},
		{name: "beyond it, on an idle host", pace: 3, want: true},
		{name: "a soft deadline gives beyond", pace: 0.95, task: soft, inFlight: 1, want: true},
		{name: "until nothing is left", pace: 1, task: soft, inFlight: 1},
		{name: "as long as it has the batch for itself", pace: 0.95, task: soft, tightest: 40 * ms, inFlight: 1},
		{name: "one with time takes none of that of others", pace: 0.5, deadline: 80 * ms, tightest: 40 * ms, inFlight: 1},
		{name: "one with time joins a batch with time", pace: 0.5, deadline: 80 * ms, tightest: 80 * ms, inFlight: 1, want: true},
		{name: "one without joins a quick batch of those with time", pace: 0.85, deadline: 20 * ms, tightest: 80 * ms, inFlight: 1, want: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := view(t)
			l := fleet.NewLedger(v.Table)
			l.HoldEach([]int{1}, bounded(c.tightest))
			l.View(0, v)
			v.Forecasts[1].Pace, v.InFlight[1] = c.pace, c.inFlight
			if got := rule.Room(v, &fleet.Request{Task: c.task, Deadline: c.deadline}, 1); got != c.want {
				t.Errorf("room %v, want %v", got, c.want)
			}
		})
	}
}

// A batch that renews itself has a prefill for each of its requests in the time of one.
func TestPrefillsTakeTime(t *testing.T) {
	x := rule
	x.Profiles = []*profile.Profile{nil, {Token: 1}} // 1 ms a token
	v := view(t)
	v.InFlight[1], v.Forecasts[1].Pace = 4, 0.8 // 36 ms − 32 ms leave 4 ms for 5 prefills in 250 steps
	for prompt, want := range map[int]bool{190: true, 210: false} {
		if got := x.Room(v, &fleet.Request{PromptTokens: prompt}, 1); got != want {
			t.Errorf("prompt of %d: room %v, want %v", prompt, got, want)
		}
	}
}

// The first token comes after the step under way and the prefill of the prompt.
func TestRoomIsAMatterOfTheFirstToken(t *testing.T) {
	const ms = time.Millisecond
	x := rule
	x.Output, x.Profiles = 1e6, []*profile.Profile{nil, {Token: 1}} // 1 ms a token
	for _, c := range []struct {
		name     string
		deadline time.Duration
		prompt   int
		waited   time.Duration
		inFlight int32
		want     bool
	}{
		{name: "none is no bound", prompt: 10_000, inFlight: 1, want: true},
		{name: "within it", deadline: 100 * ms, prompt: 69, inFlight: 1, want: true}, // 20 + 69 ≤ 0.9 · 100
		{name: "a prompt that takes too long", deadline: 100 * ms, prompt: 71, inFlight: 1},
		{name: "on an idle host", deadline: 100 * ms, prompt: 71, want: true},
		{name: "after a wait that leaves enough", deadline: 150 * ms, prompt: 69, waited: 50 * ms, inFlight: 1, want: true},
		{name: "after one that does not", deadline: 150 * ms, prompt: 69, waited: 55 * ms, inFlight: 1},
		{name: "after its time", deadline: 150 * ms, waited: 160 * ms, inFlight: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := view(t)
			v.Now, v.InFlight[1] = time.Hour, c.inFlight // a step of 0.5 · 40 ms
			r := &fleet.Request{PromptTokens: c.prompt, FirstToken: c.deadline, Arrival: v.Now - c.waited}
			if got := x.Room(v, r, 1); got != c.want {
				t.Errorf("room %v, want %v", got, c.want)
			}
		})
	}
}

func TestAnEngineRunsSoManyAtOnce(t *testing.T) {
	x := rule
	x.Sequences = 8
	v := view(t)
	for n, want := range map[int32]bool{7: true, 8: false} {
		v.InFlight[1] = n
		if got := x.Room(v, &fleet.Request{}, 1); got != want {
			t.Errorf("%d in flight: room %v, want %v", n, got, want)
		}
	}
}

func TestRoomIsAMatterOfMemory(t *testing.T) {
	for _, c := range []struct {
		name           string
		inFlight, held int32
		prompt         int
		want           bool
	}{
		{"little is held", 1, 100, 50, true},
		{"a batch that has grown", 3, 800, 50, true},
		{"no place for the prompt", 3, 860, 50, false},
		{"a young batch will grow", 9, 400, 50, false}, // 10 × 250 × exp(450/2500 − 1) = 1101
		{"a smaller one too, but less", 7, 300, 50, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := view(t)
			v.InFlight[0], v.Held[0] = c.inFlight, c.held
			if got := rule.Room(v, &fleet.Request{PromptTokens: c.prompt}, 0); got != c.want {
				t.Errorf("room %v, want %v", got, c.want)
			}
			if !rule.Room(v, &fleet.Request{PromptTokens: c.prompt}, 1) {
				t.Error("a cache of unknown size is full")
			}
		})
	}
}

func TestNoForecastsAreNoReasonToRefuse(t *testing.T) {
	v := view(t)
	v.Forecasts = nil
	if !(router.AdmissionRule{}).Room(v, &fleet.Request{}, 0) {
		t.Error("no room where nothing is known")
	}
}
