package clients_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/clients"
	"gearshift/router/balance"
	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
	"gearshift/router/profile"
)

// script is a controller that does one step after the other, each at its time or, if that is
// zero, at the event that follows the step before.
type script struct {
	*lifecycle.Claims
	steps  []step
	events []control.Event
}

// claim has the script want states of replicas.
func (s *script) claim(w *clients.Fleet) {
	s.Claims = w.Claim(lifecycle.Balancing, func(e control.Event) { s.events = append(s.events, e) })
}

// want wants a state of a replica.
func (s *script) want(t *testing.T, replica int, is fleet.State) {
	t.Helper()
	if _, err := s.Propose(lifecycle.Want{Replica: replica, State: is}); err != nil {
		t.Error(err)
	}
}

type step struct {
	at time.Duration
	do func()
}

func (s *script) Observe(control.Event) {}

func (s *script) Wake(now time.Duration) time.Duration {
	heard := len(s.events)
	for len(s.steps) > 0 && (s.steps[0].at == 0 && heard > 0 || s.steps[0].at > 0 && now >= s.steps[0].at) {
		do := s.steps[0]
		s.steps, heard = s.steps[1:], 0
		do.do()
	}
	if len(s.steps) == 0 || s.steps[0].at == 0 {
		return control.Never
	}
	return s.steps[0].at
}

// two is two hosts of one core, with a model on the first.
func two() *clients.Config {
	return &clients.Config{
		Hosts: []fleet.Host{{Compute: 1, Memory: 10}, {Compute: 1, Memory: 10}},
		Models: []clients.Demand{{Model: fleet.Model{Name: "m", Version: "1", Memory: 6, Load: 2 * time.Second}, Share: 1, Work: always(10 * time.Millisecond),
			Mean: 10 * time.Millisecond, Replicas: []int{0}, LoadWork: time.Second}},
		Clients: 3, Rate: 20, Chooser: balance.Sampled{K: 2, Poll: true}, Length: 20 * time.Second, Period: time.Second, Timeout: 100 * time.Millisecond, Seed: 1,
	}
}

// TestAReplicaIsLoadedAndUnloaded: a load takes its time and its work, and memory from its
// beginning on; what is loaded answers, and what is unloaded takes nothing new and gives its memory back.
func TestAReplicaIsLoadedAndUnloaded(t *testing.T) {
	c := two()
	s := &script{}
	var first []time.Duration // when events came
	c.Control = func(w *clients.Fleet) control.Controller {
		is := func(replica int, want fleet.State, memory int64) {
			t.Helper()
			if w.State(replica) != want || w.HostLoad(w.Host(replica)).Memory != memory {
				t.Errorf("replica %d is %v with %d bytes taken, want %v with %d", replica, w.State(replica), w.HostLoad(w.Host(replica)).Memory, want, memory)
			}
		}
		s.claim(w)
		old, young := w.Replica(0, 0), w.Replica(0, 1)
		s.steps = []step{
			{1 * time.Second, func() { s.want(t, young, fleet.Up) }},
			{2 * time.Second, func() { is(young, fleet.Loading, 6) }},
			{0, func() {
				is(young, fleet.Up, 6)
				first = append(first, s.events[0].At)
			}},
			{10 * time.Second, func() {
				if a, b := w.ReplicaLoad(old).Requests, w.ReplicaLoad(young).Requests; a == 0 || b == 0 {
					t.Errorf("%v requests a second on the old, %v on the young: want both to answer", a, b)
				}
				s.want(t, old, fleet.Cold)
			}},
			{12 * time.Second, func() {
				is(old, fleet.Cold, 0)
				if w.InFlight(old) != 0 || w.ReplicaLoad(old).Requests != 0 {
					t.Error("a replica that is unloaded takes requests")
				}
			}},
		}
		return s
	}
	r := run(t, c)
	if len(s.steps) > 0 || len(s.events) != 2 || s.events[0].Kind != control.Loaded || s.events[1].Kind != control.Unloaded {
		t.Fatalf("%d steps are left; events %v", len(s.steps), s.events)
	}
	if want := 4 * time.Second; first[0] != want { // from 1 s on, 2 s from disk and 1 s of work on an idle core
		t.Errorf("loaded after %v, want %v", first[0], want)
	}
	if r.Failed != 0 || r.Loads != 1 || r.Unloads != 1 || len(r.Series) != 20 {
		t.Errorf("%d failed, %d loads, %d unloads, %d moments", r.Failed, r.Loads, r.Unloads, len(r.Series))
	}
	if r.Series[3].Loads+r.Series[4].Loads != 1 || r.Series[9].Unloads+r.Series[10].Unloads != 1 {
		t.Errorf("the series has the load and the unload elsewhere: %+v", r.Series)
	}
	if math.Abs(r.Series[3].Utilisation[1]-1) > 0.01 || r.Series[1].Utilisation[1] != 0 {
		t.Errorf("the host that loads is busy %v, and %v while it reads from disk", r.Series[3].Utilisation[1], r.Series[1].Utilisation[1])
	}
}

