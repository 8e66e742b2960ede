package streams_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/streams"
	"gearshift/router/offload"
	"gearshift/router/profile"
)

// server takes (13 + 5n) ms for a batch of n, times the scale, as ARISE-23 has it at 1200 MHz.
func server(t testing.TB, scale float64) *profile.Profile {
	t.Helper()
	times := map[int]float64{}
	for n := 1; n <= 16; n++ {
		times[n] = (13 + 5*float64(n)) * scale
	}
	b, err := profile.NewBatches(map[string]map[int]float64{"": times})
	if err != nil {
		t.Fatal(err)
	}
	return &profile.Profile{Batches: b}
}

var (
	arise = streams.System{Name: "arise", Policy: offload.Arise}
	alpha = streams.System{Name: "arise-alpha", Policy: offload.Alpha}
)

func run(t *testing.T, c streams.Config) *streams.Result {
	t.Helper()
	r, err := streams.Run(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func short(t *testing.T, s streams.System) streams.Config {
	c := streams.Default()
	c.System, c.Profile = s, server(t, 1200.0/1740)
	c.Length, c.Warmup = 40*time.Second, 15*time.Second
	return c
}

// A server for one client whose network and content do not vary loses what ARISE-2 says, beyond the reference.
func TestOneClientLosesWhatTheModelSays(t *testing.T) {
	for _, interval := range []int{2, 4, 9} {
		c := short(t, streams.System{Policy: offload.Alpha, Fixed: offload.Setting{Interval: interval, Batch: 1}, Clients: 1})
		c.Content.Apart, c.Content.Spread, c.Content.Noise = 0, 0, 0
		c.Link.UpSpread, c.Link.DownSpread, c.Link.Varying, c.Link.Jitter = 0, 0, 0, 0
		r := run(t, c)
		// A frame to the server and its result back: half the round trip each, 20,000 and 10,000 bytes.
		network := (14 + 160/152.0 + 80/1715.0) * 0.06
		s := offload.Server{Latency: []float64{18 * 1200.0 / 1740 * 0.06}, Longest: 60}
		x := &offload.Client{Rate: c.Content.Rate, Network: network}
		want := s.Drop(x, offload.MeanStride(s.EndToEnd(x, 1), interval))
		if math.Abs(r.Drop-want) > 0.02*c.Content.Rate || math.Abs(r.Interval-float64(interval)) > 1e-9 || math.Abs(r.Clients-1) > 0.05 || r.Batch != 1 {
			t.Errorf("every %d frames it loses %v, want %v: %+v", interval, r.Drop, want, r)
		}
	}
}

// What a schedule is for: more clients than a server that reacts carries, which keep their SLAs; the server is busy
// but for the grace (ARISE-20, 24).
func TestASchedulePaysOff(t *testing.T) {
	planned, reacted := run(t, short(t, arise)), run(t, short(t, alpha))
	if planned.Clients < 1.25*reacted.Clients || planned.Broken > 0.02 {
		t.Errorf("arise serves %.2f clients and breaks %.3f of their seconds, arise-alpha %.2f", planned.Clients, planned.Broken, reacted.Clients)
	}
	if planned.Busy < 0.88 || planned.Busy > 0.912 || reacted.Busy > 0.85 || planned.Batch <= reacted.Batch {
		t.Errorf("the server is busy %.3f with a schedule, %.3f without; batches of %.2f and %.2f", planned.Busy, reacted.Busy, planned.Batch, reacted.Batch)
	}
	if planned.Late > 0.2 || planned.Missed > planned.Batches/50 {
		t.Errorf("%.3f of the batches are late, and %d requests came after their batch", planned.Late, planned.Missed)
	}
}

// By deadlines a server carries more clients than by Algorithm 1, with a margin by which their SLAs hold as well.
func TestDeadlinesPayOff(t *testing.T) {
	ours := short(t, streams.System{Name: "gearshift", Policy: offload.Gearshift})
	ours.Grace, ours.Margin = 0.02, 0.15
	planned, r := run(t, short(t, arise)), run(t, ours)
	if r.Clients < 1.1*planned.Clients || r.Broken > 0.05 || r.Fluid < planned.Fluid || r.Fluid > 1 {
		t.Errorf("by deadlines %+v, by Algorithm 1 %+v", r, planned)
	}
}

// A smaller model, which loses a little and takes a third of the time, serves clients while it may: one and a half
// times as many as Algorithm 1 carries at least. One that loses all that the SLA allows serves nobody.
func TestClientsMoveBetweenSizes(t *testing.T) {
	c := short(t, streams.System{Name: "gearshift", Policy: offload.Gearshift})
	c.Length, c.SLA = 30*time.Second, [2]float64{0.02, 0.02}
	c.Grace, c.Margin = 0.02, 0.15
	alone := run(t, c)
	c.Smaller = []streams.Size{{server(t, 400.0/1740), 0.01}}
	both := run(t, c)
	c.Smaller[0].Gap = 0.03
	useless := run(t, c)
	if planned := run(t, short(t, arise)); both.Clients < 1.5*planned.Clients || both.Broken > 0.08 {
		t.Errorf("with two sizes %.2f clients, which lose more in %.3f of their seconds; Algorithm 1 has %.2f", both.Clients, both.Broken, planned.Clients)
	}
	if !reflect.DeepEqual(useless, alone) {
		t.Errorf("with a model that keeps no SLA %+v, without %+v", useless, alone)
	}
}

// The batches of the last second are those that keep the server busy there, one after the other.
func TestTheLastSecond(t *testing.T) {
	for _, s := range []streams.System{arise, alpha, {Name: "gearshift", Policy: offload.Gearshift}} {
		r := run(t, short(t, s))
		var busy time.Duration
		for i, b := range r.Last {
			busy += b.Took
			if b.Before < 0 || b.Before > time.Second || b.Frames < 1 || b.Model != 0 || i > 0 && b.Before > r.Last[i-1].Before-r.Last[i-1].Took+time.Microsecond {
				t.Errorf("%s: batch %d is %+v after %+v", s.Name, i, b, r.Last[max(0, i-1)])
			}
		}
		if math.Abs(busy.Seconds()-r.Busy) > 0.15 {
			t.Errorf("%s: %d batches take %v; in the mean the server is busy %.2f", s.Name, len(r.Last), busy, r.Busy)
		}
	}
}

// The same configuration gives the same result, and another seed another.
func TestRunsRepeat(t *testing.T) {
	for _, s := range []streams.System{arise, alpha, {Policy: offload.Gearshift}, {Policy: offload.Alpha, Verified: true}, {Policy: offload.Alpha, Fixed: offload.Setting{Interval: 3}}} {
		c := short(t, s)
		first, second := run(t, c), run(t, c)
		if c.Seed++; !reflect.DeepEqual(first, second) || reflect.DeepEqual(first, run(t, c)) {
			t.Errorf("%+v: %+v, then %+v", s, first, second)
		}
	}
}

// Easy clients are more than hard ones, and looser SLAs carry more (ARISE-20, 21).
func TestTrendsOfClients(t *testing.T) {
	mean := func(edit func(c *streams.Config)) float64 {
		c := short(t, arise)
		c.Content.Apart = 0.1
		edit(&c)
		return run(t, c).Clients
	}
	hard := mean(func(c *streams.Config) { c.Content.Rate = 0.007 })
	easy := mean(func(c *streams.Config) { c.Content.Rate = 0.005 })
	loose := mean(func(c *streams.Config) { c.SLA = [2]float64{0.04, 0.04} })
	if usual := mean(func(*streams.Config) {}); easy < 1.2*hard || loose < 1.5*usual {
		t.Errorf("hard %.2f, easy %.2f, usual %.2f, loose %.2f", hard, easy, usual, loose)
	}
}

// A recorded link that is the same throughout is one that does not vary; one that stops for a while costs clients.
func TestRecordedLinks(t *testing.T) {
	c := short(t, streams.System{Name: "gearshift", Policy: offload.Gearshift})
	c.Grace, c.Margin = 0.02, 0.15
	even := streams.Link{Name: "even", Up: 152, Down: 1715, RoundTrip: 14 * time.Millisecond}
	c.Link = even
	want := run(t, c)
	c.Link = streams.Link{Name: "recorded", Recorded: &streams.Recording{Step: time.Second, Up: []float64{152}, Down: []float64{1715}, RoundTrip: []time.Duration{14 * time.Millisecond}}}
	if got := run(t, c); math.Abs(got.Clients-want.Clients) > 0.12*want.Clients || got.Missed > 50 {
		t.Errorf("recorded: %+v, declared: %+v", got, want)
	}
	c.Link.Recorded.Up = []float64{152, 152, 152, 152, 0.5}
	if got := run(t, c); got.Broken < 0.02 || got.Missed < 100 {
		t.Errorf("with a link that stands still a fifth of the time: %+v", got)
	}
}

// A server that is lost serves nobody; once it is back it serves as many as before.
func TestTheServerIsLost(t *testing.T) {
	for _, s := range []streams.System{arise, {Name: "gearshift", Policy: offload.Gearshift}} {
		c := short(t, s)
		whole := run(t, c)
		c.Losses = []env.HostLoss{{From: 20 * time.Second, To: 25 * time.Second}}
		lost := run(t, c)
		if share := lost.Clients / whole.Clients; share < 0.6 || share > 0.9 || lost.Busy >= whole.Busy {
			t.Errorf("%s: %.2f clients, %.2f where the server is away a fifth of the time", s.Name, whole.Clients, lost.Clients)
		}
	}
}

func TestWhatCannotBeSimulated(t *testing.T) {
	for want, edit := range map[string]func(c *streams.Config){
		"no times of batches": func(c *streams.Config) { c.Profile = nil },
		"a horizon":           func(c *streams.Config) { c.Horizon = time.Millisecond },
		"SLAs from":           func(c *streams.Config) { c.SLA = [2]float64{0.3, 0.2} },
		`policy "best"`:       func(c *streams.Config) { c.Policy = "best" },
		"clients a second":    func(c *streams.Config) { c.Arrivals = 0 },
	} {
		c := short(t, arise)
		edit(&c)
		if _, err := streams.Run(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
