package signals_test

import (
	"math"
	"testing"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/signals"
)

// replicas makes a store of n replicas of one variant, each with a limit of 100 requests.
func replicas(t *testing.T, n int) *signals.Store {
	t.Helper()
	var hosts []fleet.Host
	var list []fleet.Replica
	var models []string
	for i := range n {
		name := string(rune('a' + i))
		hosts = append(hosts, fleet.Host{Name: name})
		list = append(list, fleet.Replica{Name: name, Host: i, Limit: 100})
		models = append(models, "model")
	}
	table, err := fleet.NewTable([]fleet.Task{{Name: "task", Deadline: 1, Weight: 1, Quality: []float64{1}}},
		[]fleet.Variant{{Name: "model"}}, hosts, list)
	if err != nil {
		t.Fatal(err)
	}
	return signals.NewStore(table, models, 5*time.Second)
}

// load says requests of the model and of its host.
func load(requests, host float64) signals.Load {
	l := signals.NewLoad()
	l.Requests, l.Host = requests, host
	return l
}

func own(n int) signals.Count { return signals.Count{InFlight: n} }

func TestWhatIsHeardIsKnown(t *testing.T) {
	s := replicas(t, 2)
	l := load(3, 7)
	l.Work, l.Cores = 0.25, 4
	if f := s.Hear(0, l, signals.Piggybacked, own(2), time.Second); f != signals.Fine {
		t.Errorf("fault %v", f)
	}
	k := s.Known(0, 2*time.Second)
	want := signals.Counters{Model: 3, Host: 7, Own: 2, Work: 250 * time.Millisecond, Cores: 4}
	if k.Counters != want || k.Source != signals.Piggybacked || k.At != time.Second {
		t.Errorf("%+v, want %+v piggybacked at 1 s", k, want)
	}
}

func TestCountersThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		value float64
		fault signals.Fault
		known int
	}{
		"not a number": {math.NaN(), signals.Impossible, 0},
		"infinite":     {math.Inf(1), signals.Impossible, 0},
		"below zero":   {-7, signals.Impossible, 0},
		"overflow":     {1e300, signals.Impossible, 0},
		"a jump":       {9e8, signals.Implausible, 2},
		"its limit":    {18, signals.Fine, 18},
	} {
		t.Run(name, func(t *testing.T) {
			s := replicas(t, 1)
			s.Hear(0, load(2, signals.Unsaid), signals.Polled, own(2), time.Second)
			l := load(c.value, signals.Unsaid)
			if f := s.Hear(0, l, signals.Polled, own(2), 2*time.Second); f != c.fault {
				t.Errorf("fault %v, want %v", f, c.fault)
			}
			k := s.Known(0, 2*time.Second)
			want := c.known
			if want == 0 { // the report before stays
				want = 2
			}
			if k.Counters.Model != want {
				t.Errorf("%d requests are known, want %d", k.Counters.Model, want)
			}
		})
	}
}

func TestARealSurgeIsBelievedWithinAFewReports(t *testing.T) {
	s := replicas(t, 1)
	s.Hear(0, load(1, 1), signals.Polled, own(1), 0)
	for i := range 5 {
		s.Hear(0, load(90, 90), signals.Polled, own(1), time.Duration(i+1)*time.Second)
	}
	if k := s.Known(0, 5*time.Second); k.Counters.Model != 90 {
		t.Errorf("after five reports of 90 requests %d are known", k.Counters.Model)
	}
}

func TestAnEngineThatSaysTooLittle(t *testing.T) {
	s := replicas(t, 1)
	s.Hear(0, load(20, 20), signals.Polled, own(20), 0)
	if f := s.Hear(0, load(0, 0), signals.Polled, own(12), time.Second); f != signals.Implausible {
		t.Errorf("fault %v, want implausible", f)
	}
	if k := s.Known(0, time.Second); k.Counters.Model != 12 || k.Counters.Host != 12 {
		t.Errorf("%+v are known; the router has 12 there itself", k.Counters)
	}
}

func TestCountersThatStandStill(t *testing.T) {
	s := replicas(t, 2)
	s.Hear(1, load(4, 4), signals.Polled, own(4), 0)
	var last signals.Fault
	for i := range 12 {
		last = s.Hear(0, load(6, 6), signals.Polled, own(i%6), time.Duration(i)*time.Second)
	}
	if last != signals.Frozen {
		t.Errorf("12 equal reports while the router's requests came and went: %v, want frozen", last)
	}
	if f := s.Hear(0, load(5, 5), signals.Polled, own(3), 12*time.Second); f != signals.Fine {
		t.Errorf("counters that move again: %v", f)
	}
	for i := range 12 {
		last = s.Hear(1, load(0, 0), signals.Polled, own(0), time.Duration(i)*time.Second)
	}
	if last != signals.Fine {
		t.Errorf("an idle engine without requests of the router's: %v, want fine", last)
	}
}

