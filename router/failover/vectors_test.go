package failover_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/failover"
)

// lostAll has applications run on hosts that are lost at once, when others have so much free.
func lostAll(t *testing.T, policy failover.Policy, applications int, free ...float64) *fake {
	t.Helper()
	s := problem(make([]int, applications), append([]float64{806 * float64(applications)}, free...)...)
	for i := range s.Applications {
		s.Applications[i].Critical = false
	}
	f := newFake(t, s, failover.Options{Term: 1, Policy: policy, Headroom: 1})
	f.advance(10 * time.Second)
	f.kill(0)
	f.observe(control.Event{At: f.now, Kind: control.Refused, Host: 0, Replica: -1, Began: f.now})
	f.advance(f.now + 30*time.Second)
	return f
}

// answering is where the applications are answered, as in "S@S2 T@S3 -".
func answering(f *fake) string {
	var list []string
	for _, a := range f.c.Status().Applications {
		if a.Active == failover.Nowhere {
			list = append(list, "-")
			continue
		}
		list = append(list, f.problem.Name(a.Active))
	}
	return strings.Join(list, " ")
}

// TestFailLiteAfterALoss holds what runs in the end against the worked examples of Algorithm 1
// (FL-7). Here the free hosts are the second and the following ones.
func TestFailLiteAfterALoss(t *testing.T) {
	for _, c := range []struct {
		free []float64
		want string
	}{
		{[]float64{400, 300}, "S@S2 S@S3 T@S2"},
		{[]float64{2000, 1000}, "L@S2 L@S2 L@S3"},
		{[]float64{200, 150, 100}, "T@S2 - -"},
	} {
		f := lostAll(t, failover.FailLite, 3, c.free...)
		if got := answering(f); got != c.want {
			t.Errorf("free %v: %s, want %s", c.free, got, c.want)
		}
		recovered := len(f.of(failover.StepNotified))
		if want := 3 - strings.Count(c.want, "-"); recovered != want || f.c.Status().Unrecovered != 3-want {
			t.Errorf("free %v: %d recovered, want %d", c.free, recovered, want)
		}
	}
}

// TestProgressiveLoading: the smallest variant answers first, then the chosen one (FL-8), which
// is 73.8 % sooner than the full one alone, 10 ms of notice included (FL-21c).
func TestProgressiveLoading(t *testing.T) {
	small, full := lostAll(t, failover.FailLite, 1, 2000), lostAll(t, failover.FullCold, 1, 2000)
	notified, swapped := small.of(failover.StepNotified), small.of(failover.StepSwapped)
	if len(notified) != 1 || notified[0].Took != loadTime(158) || len(swapped) != 1 || swapped[0].Took != loadTime(158)+loadTime(806) || swapped[0].Quality != 1 {
		t.Fatalf("notified %+v, swapped %+v", notified, swapped)
	}
	alone := full.of(failover.StepNotified)
	if len(alone) != 1 || alone[0].Took != loadTime(806) {
		t.Fatalf("full: %+v", alone)
	}
	const notice = 10 * time.Millisecond
	if share := float64(notified[0].Took+notice)/float64(alone[0].Took+notice) - 1; math.Abs(share+0.738) > 0.001 {
		t.Errorf("%.4f, want -0.738", share)
	}
	if c := small.c.Status().Counts; c.Gaps != 0 || c.Loads != 2 {
		t.Errorf("%+v", c)
	}
}

