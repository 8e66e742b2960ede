package tail

import (
	"reflect"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/clients"
	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/rollout"
	"gearshift/router/signals"
)

// TestADayTogether: on one day replicas move between bands, a host is lost and comes back, and the
// version of a model changes, by the controllers of each in one set. Each request is answered or has
// failed, the host that was lost is busy again, and the day repeats.
func TestADayTogether(t *testing.T) {
	s := &study{length: 4 * time.Second}
	const lost = 2 // of 8 cores
	play := func() (*clients.Result, *rolled) {
		c, err := s.uneven(3).Draw()
		if err != nil {
			t.Fatal(err)
		}
		length := s.dayTakes()
		c.Clients, c.Chooser, c.Timeout, c.Seed = 100, polled(2, signals.ByWork), timeout, 3
		c.Length, c.Period = length, length/perDay
		clients.Day{Length: length, Peak: 0.5 * c.Capacity(), Floor: 0.4, Swing: 0.25, Hogs: 6, Hogged: 0.4, Seed: 3}.Apply(c)
		next := c.Models[0]
		next.Version, next.Share, next.Replicas, next.Memory = "2", 0, nil, 0
		c.Models[0].Version, c.Models = "1", append(c.Models, next)
		c.Losses = []env.HostLoss{{Host: lost, From: length * 4 / 10, To: length * 6 / 10}} // at noon
		balanced(c, byBandwidth)
		bands := c.Control
		var by *rolled
		var seen *clients.Fleet
		c.Control = func(f *clients.Fleet) control.Controller {
			o := rollout.DefaultOptions()
			o.AtOnce, o.Warmup, o.Utilisation, o.Interval = 2, 10*time.Millisecond, 1, 10*time.Millisecond
			if by, err = roll(f, c, 0, len(c.Models)-1, length/8, o); err != nil {
				t.Fatal(err)
			}
			seen = f
			return control.NewSet(bands(f), by)
		}
		r, err := clients.Run(c)
		if err != nil {
			t.Fatal(err)
		}
		for m := range c.Models {
			if seen.State(seen.Replica(m, lost)) == fleet.Down {
				t.Errorf("a replica of model %d is down on the host that is back", m)
			}
		}
		for _, m := range r.Series {
			away, busy := m.At > length*4/10+c.Period && m.At <= length*6/10, m.Utilisation[lost] > 0
			if away && busy || m.At > length*8/10 && !busy {
				t.Errorf("at %v the host that is lost at noon is busy %.2f", m.At, m.Utilisation[lost])
			}
		}
		return r, by
	}
	r, by := play()
	if r.Loads < 10 || by.done == 0 || r.Failed == 0 || len(r.Times)+r.Failed != r.Requests {
		t.Errorf("%d loads; the version is everywhere at %v; %d of %d requests failed and %d were answered", r.Loads, by.done, r.Failed, r.Requests, len(r.Times))
	}
	if again, _ := play(); !reflect.DeepEqual(r, again) {
		t.Error("the same day ends otherwise")
	}
}
