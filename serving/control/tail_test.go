package control

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/signals"
)

// hosts is a fleet of n hosts with one replica each.
func hosts(t *testing.T, n int) *fleet.Table {
	t.Helper()
	var hosts []fleet.Host
	var replicas []fleet.Replica
	for i := range n {
		hosts = append(hosts, fleet.Host{Name: fmt.Sprintf("h%d", i)})
		replicas = append(replicas, fleet.Replica{Name: fmt.Sprintf("m@h%d", i), Host: i})
	}
	table, err := fleet.NewTable([]fleet.Task{{Name: "t", Deadline: 1, Quality: []float64{1}}}, []fleet.Variant{{Name: "m"}}, hosts, replicas)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func newModule(t *testing.T, n int, now *time.Duration) *Tail {
	t.Helper()
	table := hosts(t, n)
	m, err := NewTail(TailOptions{Table: table, Busy: signals.NewBusy(fleet.NewLedger(table), signals.BusyOptions{}), Target: 0.5})
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
			m.options.Busy.Worked(h, took, at)
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
	m.options.Busy.Worked(0, 30*time.Second, now-15*time.Second)
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

// TestAYoungRouter: a utilisation is of the time since the router began, and all is a number.
func TestAYoungRouter(t *testing.T) {
	now := time.Duration(0)
	m := newModule(t, 3, &now)
	if s := m.Situation(); s.Top != 0 || s.Buy != -1 || len(s.History) != 0 {
		t.Errorf("%+v", s)
	}
	now = 3 * time.Second
	m.options.Busy.Worked(1, 1500*time.Millisecond, now)
	if s := m.Situation(); s.Top != 0.5 || len(s.History) != 0 {
		t.Errorf("%v busy in the first three seconds, want .5; a history of %d", s.Top, len(s.History))
	}
	if now = 15 * time.Second; m.Situation().Top != 0.1 || len(m.Situation().History) != 1 {
		t.Errorf("%+v", m.Situation())
	}
}

func TestBadTargets(t *testing.T) {
	for _, target := range []float64{0, -1, 1.5, math.NaN()} {
		if _, err := NewTail(TailOptions{Target: target}); err == nil || !strings.Contains(err.Error(), "a target of") {
			t.Errorf("a target of %v: the error is %v", target, err)
		}
	}
}
