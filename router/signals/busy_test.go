package signals_test

import (
	"math"
	"testing"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/signals"
)

// busyHosts measures two hosts: the first has two replicas, which work on four requests each at a time.
func busyHosts(t *testing.T) (*signals.Busy, *fleet.Ledger, map[int]float64) {
	t.Helper()
	table, err := fleet.NewTable([]fleet.Task{{Name: "t", Deadline: 1, Quality: []float64{1}}}, []fleet.Variant{{Name: "v"}},
		[]fleet.Host{{Name: "h1"}, {Name: "h2"}}, []fleet.Replica{{Name: "a"}, {Name: "b"}, {Name: "c", Host: 1, Initial: fleet.Cold}})
	if err != nil {
		t.Fatal(err)
	}
	ledger, cpu := fleet.NewLedger(table), map[int]float64{}
	return signals.NewBusy(ledger, signals.BusyOptions{
		Takes:  func(_, tokens int) time.Duration { return time.Duration(tokens) * time.Millisecond },
		AtOnce: []int{4, 4, 4},
		Said: func(r int) (k signals.Known) {
			if u, ok := cpu[r]; ok {
				k.Source, k.Load.CPU = signals.Polled, u
			}
			return k
		},
	}), ledger, cpu
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// TestHostsAreAsBusyAsTheirReplicas: by answers, by requests in flight, and by what engines say, whichever is more.
func TestHostsAreAsBusyAsTheirReplicas(t *testing.T) {
	b, ledger, cpu := busyHosts(t)
	lease, _ := ledger.Begin(1, 0)
	for now := time.Duration(0); now < time.Minute; now += signals.Sampling {
		if b.Sample(now); now == 30*time.Second {
			lease.End()
		}
		b.Answered(0, 150, now)
		b.Answered(1, 50, now)
	}
	const now = time.Minute
	h, r := b.Host(0, time.Minute, now), b.Replica(0, time.Minute, now)
	if !near(h.Answered, .4) || !near(r.Answered, .3) || h.AtOnce != 8 || h.Said != -1 || !near(h.Share(), .4) {
		t.Errorf("host %+v, replica %+v", h, r)
	}
	if got := b.Host(0, time.Minute, now).InFlight; math.Abs(got-.5) > .02 {
		t.Errorf("%v in flight, want half of the time one", got)
	}
	if h := b.Host(1, time.Minute, now); h.Share() != 0 || h.AtOnce != 0 {
		t.Errorf("the idle host has %+v", h)
	}
	cpu[0], cpu[1], cpu[2] = .2, .9, 1
	b.Sample(now)
	if h := b.Host(0, 0, now+time.Second); !near(h.Said, .9) || !near(h.Share(), .9) {
		t.Errorf("engines say .9 of the processors, host %+v", h)
	}
	if h := b.Host(1, 0, now+time.Second); h.Said != -1 {
		t.Errorf("what is not loaded says nothing: %+v", h)
	}
}

// TestBusyIsOfTheTimeAsked: what was answered counts in the time that it is asked for, also when that is over.
func TestBusyIsOfTheTimeAsked(t *testing.T) {
	b, _, _ := busyHosts(t)
	b.Worked(2, 6*time.Second, 19*time.Second)
	for _, x := range []struct {
		over, now time.Duration
		want      float64
	}{
		{10 * time.Second, 20 * time.Second, .6}, {20 * time.Second, 20 * time.Second, .3}, {time.Hour, 20 * time.Second, .3},
		{10 * time.Second, 18 * time.Second, 0}, {10 * time.Second, 40 * time.Second, 0}, {time.Minute, time.Minute, .1},
	} {
		if got := b.Host(1, x.over, x.now).Answered; !near(got, x.want) {
			t.Errorf("over %v until %v: %v, want %v", x.over, x.now, got, x.want)
		}
	}
	b.Worked(2, time.Second, 16*time.Minute+19*time.Second)
	if got := b.Replica(2, time.Minute, 20*time.Second).Answered; got != 0 {
		t.Errorf("%v of what is forgotten", got)
	}
}

func TestMeasuringAllocatesNothing(t *testing.T) {
	b, _, _ := busyHosts(t)
	b.Answered(0, 1, 0)
	if n := testing.AllocsPerRun(100, func() { b.Answered(0, 1, time.Second) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestViewsShowHowBusyHostsAre: as they were lately, looked at twice a second however often it is asked for.
func TestViewsShowHowBusyHostsAre(t *testing.T) {
	b, ledger, cpu := busyHosts(t)
	shown := func() fleet.View {
		var v fleet.View
		ledger.View(0, &v)
		return v
	}
	if v := shown(); len(v.Busy) != 0 {
		t.Errorf("%v before anything is shown", v.Busy)
	}
	for now := time.Duration(0); now < time.Minute; now += signals.Sampling {
		b.Answered(0, 150, now)
		if next := b.Show(now); next != now+signals.Sampling {
			t.Fatalf("next shown at %v, want %v", next, now+signals.Sampling)
		}
	}
	v, want := shown(), float32(b.Host(0, signals.Lately, time.Minute-signals.Sampling).Share())
	if len(v.Busy) != 2 || v.Busy[0] != want || math.Abs(v.BusyShare(0)-.3) > .05 || v.Busy[1] != 0 {
		t.Errorf("%v, want about .3 and 0", v.Busy)
	}
	cpu[0] = .9
	b.Show(time.Minute - 1) // too soon
	if now := shown(); now.Busy[0] != want {
		t.Errorf("%v is shown before its time", now.Busy)
	}
	if b.Show(time.Minute + signals.Lately + 1); shown().Busy[0] < .85 {
		t.Errorf("%v, and the engine says .9", shown().Busy)
	}
	if n := testing.AllocsPerRun(10, func() { b.Show(2 * time.Minute) }); n != 0 {
		t.Errorf("Show allocates %v times", n)
	}
}