// TestUnloadFirst: where the chosen variant does not fit in addition to the smallest, that makes
// room for it, and the gap is counted (FL-8). Our policy does without gaps.
func TestUnloadFirst(t *testing.T) {
	f := lostAll(t, failover.FailLite, 1, 850)
	gap := loadTime(806) + 5*time.Millisecond // and the unload
	if c := f.c.Status().Counts; answering(f) != "L@S2" || c.Gaps != 1 || c.Gap != gap || c.Recovered != 1 || c.Outage != loadTime(158) {
		t.Errorf("%s: %+v, want a gap of %v", answering(f), c, gap)
	}
	f = lostAll(t, failover.Gearshift, 1, 850)
	if c := f.c.Status().Counts; c.Gaps != 0 || c.Recovered != 1 || c.Outage != 0 {
		t.Errorf("gearshift: %s: %+v", answering(f), c)
	}
	f = lostAll(t, failover.FailLite, 1, 160) // the smallest is all that fits
	if c := f.c.Status().Counts; answering(f) != "T@S2" || c.Loads != 1 || c.Gaps != 0 {
		t.Errorf("%s: %+v", answering(f), c)
	}
}

// TestCounts: applications that do not recover are counted, and left out of the mean time
// (FL-14).
func TestCounts(t *testing.T) {
	f := lostAll(t, failover.FailLite, 3, 200, 150, 100)
	c := f.c.Status().Counts
	if c.Affected != 3 || c.Recovered != 1 || c.Outage != loadTime(158) || c.Failovers != 1 {
		t.Errorf("%+v", c)
	}
	unrecovered := f.of(failover.StepUnrecovered)
	if len(unrecovered) != 2 || unrecovered[0].Reason == "" {
		t.Errorf("unrecovered: %+v", unrecovered)
	}
}

// TestBackupThatDiesToo: a critical application whose warm backup is lost with its primary is
// loaded like the others (FL-31).
func TestBackupThatDiesToo(t *testing.T) {
	f := newFake(t, problem([]int{0}, 4000, 4000, 3900), failover.Options{Term: 1, Policy: failover.FailLite})
	f.advance(10 * time.Second)
	a := f.c.Status().Applications[0]
	if len(a.Backups) != 1 {
		t.Fatalf("%+v", a)
	}
	host := a.Backups[0].Host
	for _, s := range []int{host, 0} {
		f.kill(s)
		f.observe(control.Event{At: f.now, Kind: control.Refused, Host: s, Replica: -1, Began: f.now})
	}
	f.advance(f.now + 10*time.Second)
	n := f.of(failover.StepNotified)
	if len(n) != 1 || n[0].Took != loadTime(158) || n[0].Host != 3-host {
		t.Errorf("%+v", n)
	}
}

// TestWorstFit: primaries that are not given go where most room is (FL-16).
func TestWorstFit(t *testing.T) {
	s := problem([]int{-1, -1, -1, -1, -1}, 2000, 3000, 1500)
	f := newFake(t, s, failover.Options{Term: 1})
	// Left without a headroom of a fifth: 1600 2400 1200, then 1600 1594 1200, and so on. The
	// last one finds no room, and takes of the headroom.
	if got := answering(f); got != "L@S2 L@S1 L@S2 L@S3 L@S2" {
		t.Error(got)
	}
}

// TestOneByOne: applications that arrive are loaded on their primary and then protected (FL-3).
func TestOneByOne(t *testing.T) {
	f := newFake(t, problem(nil, 4000, 4000, 4000), failover.Options{Term: 1})
	for i := range 4 {
		f.advance(f.now + 5*time.Second)
		a := failover.Application{Name: string(rune('A' + i)), Primary: -1, Full: -1, Rate: 1, Variants: convnext()}
		if i == 1 {
			a.Primary = 2
		}
		k, err := f.c.Place(a)
		if err != nil || k != i {
			t.Fatal(k, err)
		}
		f.active = append(f.active, failover.Nowhere)
		f.wake()
	}
	f.advance(f.now + 10*time.Second)
	s := f.c.Status()
	if got := answering(f); got != "L@S1 L@S3 L@S2 L@S1" || s.Unprotected != 0 || s.Unrecovered != 0 {
		t.Errorf("%s: %+v", got, s.Applications)
	}
	if _, err := f.c.Place(failover.Application{Name: "E", Rate: 1}); err == nil {
		t.Error("an application without variants was placed")
	}
}
