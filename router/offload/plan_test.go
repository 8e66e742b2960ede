package offload_test

import (
	"fmt"
	"maps"
	"math"
	randv2 "math/rand/v2"
	"slices"
	"testing"

	"gearshift/router/offload"
)

func rand(seed uint64) *randv2.Rand { return randv2.New(randv2.NewPCG(seed, 1)) }

// drawn are clients of mixed rates and SLAs that have begun to send.
func drawn(r *randv2.Rand, n int) (clients []offload.Client) {
	for range n {
		last := r.IntN(8)
		clients = append(clients, offload.Client{
			SLA: 0.02 + 0.04*r.Float64(), Rate: 0.002 + 0.008*r.Float64(), Network: 0.5 + r.Float64(),
			Last: last, Arrival: float64(last) + 0.4 + 0.6*r.Float64(),
		})
	}
	return clients
}

// Whatever the clients are: the server runs one batch at a time and leaves the grace free; nobody is in a batch
// twice, or in a larger one than it tolerates; frames of a client grow, are not of the future, and are as new as they
// can be; and each that is kept keeps its SLA by strides that are counted frame by frame, over the plan or by deadlines
// in each whole second.
func TestPlansKeepTheirRules(t *testing.T) {
	for seed := range uint64(400) {
		r := rand(seed)
		p := &offload.Planner{Server: synthetic(0.1), Policy: []offload.Policy{offload.Arise, offload.Gearshift}[seed%2]}
		clients := drawn(r, 1+r.IntN(30))
		batches, kept := p.Plan(clients, 10, 200)
		settings := p.Settings(clients)
		free := 10.0
		last := map[int]int{}
		for i := range clients {
			last[i] = clients[i].Last
		}
		for k, b := range batches {
			if b.Start < free-1e-9 {
				t.Fatalf("seed %d: batch %d starts at %v, before %v", seed, k, b.Start, free)
			}
			free = b.Start + 1.1*p.Latency[len(b.Requests)-1]
			in := map[int]bool{}
			for _, x := range b.Requests {
				c := &clients[x.Client]
				age := b.Start - (c.Arrival + float64(x.Frame-c.Last))
				if in[x.Client] || len(b.Requests) > settings[x.Client].Batch && p.Policy == offload.Arise || x.Frame <= last[x.Client] || age < -1e-9 || age >= 1 || !slices.Contains(kept, x.Client) {
					t.Fatalf("seed %d: batch %d has %+v", seed, k, b)
				}
				in[x.Client], last[x.Client] = true, x.Frame
			}
		}
		for _, i := range kept {
			for _, d := range counted(p, clients, batches, i) {
				if d > clients[i].SLA+1e-9 {
					t.Fatalf("seed %d: client %d is kept and loses %v of %v", seed, i, d, clients[i].SLA)
				}
			}
		}
	}
}

// counted is what a client loses by a walk over its frames: in the plan, or by deadlines in each whole second.
func counted(p *offload.Planner, clients []offload.Client, batches []offload.Batch, i int) (drops []float64) {
	c := &clients[i]
	settings := slices.Clone(p.Settings(clients))
	ready := map[int]int{} // by frame, that of which the result has come
	end := 0
	for _, b := range batches {
		for _, x := range b.Requests {
			if x.Client == i {
				waits := b.Start - (c.Arrival + float64(x.Frame-c.Last))
				end = x.Frame + int(math.Ceil(c.Network+waits+p.Latency[len(b.Requests)-1]-1e-9))
				ready[end] = x.Frame
			}
		}
	}
	from, tracked, sum, n := c.Last+p.EndToEnd(c, settings[i].Batch), c.Last, 0.0, 0
	if len(ready) > 1 {
		from = slices.Min(slices.Collect(maps.Keys(ready)))
	}
	for f := from; f < end; f++ {
		if x, ok := ready[f]; ok {
			tracked = x
		}
		if sum, n = sum+float64(f-tracked), n+1; n == 60 && p.Policy == offload.Gearshift {
			drops = append(drops, p.Drop(c, sum/float64(n)))
			sum, n = 0, 0
		}
	}
	if n > 0 && p.Policy != offload.Gearshift {
		drops = append(drops, p.Drop(c, sum/float64(n)))
	}
	return drops
}

// ARISE-8: clients that wait come in one by one while all keep their SLAs, and none where one had to go.
func TestAdmission(t *testing.T) {
	p := &offload.Planner{Server: synthetic(0.1)}
	var clients []offload.Client
	for i := range 30 {
		clients = append(clients, offload.Client{SLA: 0.02, Rate: 0.005, Network: 0.9, Last: i % 8, Arrival: float64(i%8) + 2, Waiting: i >= 4})
	}
	_, kept := p.Plan(clients, 11, 60)
	// Step 1 has 14.69. It counts no wait, and a frame that is sent to be there as its batch begins is up to one
	// frame interval old: a stride more, so that clients have to send every 6 frames in place of 8.
	if len(kept) < 10 || len(kept) > 11 || kept[len(kept)-1] != len(kept)-1 {
		t.Errorf("%d of 30 are served: %v", len(kept), kept)
	}
	for i := range clients {
		clients[i].Waiting = i >= 25
	}
	if _, all := p.Plan(clients, 11, 60); len(all) < len(kept)-1 || slices.Max(all) >= 25 {
		t.Errorf("of 25 that are served %v stay, and nobody comes in; want about %d", all, len(kept))
	}
	clients = append(clients[:3:3], offload.Client{SLA: -1, Rate: 0.01})
	if _, kept := p.Plan(clients, 11, 60); slices.Contains(kept, 3) {
		t.Error("a client that no setting serves is kept")
	}
	if batches, kept := p.Plan(nil, 0, 60); len(batches) != 0 || len(kept) != 0 {
		t.Error("a server without clients has a plan")
	}
}

