package tail

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/jobs"
)

// hosts is a fleet of n hosts with one replica each.
func hosts(n int) *fleet.Table {
	t := &fleet.Table{}
	for i := range n {
		t.Hosts = append(t.Hosts, fleet.Host{Name: fmt.Sprintf("h%d", i)})
		t.Replicas = append(t.Replicas, fleet.Replica{Name: fmt.Sprintf("m@h%d", i), Host: i})
	}
	return t
}

func newModule(t *testing.T, n int, now *time.Duration) *Module {
	t.Helper()
	m, err := New(Options{Table: hosts(n), Target: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	m.clock = func() time.Duration { return *now }
	m.placed = func(replica int) fleet.State {
		if replica == 0 {
			return fleet.Cold
		}
		return fleet.Up
	}
	return m
}

// TestTheBusiestSayWhatToBuy: of forty hosts of which two are busy all the time and the others a
// quarter of it, the busiest twentieth is used fully, and asks for as much capacity again; were all
// as busy as the mean, a good half could go.
func TestTheBusiestSayWhatToBuy(t *testing.T) {
	now := 10 * time.Minute
	m := newModule(t, 40, &now)
	for second := range 60 {
		at := now - time.Minute + time.Duration(second)*time.Second
		for h := range 40 {
			took := time.Second / 4
			if h < 2 {
				took = time.Second
			}
			m.count(h, took, at)
		}
	}
	s := m.Situation()
	mean := (2 + 38*0.25) / 40
	for name, x := range map[string][2]float64{
		"the middle": {s.P50, 0.25}, "the 95th percentile": {s.P95, 0.25}, "the busiest": {s.Top, 1}, "the mean": {s.Mean, mean},
		"what to buy": {s.Buy, 1}, "what to buy if even": {s.Even, mean/0.5 - 1},
	} {
		if math.Abs(x[0]-x[1]) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, x[0], x[1])
		}
	}
	if s.Hosts[0].Name != "h0" || len(s.Hosts[0].Replicas) != 0 || s.Hosts[1].Replicas[0] != "m@h1" {
		t.Errorf("the first hosts are %+v", s.Hosts[:2])
	}
}

// TestUtilisationIsOfTheLastMinute: what was answered fades from the figures after a minute, and
// stays in the history for a quarter of an hour.
func TestUtilisationIsOfTheLastMinute(t *testing.T) {
	now := 5 * time.Minute
	m := newModule(t, 1, &now)
	m.count(0, 30*time.Second, now-15*time.Second)
	if s := m.Situation(); s.Top != 0.5 {
		t.Errorf("%v busy after half a minute of work, want .5", s.Top)
	}
	now += 2 * time.Minute
	s := m.Situation()
	highest := 0.0
	for _, p := range s.History {
		highest = max(highest, p.Top)
	}
	if s.Top != 0 || highest != 0.5 || len(s.History) != 42 {
		t.Errorf("two minutes later %v, and %v in a history of %d; want 0, and .5 in one of 42", s.Top, highest, len(s.History))
	}
	now += time.Hour
	if s = m.Situation(); len(s.History) != kept || s.History[0].Top != 0 {
		t.Errorf("an hour later a history of %d that begins with %v", len(s.History), s.History[0].Top)
	}
}

// TestBatchesOfJobsCount: for as long as they kept an engine at work.
func TestBatchesOfJobsCount(t *testing.T) {
	now := 5 * time.Minute
	m := newModule(t, 2, &now)
	m.Over(&serving.Account{Job: &jobs.Result{Busy: []jobs.Busy{{Replica: 1, Took: 20 * time.Second}, {Replica: 1, Took: 10 * time.Second}}}})
	now += 15 * time.Second
	if s := m.Situation(); s.Top != 0.5 {
		t.Errorf("%v busy after half a minute of batches, want .5", s.Top)
	}
}

// TestAYoungRouter: before the first ten seconds are over nothing is known, and all is a number.
func TestAYoungRouter(t *testing.T) {
	now := 3 * time.Second
	m := newModule(t, 3, &now)
	m.count(1, time.Second, now)
	if s := m.Situation(); s.Top != 0 || s.Buy != -1 || len(s.History) != 0 {
		t.Errorf("%+v", s)
	}
	now = 12 * time.Second
	if s := m.Situation(); math.Abs(s.Top-0.1) > 1e-9 || len(s.History) != 1 {
		t.Errorf("%v busy in the first ten seconds, want .1; a history of %d", s.Top, len(s.History))
	}
}

func TestBadTargets(t *testing.T) {
	for _, target := range []float64{0, -1, 1.5, math.NaN()} {
		if _, err := New(Options{Table: hosts(1), Target: target}); err == nil || !strings.Contains(err.Error(), "a target of") {
			t.Errorf("a target of %v: the error is %v", target, err)
		}
	}
}
