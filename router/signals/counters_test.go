package signals_test

import (
	"testing"
	"time"

	"gearshift/router/signals"
)

// The vectors of the second reading: host A has 2 requests of model M and 10 of N, host B 3
// and none. Requests of M take 5 ms and of N 40, on 32 cores and on 16.
func TestCountersDisagree(t *testing.T) {
	const perM, perN = 5 * time.Millisecond, 40 * time.Millisecond
	a := signals.Counters{Model: 2, Host: 12, Work: 2*perM + 10*perN, Cores: 32}
	b := signals.Counters{Model: 3, Host: 3, Work: 3 * perM, Cores: 16}
	if a.Work != 410*time.Millisecond || b.Work != 15*time.Millisecond {
		t.Fatalf("work %v and %v", a.Work, b.Work)
	}
	if signals.ByModel.Compare(&a, &b) >= 0 {
		t.Error("by its own requests, M prefers B; it has fewer on A")
	}
	if signals.ByHost.Compare(&a, &b) <= 0 {
		t.Error("by the host's requests, M prefers A; there are fewer on B")
	}
	if signals.ByWork.Compare(&a, &b) <= 0 {
		t.Error("by work for each core, 12.8 ms and 0.94, M prefers A")
	}
}

func TestACounterOfZeroFallsBackToTheHost(t *testing.T) {
	busy, idle := signals.Counters{Host: 10, Cores: 4}, signals.Counters{Host: 1, Cores: 4}
	if signals.ByModel.Compare(&idle, &busy) >= 0 {
		t.Error("without requests of the model, the busy host is preferred")
	}
	one := signals.Counters{Model: 1, Host: 1, Cores: 4}
	if signals.ByModel.Compare(&one, &busy) <= 0 {
		t.Error("a replica with a request of the model is preferred to one without")
	}
}

func TestAHostIsComparedByItsCores(t *testing.T) {
	small, large := signals.Counters{Host: 3, Cores: 2}, signals.Counters{Host: 5, Cores: 4}
	if signals.ByHost.Compare(&large, &small) >= 0 {
		t.Error("5 requests on 4 cores count as more than 3 on 2")
	}
	unknown := signals.Counters{Host: 2}
	if signals.ByHost.Compare(&unknown, &small) <= 0 {
		t.Error("a host whose cores are unknown counts as more than one core")
	}
}

// The router's own requests since a report count on top of what others had at the report, and those
// that have ended no longer do.
func TestOwnRequestsSinceAReportCount(t *testing.T) {
	said := signals.Counters{Model: 5, Host: 8, Own: 2, Work: 80 * time.Millisecond}
	for own, want := range map[int]signals.Counters{
		2: said,
		6: {Model: 9, Host: 12, Own: 6, Work: 120 * time.Millisecond},
		0: {Model: 3, Host: 6, Own: 0, Work: 60 * time.Millisecond},
	} {
		got := said
		if got.Count(own); got != want {
			t.Errorf("with %d: %+v, want %+v", own, got, want)
		}
		if got.Count(2); got != said {
			t.Errorf("back from %d: %+v, want %+v", own, got, said)
		}
	}
	lags := signals.Counters{Model: 1, Host: 1, Own: 3} // it had not got all of them yet
	if lags.Count(4); lags.Model != 4 || lags.Host != 4 {
		t.Errorf("%+v, want the router's own 4", lags)
	}
	idle := signals.Counters{}
	if idle.Count(2); idle.Model != 2 || idle.Work <= 0 {
		t.Errorf("%+v, want 2 requests and some work", idle)
	}
}