func TestARestartForgetsWhatWas(t *testing.T) {
	s := replicas(t, 1)
	l := load(40, 40)
	l.Answered, l.Cores = 1000, 4
	s.Hear(0, l, signals.Polled, own(0), 0)
	l = load(90, 90)
	l.Answered, l.Cores = 3, 16
	if f := s.Hear(0, l, signals.Polled, own(0), time.Second); f != signals.Restarted {
		t.Errorf("fault %v, want restarted", f)
	}
	if k := s.Known(0, time.Second); k.Counters.Model != 90 || k.Counters.Cores != 16 {
		t.Errorf("%+v are known of the new process", k.Counters)
	}
	l.Answered, l.Cores, l.Instance = 10, 64, 0
	if f := s.Hear(0, l, signals.Polled, own(0), 2*time.Second); f != signals.Implausible {
		t.Errorf("a host of another number of cores without a restart: %v, want implausible", f)
	}
}

func TestAnotherModelsLoadIsRefused(t *testing.T) {
	s := replicas(t, 1)
	l := load(3, 3)
	if l.Model = signals.ModelID("another"); s.Hear(0, l, signals.Piggybacked, own(0), 0) != signals.Another {
		t.Error("the load of another model is used")
	}
	if l.Model = signals.ModelID("model"); s.Hear(0, l, signals.Piggybacked, own(0), 0) != signals.Fine {
		t.Error("the load of the model itself is refused")
	}
}

// One replica is asked in vain; the model's others stand in, by their means for each core.
func TestOthersStandIn(t *testing.T) {
	s := replicas(t, 3)
	var heard []signals.Known
	s.OnHeard = func(replica int, k signals.Known, _ signals.Source) {
		if replica == 0 {
			heard = append(heard, k)
		}
	}
	for i, cores := range []float64{8, 2, 4} {
		l := load(float64(2*i), float64(4*i))
		l.Work, l.Cores = float64(i), cores
		s.Hear(i, l, signals.Polled, own(0), time.Duration(i)*time.Second)
	}
	s.Miss(0, signals.Asked, 3*time.Second)
	k := s.Known(0, 3*time.Second)
	// Host: the others have 4/2 and 8/4 for each core; work: 1/2 and 2/4.
	want := signals.Counters{Model: 3, Host: 16, Work: 4 * time.Second, Cores: 8}
	if k.Source != signals.StandIn || k.Counters != want || k.At != time.Second {
		t.Errorf("%+v, want %+v as a stand-in of the age of the older", k, want)
	}
	if len(heard) != 2 || heard[1].Source != signals.StandIn {
		t.Errorf("the balancer heard %+v", heard)
	}
	for _, at := range []time.Duration{3 * time.Second, time.Minute} {
		n := 0
		s.Each(at, func(replica int, k *signals.Known) {
			if n++; *k != s.Known(replica, at) {
				t.Errorf("at %v of replica %d %+v is known, and %+v among all", at, replica, s.Known(replica, at), *k)
			}
		})
		if n != 3 {
			t.Errorf("%d replicas of 3", n)
		}
	}
	s.Hear(0, load(1, 1), signals.Polled, own(0), 4*time.Second)
	if k := s.Known(0, 4*time.Second); k.Source != signals.Polled {
		t.Errorf("after an answer the source is %v", k.Source)
	}
	if k := s.Known(0, time.Minute); k.Source != signals.Own {
		t.Errorf("when all signals are old the source is %v", k.Source)
	}
}

func TestAnEngineThatSaysOnlyWhatWaits(t *testing.T) {
	s := replicas(t, 1)
	l := signals.NewLoad()
	l.Waiting, l.KVUse = 0, 0.25
	for i := range 12 {
		l.KVUse += 0.01
		if f := s.Hear(0, l, signals.Piggybacked, own(i), time.Duration(i)*time.Second); f != signals.Fine {
			t.Fatalf("report %d: %v", i, f)
		}
	}
	if k := s.Known(0, 11*time.Second); k.Counters.Model != 11 {
		t.Errorf("%d requests are known; the router has 11 there", k.Counters.Model)
	}
}

func TestHearingAllocatesNothing(t *testing.T) {
	s := replicas(t, 2)
	s.OnHeard = func(int, signals.Known, signals.Source) {}
	l := load(3, 3)
	if n := testing.AllocsPerRun(100, func() { s.Hear(0, l, signals.Piggybacked, own(3), time.Second) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Triton reports its KV cache and nothing else. That is no fault, however long the share stands
// still, and decides among replicas that have as many requests.
func TestAKVCacheAloneIsALoad(t *testing.T) {
	s := replicas(t, 2)
	for i := range 20 {
		for replica, share := range []float64{0.75, 0.25} {
			l := signals.NewLoad()
			l.KVUse = share
			if f := s.Hear(replica, l, signals.Piggybacked, own(i%7), time.Second); f != signals.Fine {
				t.Fatalf("report %d: %v", i, f)
			}
		}
	}
	full, empty := s.Known(0, time.Second).Counters, s.Known(1, time.Second).Counters
	if full.Model != 5 || full.Use != 0.75 {
		t.Errorf("%+v: want the router's own 5 requests, and a use of .75", full)
	}
	for _, c := range []signals.Counter{signals.ByModel, signals.ByHost, signals.ByWork} {
		if c.Compare(&empty, &full) >= 0 || c.Load(&empty) >= c.Load(&full) {
			t.Errorf("by %v the fuller cache is not the more loaded of equals", c)
		}
	}
	if empty.Model++; signals.ByModel.Compare(&empty, &full) <= 0 {
		t.Error("the share of the cache counts for more than a request")
	}
}
