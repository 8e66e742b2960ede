package router_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"gearshift/internal/race"
	"gearshift/router"
	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/queue"
)

// predicted is a request with these qualities predicted by variant, of whose lower bounds
// each is 0.2 less.
func predicted(qualities ...float32) *fleet.Request {
	r := &fleet.Request{}
	r.Predicted.Known, r.Predicted.Sure = true, 1
	for v, q := range qualities {
		r.Predicted.Quality[v], r.Predicted.Low[v] = q, q-0.2
	}
	return r
}

// An explicit floor is compared with the lower bound of what is predicted.
func TestTheFloorIsComparedWithWhatIsAssured(t *testing.T) {
	for _, c := range []struct {
		name    string
		r       *fleet.Request
		floor   float64
		variant int
		err     error
	}{
		{name: "no prediction: the task's row", r: &fleet.Request{}, floor: 0.7, variant: 1},
		{name: "the small one is assured", r: predicted(0.95, 0.5, 0.6), floor: 0.7, variant: 0},
		{name: "predicted above the floor, not assured", r: predicted(0.85, 0.85, 0.95), floor: 0.7, variant: 2},
		{name: "none is assured", r: predicted(0.8, 0.8, 0.8), floor: 0.7, err: router.ErrNoReplica},
		{name: "no floor", r: predicted(0.1, 0.1, 0.1), variant: 0},
	} {
		core := newCore(t, 0, nil)
		setPolicy(t, core, always(0))
		c.r.MinQuality = c.floor
		choice, err := route(core, c.r, 0)
		if !errors.Is(err, c.err) || err == nil && choice.Variant != c.variant {
			t.Errorf("%s: %+v, %v; want variant %d, error %v", c.name, choice, err, c.variant, c.err)
		}
	}
}

// Where the gate sees no room for the variant chosen, what is best for the prompt of the
// smaller ones replaces it, else what is best of the larger ones.
func TestTheGateFindsWhatIsBestForThePrompt(t *testing.T) {
	for _, c := range []struct {
		name   string
		r      *fleet.Request
		chosen int
		room   []int // variants
		want   int
	}{
		{"no prediction: the nearest smaller one", &fleet.Request{}, 2, []int{0, 1}, 1},
		{"the best of the smaller ones", predicted(0.9, 0.5, 1), 2, []int{0, 1}, 0},
		{"the one of them that has room", predicted(0.9, 0.5, 1), 2, []int{1}, 1},
		{"of equals the smaller", predicted(0.5, 0.5, 1), 2, []int{0, 1}, 0},
		{"a smaller one before a better larger one", predicted(0.1, 0.5, 1), 1, []int{0, 2}, 0},
		{"the best of the larger ones", predicted(0.9, 0.8, 0.5), 0, []int{1, 2}, 1},
		{"no prediction: the nearest larger one", &fleet.Request{}, 0, []int{1, 2}, 1},
		{"the largest where it is best", predicted(0.9, 0.5, 0.8), 0, []int{1, 2}, 2},
	} {
		core := newCore(t, 0, roomOn(c.room...))
		setPolicy(t, core, always(c.chosen))
		choice, err := route(core, c.r, 0)
		if err != nil || choice.Variant != c.want || choice.Policy != router.Degraded {
			t.Errorf("%s: %+v, %v; want variant %d", c.name, choice, err, c.want)
		}
	}
}

// So does what is best of those that may answer at all.
func TestALimitedChoiceIsBestForThePrompt(t *testing.T) {
	for _, c := range []struct {
		r    *fleet.Request
		want int
	}{{&fleet.Request{}, 1}, {predicted(0.9, 0.5, 1), 0}, {predicted(0.4, 0.5, 1), 1}} {
		core := newCore(t, 0, nil)
		setPolicy(t, core, always(2))
		c.r.Variants = 0b011
		choice, err := route(core, c.r, 0)
		if err != nil || choice.Variant != c.want || choice.Reason != router.ReasonLimited {
			t.Errorf("%v: %+v, %v; want variant %d", c.r.Predicted.Quality[:3], choice, err, c.want)
		}
	}
}

// A shadow's choices are compared by the requests' own rows.
func TestTrialsAreComparedByWhatIsPredicted(t *testing.T) {
	core := newCore(t, 0, whole)
	setPolicy(t, core, always(2))
	if err := core.Try(named{always(0), "next@2"}, 0); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*fleet.Request{predicted(0.75, 0.5, 0.5), predicted(1, 0.5, 0.25)} {
		choice, err := route(core, r, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		choice.Lease.End()
	}
	trial, _ := core.Trial()
	if x := trial.Expected; x.Requests != 2 || x.Charge != 0.375 || x.Trial != 0.875 {
		t.Errorf("%+v; want a mean of 0.375 in charge, of 0.875 on trial", x)
	}
}

// A request that waits is tried unless one that failed in the same pass had every variant
// that its floor leaves it.
func TestWhatWaitsIsTriedByItsOwnPrediction(t *testing.T) {
	with := func(floor float64, qualities ...float32) *fleet.Request {
		r := predicted(qualities...)
		r.MinQuality = floor
		return r
	}
	for _, c := range []struct {
		name          string
		first, second *fleet.Request
		tried         bool
	}{
		{"the same floor without predictions", &fleet.Request{MinQuality: 0.9}, &fleet.Request{MinQuality: 0.9}, false},
		{"the same floor, another prompt", with(0.6, 0, 0, 1), with(0.6, 1, 0, 1), true},
		{"a higher floor, another prompt", with(0.6, 0, 0, 1), with(0.7, 0, 1, 1), true},
		{"a lower floor that leaves no more", with(0.6, 0, 0, 1), with(0.5, 0.1, 0.1, 1), false},
		{"no floor", with(0.6, 0, 0, 1), with(0, 0, 0, 1), true},
		{"no floor before", with(0, 0, 0, 1), with(0.6, 1, 1, 1), false},
		{"the first by the task's row", &fleet.Request{MinQuality: 0.9}, with(0.7, 1, 0, 0), true},
		{"the second by the task's row", with(0.6, 0, 0, 1), &fleet.Request{MinQuality: 0.9}, false},
	} {
		var tried []*fleet.Request
		backlog := router.NewBacklog(conformance.Fleet(0), []queue.Class{{Name: "all"}}, router.Limits{MaxQueue: 10, MaxWait: time.Second}, func(w *router.Waiter[int]) error {
			tried = append(tried, w.Request)
			return router.ErrSaturated
		})
		for i, r := range []*fleet.Request{c.first, c.second} {
			backlog.Join(&router.Waiter[int]{Value: i, Variant: -1, Request: r})
		}
		backlog.Pass()
		backlog.Next(0)
		if got := slices.Contains(tried, c.second); got != c.tried || !slices.Contains(tried, c.first) {
			t.Errorf("%s: the second was tried: %v, want %v", c.name, got, c.tried)
		}
	}
}

func TestDecisionsByPredictionAllocateNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the pool of decisions forgets at random under the race detector")
	}
	core := newCore(t, 512, func(c *router.Config) {
		whole(c)
		roomOn(0, 1)(c)
	})
	setPolicy(t, core, always(2))
	r := predicted(0.8, 0.4, 1)
	r.MinQuality, r.PromptTokens = 0.5, 90
	var now time.Duration
	if n := testing.AllocsPerRun(500, func() {
		now += time.Millisecond
		choice, err := route(core, r, now)
		if err != nil || choice.Variant != 0 || choice.Policy != router.Degraded {
			t.Fatal(choice, err)
		}
		choice.Lease.End()
	}); n != 0 {
		t.Errorf("a decision allocates %v times", n)
	}
}
