package failover_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"gearshift/router/failover"
	"gearshift/router/fleet"
	"gearshift/router/placement"
)

// convnext is the family of the paper's examples, with its load times (FL-18).
func convnext() []failover.Variant {
	var list []failover.Variant
	for _, x := range []struct {
		name    string
		quality float64
		memory  float64
	}{{"T", 0.97756, 158}, {"S", 0.99055, 241}, {"B", 0.99583, 388}, {"L", 1, 806}} {
		list = append(list, failover.Variant{Alternative: placement.Alternative{Name: x.name, Quality: x.quality, Demand: []float64{x.memory}}, Load: loadTime(x.memory)})
	}
	return list
}

// loadTime is the paper's line through its two measured loads.
func loadTime(mb float64) time.Duration {
	return time.Duration((179.5 + 2.6235*mb) * float64(time.Millisecond))
}

// problem has applications on hosts with so much memory.
func problem(primaries []int, capacity ...float64) *failover.Problem {
	s := &failover.Problem{Resources: []string{"memory"}}
	for i, x := range capacity {
		s.Hosts = append(s.Hosts, fleet.Host{Name: fmt.Sprintf("S%d", i+1), Site: fmt.Sprintf("site%d", i/2)})
		s.Capacity = append(s.Capacity, []float64{x})
	}
	for i, p := range primaries {
		s.Applications = append(s.Applications, failover.Application{Name: string(rune('A' + i)), Primary: p, Full: -1, Rate: 1, Critical: i%2 == 0, Variants: convnext()})
	}
	return s
}

// TestLoadTimes holds the line through the paper's loads (FL-18).
func TestLoadTimes(t *testing.T) {
	for mb, want := range map[float64]float64{158: 594, 241: 811.8, 388: 1197.4, 806: 2294} {
		if got := loadTime(mb).Seconds() * 1e3; math.Abs(got-want) > 0.5 {
			t.Errorf("%v MB: %v ms, want %v", mb, got, want)
		}
	}
}

// TestWarmFloor: with our policy an application is answered the moment that the loss of its
// host is detected, then better, and again by its primary once that has returned.
func TestWarmFloor(t *testing.T) {
	f := newFake(t, problem([]int{0, 1}, 4000, 4000, 4000), failover.Options{Term: 1})
	f.advance(5 * time.Second)
	if n := len(f.of(failover.StepProtected)); n != 2 {
		t.Fatalf("%d are protected, want 2: %v", n, f.c.Status().Applications)
	}
	f.kill(0)
	f.advance(5*time.Second + 40*time.Millisecond)
	if n := f.of(failover.StepNotified); len(n) != 1 || n[0].Took != 0 {
		t.Fatalf("recovered: %+v", n)
	}
	f.advance(20 * time.Second)
	s := f.c.Status()
	if s.Unrecovered != 0 || s.Unprotected != 0 || s.Open {
		t.Errorf("%+v", s)
	}
	f.revive(0)
	f.advance(30 * time.Second)
	if n := len(f.of(failover.StepFailedBack)); n != 1 || f.c.Status().Applications[0].Active != (failover.Assignment{App: 0, Variant: 3, Host: 0}) {
		t.Errorf("%d failed back: %+v", n, f.c.Status().Applications[0])
	}
}

// TestFullCold: full variants are loaded after the loss.
func TestFullCold(t *testing.T) {
	f := newFake(t, problem([]int{0, 1}, 4000, 4000, 5000), failover.Options{Term: 1, Policy: failover.FullCold})
	f.advance(5 * time.Second)
	f.kill(0)
	f.advance(20 * time.Second)
	if n := f.of(failover.StepNotified); len(n) != 1 || n[0].Took != loadTime(806) || n[0].Quality != 1 {
		t.Fatalf("recovered: %+v", n)
	}
}

var _ failover.Actuator = (*fake)(nil)