// TestWhatHasNoMemoryIsNotLoaded: a load for which its host lacks memory is refused, until that is given back. What is
// loaded nowhere fails.
func TestWhatHasNoMemoryIsNotLoaded(t *testing.T) {
	c := two()
	c.Models = append(c.Models, clients.Demand{Model: fleet.Model{Name: "n", Memory: 6}, Share: 1, Work: always(time.Millisecond), Mean: time.Millisecond, Replicas: []int{1}})
	s := &script{}
	c.Control = func(w *clients.Fleet) control.Controller {
		s.claim(w)
		if _, err := s.Propose(lifecycle.Want{Replica: w.Replica(0, 1), State: fleet.Up}); err == nil || !strings.Contains(err.Error(), "2 bytes are missing") {
			t.Error(err)
		}
		s.steps = []step{
			{time.Second, func() { s.want(t, w.Replica(1, 1), fleet.Cold) }},
			{0, func() { s.want(t, w.Replica(0, 1), fleet.Up) }},
		}
		return s
	}
	r := run(t, c)
	// From then on the second model has no replica: half of the requests fail.
	if share := float64(r.Failed) / float64(r.Requests); r.Refused != 0 || r.Loads != 1 || math.Abs(share-19./40) > 0.05 {
		t.Errorf("%d refused, %d loads, a share of %.3f failed", r.Refused, r.Loads, share)
	}
}

// TestAVersionTakesOver: requests for a model's name go to its versions by their parts.
func TestAVersionTakesOver(t *testing.T) {
	c := two()
	next := c.Models[0]
	next.Version, next.Share, next.Replicas, next.Memory = "2", 0, []int{1}, 6
	next.Cold, next.Coldness = 3, 5
	c.Models, c.Rate = append(c.Models, next), 50
	s := &script{}
	c.Control = func(w *clients.Fleet) control.Controller {
		count := func(want float64) {
			t.Helper()
			a, b := float64(w.ModelLoad(0).Answered), float64(w.ModelLoad(1).Answered)
			if share := b / (a + b); math.Abs(share-want) > 0.15 {
				t.Errorf("the new version gets %.2f of the requests, want %.2f", share, want)
			}
		}
		s.steps = []step{
			{5 * time.Second, func() { count(0); w.SetPart(0, 0.75); w.SetPart(1, 0.25) }},
			{10 * time.Second, func() { count(0.25); w.SetPart(0, 0); w.SetPart(1, 1) }},
			{15 * time.Second, func() { count(1); s.want(t, w.Replica(0, 0), fleet.Cold) }},
		}
		s.claim(w)
		return s
	}
	if r := run(t, c); r.Failed != 0 || math.Abs(float64(r.Requests)-1000) > 120 {
		t.Errorf("%d of %d requests failed", r.Failed, r.Requests)
	}
}

// TestUnloadsWaitForRequests: what runs on a replica that is unloaded ends before, and what is hidden gets nothing.
func TestUnloadsWaitForRequests(t *testing.T) {
	c := two()
	c.Models[0].Work, c.Models[0].Mean, c.Models[0].Replicas, c.Rate = always(time.Second), time.Second, []int{0, 1}, 1
	running := 0
	s := &script{}
	c.Control = func(w *clients.Fleet) control.Controller {
		s.claim(w)
		s.steps = []step{
			{5 * time.Second, func() { w.Hide(1, true) }},
			{15 * time.Second, func() {
				if w.InFlight(1) > 0 || w.ReplicaLoad(1).Requests > 0 {
					t.Error("a hidden replica gets requests")
				}
				w.Hide(1, false)
				running = w.InFlight(0)
				s.want(t, 0, fleet.Cold)
			}},
		}
		return s
	}
	r := run(t, c)
	if running == 0 || r.Failed != 0 || r.Unloads != 1 || len(r.Times) != r.Requests {
		t.Errorf("%d requests were on the replica, %d of %d failed, and %d were answered; %d unloads", running, r.Failed, r.Requests, len(r.Times), r.Unloads)
	}
}

// TestAHostIsLost: what a lost host has fails, clients send to the other until it is back, and what is
// nowhere else fails.
func TestAHostIsLost(t *testing.T) {
	c := two()
	c.Models[0].Replicas, c.Models[0].Work, c.Models[0].Mean = []int{0, 1}, always(30*time.Millisecond), 30*time.Millisecond
	c.Losses = []env.HostLoss{{Host: 0, From: 5 * time.Second, To: 10 * time.Second}}
	few := run(t, c)
	c.Models = append(c.Models, clients.Demand{Model: fleet.Model{Name: "n"}, Share: 1, Work: always(time.Millisecond), Mean: time.Millisecond, Replicas: []int{0}})
	many := run(t, c) // half of about 100 requests
	if few.Failed > 3 || many.Failed < 35 || many.Failed > 70 {
		t.Errorf("%d requests fail where there is another replica, %d where half of the models have none", few.Failed, many.Failed)
	}
	for _, r := range []*clients.Result{few, many} {
		if lost, back := r.Series[7].Utilisation[0], r.Series[12].Utilisation[0]; lost != 0 || back == 0 || len(r.Times)+r.Failed != r.Requests {
			t.Errorf("the host is busy %.2f while it is lost, and %.2f once it is back; %d of %d requests are answered", lost, back, len(r.Times), r.Requests)
		}
	}
}