// A client that is served by its deadlines uses up what its SLA leaves: more clients than Algorithm 1 has. Who costs
// most has to go first.
func TestDeadlinesServeMore(t *testing.T) {
	serve := func(policy offload.Policy) []int {
		p := &offload.Planner{Server: synthetic(0.02), Policy: policy}
		var clients []offload.Client
		for i := range 60 {
			c := offload.Client{SLA: 0.04, Rate: 0.005, Network: 0.9, Last: i % 12, Arrival: float64(i%12) + 0.3 + float64(i%7)/10, Waiting: i > 1}
			if i == 1 {
				c.SLA = 0.01
			}
			clients = append(clients, c)
		}
		for i := 2; i < 40; i++ { // are served
			clients[i].Waiting = false
		}
		_, kept := p.Plan(clients, 14, 60)
		return slices.Clone(kept)
	}
	arise, ours := serve(offload.Arise), serve(offload.Gearshift)
	if float64(len(ours)) < 1.1*float64(len(arise)) || slices.Contains(ours, 1) {
		t.Errorf("Algorithm 1 serves %d, by deadlines %d: %v", len(arise), len(ours), ours)
	}
}

// What a client has lost in its present second: all frames from its first result on, at its rate beyond the reference,
// and nothing of the second before.
func TestSeconds(t *testing.T) {
	c, s := offload.Client{SLA: 0.035, Rate: 0.01, Network: 0.9}, synthetic(0) // the reference's strides are 2.5
	if over := s.Serve(&c, 10, 14, 0); !math.IsInf(over, -1) || c.Lost != 0 || c.Last != 10 || c.Ready != 14 || c.Began != 14 {
		t.Errorf("after its first request: %+v, %v", c, over)
	}
	if over := s.Serve(&c, 14, 18, 0); !math.IsInf(over, -1) || math.Abs(c.Lost-0.01*4*(5.5-2.5)) > 1e-9 { // strides 4, 5, 6, 7
		t.Errorf("after four frames: %+v, %v", c, over)
	}
	over := s.Serve(&c, 78, 82, 0) // strides 4 to 59 in this second, then 60 to 67
	if want := 0.01*(12+56*(31.5-2.5)) - 60*0.035; math.Abs(over-want) > 1e-9 {
		t.Errorf("a second of one result loses %v beyond the SLA, want %v", over, want)
	}
	if want := 0.01 * 8 * (63.5 - 2.5); math.Abs(c.Lost-want) > 1e-9 || c.Began != 74 {
		t.Errorf("the second after it: %+v, want %v lost", c, want)
	}
}

// The server that is shared by clients of one kind carries as many as a share each fits, and step 1 has no more.
func TestShares(t *testing.T) {
	for seed := range uint64(200) {
		r := rand(seed)
		s := synthetic(0)
		c := &offload.Client{SLA: 0.005 + 0.06*r.Float64(), Rate: 0.002 + 0.01*r.Float64(), Network: 3 * r.Float64()}
		share, _, n := s.Share(c)
		x := s.Best(c)
		if carried := s.Capacity(x); carried > 1/share*(1+1e-9) || carried < 0.6/share {
			t.Fatalf("seed %d: step 1 carries %v, a share is %v", seed, carried, share)
		}
		if n < 1 || n > 8 {
			t.Fatalf("seed %d: batches of %d", seed, n)
		}
	}
	s := synthetic(0)
	if share, _, n := s.Share(&offload.Client{SLA: -1, Rate: 0.1}); !math.IsInf(share, 1) || n != 0 {
		t.Errorf("a client that nothing serves takes %v in batches of %d", share, n)
	}
}

// A plan allocates nothing once its memory is there (ARISE-28).
func TestPlansDoNotAllocate(t *testing.T) {
	for _, policy := range offload.Policies {
		p := &offload.Planner{Server: synthetic(0.1), Policy: policy}
		clients := drawn(rand(1), 40)
		if n := testing.AllocsPerRun(100, func() { p.Plan(clients, 10, 60) }); n > 0 {
			t.Errorf("%s: %v allocations, want none", policy, n)
		}
	}
}

// BenchmarkPlan makes plans of so many requests: 50 clients have 1,000 in a second at 60 frames per second if they
// send every 3 frames (ARISE-28: .8 ms).
func BenchmarkPlan(b *testing.B) {
	for _, policy := range []offload.Policy{offload.Arise, offload.Gearshift} {
		for _, n := range []int{1_000, 10_000, 100_000} {
			b.Run(fmt.Sprint(policy, "/", n), func(b *testing.B) {
				p := &offload.Planner{Server: offload.Server{Longest: 60}, Policy: policy}
				for k := range 64 { // of a server that carries them
					p.Latency = append(p.Latency, 1000/float64(n)*(0.5+0.2*float64(k)))
				}
				var clients []offload.Client
				for i := range n / 20 {
					clients = append(clients, offload.Client{SLA: 1, Rate: 0.001, Last: i % 3, Arrival: float64(i%3) + 0.3, Given: offload.Setting{Interval: 3, Batch: 8 + i%8}})
				}
				b.ReportAllocs()
				for b.Loop() {
					p.Plan(clients, 3, 60)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/request")
			})
		}
	}
}
