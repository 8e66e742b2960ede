package replicas_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/placement/replicas"
)

// site is a fleet of one model whose loads end when the test says so. It implements [replicas.Fleet].
type site struct {
	states []fleet.State
	taken  map[int]bool
	broken map[int]bool // whose actions are refused
	rate   float64
	acts   []control.Action
}

func (s *site) Rate(int, time.Duration) float64 { return s.rate }

func (s *site) Count(int) (up, loading int) {
	for _, is := range s.states {
		switch is {
		case fleet.Up:
			up++
		case fleet.Loading:
			loading++
		}
	}
	return up, loading
}

func (s *site) Startable(r int) bool { return s.states[r] == fleet.Cold && !s.taken[r] }

func (s *site) Stoppable(r int) bool { return s.states[r] == fleet.Up && !s.taken[r] }

func (s *site) Act(a control.Action) error {
	if s.broken[a.Replica] {
		return errors.New("no memory")
	}
	s.acts = append(s.acts, a)
	s.states[a.Replica] = fleet.Cold
	if a.Verb == control.Load {
		s.states[a.Replica] = fleet.Loading
	}
	return nil
}

// loaded ends all loads, and has the controller follow them.
func (s *site) loaded(c *replicas.Controller, now time.Duration) {
	for i, is := range s.states {
		if is == fleet.Loading {
			s.states[i] = fleet.Up
			c.Observe(control.Event{At: now, Kind: control.Loaded, Replica: i})
		}
	}
	c.Wake(now)
}

// byRate wants a replica for each ten of the rate.
type byRate struct{}

func (byRate) Desired(_ time.Duration, rate float64, _ int) int { return int(rate / 10) }

func counts(s *site, least, most int) *replicas.Controller {
	m := replicas.Scaled{Scaler: byRate{}, Least: least, Most: most}
	for i := range s.states {
		m.Replicas = append(m.Replicas, i)
	}
	c := replicas.New([]replicas.Scaled{m}, time.Minute, s)
	c.Wake(0)
	return c
}

func TestReplicasAreStartedAndStopped(t *testing.T) {
	s := &site{states: []fleet.State{fleet.Up, fleet.Cold, fleet.Cold, fleet.Cold, fleet.Cold}, taken: map[int]bool{2: true}, broken: map[int]bool{1: true}, rate: 90}
	c := counts(s, 1, 3)
	if next := c.Wake(30 * time.Second); next != time.Minute || len(s.acts) > 0 {
		t.Errorf("before the first period %v, next at %v", s.acts, next)
	}
	c.Wake(time.Minute)
	want := []control.Action{{Verb: control.Load, Replica: 3}, {Verb: control.Load, Replica: 4}}
	if !slices.Equal(s.acts, want) || c.Wanted(0) != 3 {
		t.Errorf("%v, want %v: at most three, and neither what is another's nor what has no memory", s.acts, want)
	}
	s.rate = 0
	if c.Wake(2 * time.Minute); len(s.acts) != 2 {
		t.Errorf("%v: loads are not stopped, and one replica stays", s.acts[2:])
	}
	s.loaded(c, 3*time.Minute-1)
	if want := []fleet.State{fleet.Up, fleet.Cold, fleet.Cold, fleet.Cold, fleet.Cold}; !slices.Equal(s.states, want) {
		t.Errorf("%v once they have ended, want the first alone up", s.states)
	}
}

func TestWhatIsAnothersStaysUp(t *testing.T) {
	s := &site{states: []fleet.State{fleet.Up, fleet.Up, fleet.Up}, taken: map[int]bool{1: true, 2: true}}
	c := counts(s, 0, 3)
	c.Wake(time.Minute)
	if want := []fleet.State{fleet.Cold, fleet.Up, fleet.Up}; !slices.Equal(s.states, want) {
		t.Errorf("%v, want %v", s.states, want)
	}
}

// TestReplicasComeBeforeThePeak: with a day behind it, replicas are up before the load that needs them, and go after
// it.
func TestReplicasComeBeforeThePeak(t *testing.T) {
	const day, warmUp = 96, 30 * time.Minute
	load := func(i int) float64 { // a peak of three hours at noon
		if i = i % day; i >= 48 && i < 60 {
			return 80
		}
		return 10
	}
	p, err := replicas.NewPlanner(replicas.Plan{
		Forecast: replicas.Forecast{Season: day, Seasons: 3, Level: 12, Recent: 3, Trend: 3}, Interval: 15 * time.Minute,
		Capacity: 10, WarmUp: warmUp, Target: 0.8, Quantile: 0.5, Guard: 1, Stabilisation: time.Minute, Least: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{states: make([]fleet.State, 12)}
	m := replicas.Scaled{Scaler: p, Least: 1, Most: 12}
	for i := range s.states {
		if m.Replicas = append(m.Replicas, i); i > 1 {
			s.states[i] = fleet.Cold
		}
	}
	c := replicas.New([]replicas.Scaled{m}, 15*time.Minute, s)
	c.Wake(0)
	var started []int // intervals, of the second day
	for i := range 2 * day {
		now := time.Duration(i+1) * 15 * time.Minute
		s.rate = load(i)
		before := len(s.acts)
		if c.Wake(now); len(s.acts) > before && s.acts[before].Verb == control.Load && i >= day {
			started = append(started, i+1-day)
		}
		s.loaded(c, now+14*time.Minute)
		if up, _ := s.Count(0); i >= day && load(i+1) == 80 && up < 10 {
			t.Errorf("interval %d: %d are up at a load that needs 10", i+1-day, up)
		}
	}
	if len(started) != 1 || started[0] < 44 || started[0] >= 48 {
		t.Errorf("started in the intervals %v, want once, within an hour before the peak at 48", started)
	}
	if up, _ := s.Count(0); up != 2 {
		t.Errorf("%d are up in the night, want 2", up)
	}
}