// TestBandwidthIsShared: a request that is alone on its host takes as much longer as memory
// does under a hog, while the host says that it is busy.
func TestBandwidthIsShared(t *testing.T) {
	c := two()
	c.Hosts[0].Bandwidth, c.Models[0].Bandwidth, c.Rate = 100, 60, 5
	c.Hogs = []clients.Hog{{Host: 0, Bandwidth: 50, From: 10 * time.Second, To: 20 * time.Second}}
	r := run(t, c)
	fastest, slowest := r.Quantile(0).Seconds(), r.Quantile(0.9).Seconds()
	if stretch := profile.DefaultBandwidth.Stretch(1.1); math.Abs(fastest-0.01) > 1e-6 || slowest < 0.01*stretch*0.999 {
		t.Errorf("%.4f s without the hog and %.4f with it, want .01 and %v times that", fastest, slowest, stretch)
	}
	if before, after := r.Series[5], r.Series[15]; !(after.Bandwidth[0] > 0.5 && before.Bandwidth[0] < 0.2) {
		t.Errorf("%.2f of the bandwidth in use without the hog, %.2f with it", before.Bandwidth[0], after.Bandwidth[0])
	}
}

// TestTheRateFollowsTheDay: as many requests come as the rate has it, for the models whose
// share it is then, and the same each time.
func TestTheRateFollowsTheDay(t *testing.T) {
	day := func() *clients.Config {
		c := two()
		c.Models = append(c.Models, clients.Demand{Model: fleet.Model{Name: "n"}, Share: 1, Work: clients.Exponential(time.Millisecond), Mean: time.Millisecond, Replicas: []int{1}})
		c.RateAt = func(now time.Duration) float64 { return 50 + 40*math.Sin(2*math.Pi*now.Seconds()/20) }
		c.ShareAt = func(model int, now time.Duration) float64 {
			if model == 1 && now < 10*time.Second {
				return 1e-6
			}
			return 1
		}
		return c
	}
	r := run(t, day())
	if first, last := r.Series[4].Requests, r.Series[14].Requests; math.Abs(float64(r.Requests)-1000) > 100 || first < 4*last {
		t.Errorf("%d requests, %d at the peak and %d at the bottom", r.Requests, first, last)
	}
	if r.Answered[1] < 80 || r.Answered[1] > 200 {
		t.Errorf("the second model answered %d requests of about 250 in the second half, want half", r.Answered[1])
	}
	if !reflect.DeepEqual(r, run(t, day())) {
		t.Error("the same configuration gives another result")
	}
}

func TestBadDeployments(t *testing.T) {
	for words, spoil := range map[string]func(c *clients.Config){
		`version "2" of model "m" has a share of 1; want 0`:              func(c *clients.Config) { m := c.Models[0]; m.Version = "2"; c.Models = append(c.Models, m) },
		"host 0 has 5 bytes of memory, of which its replicas take 6":     func(c *clients.Config) { c.Hosts[0].Memory = 5 },
		`model "m" is on host 0 twice`:                                   func(c *clients.Config) { c.Models[0].Replicas = []int{0, 0} },
		"hog 0 takes a bandwidth of 1 from 1s to 1s":                     func(c *clients.Config) { c.Hogs = []clients.Hog{{Bandwidth: 1, From: time.Second, To: time.Second}} },
		"hog 0 is on host 2 of 2":                                        func(c *clients.Config) { c.Hogs = []clients.Hog{{Host: 2, Bandwidth: 1, To: time.Second}} },
		`host "h1" has memory 10, compute 1 and bandwidth -1`:            func(c *clients.Config) { c.Hosts[1].Bandwidth = -1 },
		`model "m" takes 6 bytes and -1ns to load`:                       func(c *clients.Config) { c.Models[0].Load = -1 },
		"shares change at the times of a period, of which there is none": func(c *clients.Config) { c.Period, c.ShareAt = 0, func(int, time.Duration) float64 { return 1 } },
	} {
		c := two()
		spoil(c)
		if _, err := clients.Run(c); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want %q", err, words)
		}
	}
}

// TestARunEndsEarly: a run that has had too many timeouts ends, and a few do not end it.
func TestARunEndsEarly(t *testing.T) {
	c := two()
	c.Rate, c.Most = 150, 100 // the one core can do 100 a second
	r := run(t, c)
	if late := r.Timeouts; late != 101 || len(r.Series) > 10 {
		t.Errorf("%d timeouts in %d seconds, want the run to end with 101", late, len(r.Series))
	}
	c.Rate = 20
	if r := run(t, c); len(r.Series) != 20 {
		t.Errorf("a run with %d timeouts ends after %d of 20 seconds", r.Timeouts, len(r.Series))
	}
}
