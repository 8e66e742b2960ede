package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"gearshift/env/clients"
	"gearshift/router/balance"
	"gearshift/router/fleet"
	"gearshift/router/signals"
)

const (
	// tailClients is how many clients there are, each with a view of its own.
	tailClients = 200
	// tailFrom and tailTo are the loads at the beginning and the end of a ramp, in shares of what the
	// processes can compute.
	tailFrom, tailTo = .3, 1.5
	// tailTimeout is after how many mean costs, on the smaller hosts, a request counts as timed out.
	tailTimeout = 8
	// tailPoll sets how much a poll takes of a processor where it is simulated: an engine process with four
	// models takes 50 to 100 µs.
	tailPoll = 100 * time.Microsecond
	// tailMost is the share of timeouts up to which a load is carried.
	tailMost = .01
)

// tailRun is what came of one ramp.
type tailRun struct {
	carried  float64       // the load
	p99      time.Duration // below a load of .7
	polls    float64       // for each request
	pollTook time.Duration // in the mean
}

// tailRuns are the ramps of a scheme, a round each.
type tailRuns struct {
	carried, p99 []float64 // p99 in milliseconds
	took         []time.Duration
}

func (r *tailRuns) add(run tailRun) {
	r.carried, r.p99 = append(r.carried, run.carried), append(r.p99, run.p99.Seconds()*1000)
	r.took = append(r.took, run.pollTook)
}

func (r *tailRuns) pollTook() time.Duration {
	var sum time.Duration
	for _, d := range r.took {
		sum += d
	}
	return sum / time.Duration(max(1, len(r.took)))
}

// tailAnswer is one request.
type tailAnswer struct{ at, took time.Duration }

// loadAt is the load at a time of a ramp.
func loadAt(at, ramp time.Duration) float64 {
	return tailFrom + (tailTo-tailFrom)*float64(at)/float64(ramp)
}

// judgeRamp returns the load at which more than a hundredth of the answers so far came too late, and
// the time within which 99 of 100 of the requests below a load of .7 were answered.
func judgeRamp(answers []tailAnswer, ramp, timeout time.Duration) (carried float64, p99 time.Duration) {
	slices.SortFunc(answers, func(a, b tailAnswer) int { return int(a.at + a.took - b.at - b.took) })
	late, carried := 0, tailFrom
	var light []time.Duration
	for n, a := range answers {
		if a.took > timeout {
			late++
		}
		if loadAt(a.at, ramp) <= .7 {
			light = append(light, a.took)
		}
		if end := a.at + a.took; float64(late) <= tailMost*float64(n+1) && end <= ramp {
			carried = loadAt(end, ramp)
		}
	}
	slices.Sort(light)
	if len(light) > 0 {
		p99 = light[min(len(light)-1, len(light)*99/100)]
	}
	return carried, p99
}

// timeout is that of the tier's requests.
func (x *tailTier) timeout() time.Duration {
	var sum time.Duration
	for _, c := range x.cost {
		sum += c
	}
	return time.Duration(tailTimeout * float64(sum) / float64(len(x.cost)) / tailCores[0])
}

// tailClient is one client: what it knows of the replicas, and its calls, which do not overlap.
type tailClient struct {
	mu     sync.Mutex // protects all below
	known  [len(tailModels)]*balance.Knowledge
	random *rand.Rand
}

// rampRun is one ramp under way.
type rampRun struct {
	*tailTier
	scheme  *tailScheme
	clients []*tailClient
	ctx     context.Context
	began   time.Time

	mu       sync.Mutex // protects all below
	answers  []tailAnswer
	polls    int
	pollTook time.Duration
	failed   error
}

// ramp sends requests at a growing rate, each from a client drawn at random, and waits for all.
func (x *tailTier) ramp(t *testing.T, s *tailScheme, length time.Duration, seed uint64) tailRun {
	t.Helper()
	r := &rampRun{tailTier: x, scheme: s, ctx: t.Context(), began: time.Now()}
	for i := range uint64(tailClients) {
		c := &tailClient{random: rand.New(rand.NewPCG(seed, i))}
		client := balance.NewClient(s.chooser, len(x.hosts))
		for m := range tailModels {
			c.known[m] = client.Knowledge(x.replicas(s, m))
		}
		r.clients = append(r.clients, c)
	}
	random := rand.New(rand.NewPCG(seed, 1<<32))
	var under sync.WaitGroup
	due := time.Duration(0)
	for {
		due += time.Duration(random.ExpFloat64() / (loadAt(due, length) * x.capacity()) * float64(time.Second))
		if due >= length {
			break
		}
		client, model, at := r.clients[random.IntN(tailClients)], random.IntN(len(tailModels)), due
		time.Sleep(at - time.Since(r.began))
		under.Go(func() { r.request(client, model, at) })
	}
	under.Wait()
	if r.failed != nil {
		t.Error(r.failed)
	}
	out := tailRun{polls: float64(r.polls) / float64(max(1, len(r.answers))), pollTook: r.pollTook / time.Duration(max(1, r.polls))}
	out.carried, out.p99 = judgeRamp(r.answers, length, x.timeout())
	time.Sleep(x.timeout()) // the next begins with idle processes
	return out
}

// replicas describes those of a model.
func (x *tailTier) replicas(s *tailScheme, model int) *balance.Replicas {
	of := &balance.Replicas{Hosts: s.placed[model], Mean: x.cost[model]}
	for _, h := range of.Hosts {
		of.Power = append(of.Power, tailCores[h])
	}
	return of
}

// request is one of the client's, due at a time.
func (r *rampRun) request(c *tailClient, model int, due time.Duration) {
	replica := r.choose(c, model)
	host := &r.hosts[r.scheme.placed[model][replica]]
	l, err := host.ask(r.ctx, tailBody(model))
	now := time.Since(r.began)
	c.mu.Lock()
	k := c.known[model]
	k.Own[replica]--
	if err == nil {
		k.Hear(replica, counters(l), balance.WithAnswer, now)
		k.Answered(replica, now-due, now)
	}
	c.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = append(r.answers, tailAnswer{due, now - due})
	if err != nil && r.failed == nil {
		r.failed = err
	}
}

// choose asks the replicas that the client wants to hear, and returns the one that it chooses.
func (r *rampRun) choose(c *tailClient, model int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.known[model]
	var polled []int
	for {
		asked := len(polled)
		polled = r.scheme.chooser.Polled(k, time.Since(r.began), c.random, polled)
		if len(polled) == asked {
			break
		}
		r.poll(k, model, polled[asked:])
	}
	replica := r.scheme.chooser.Choose(k, polled, time.Since(r.began), c.random)
	k.Own[replica]++
	return replica
}

// poll asks replicas at once. Of one that does not answer the client keeps what it knew.
func (r *rampRun) poll(k *balance.Knowledge, model int, replicas []int) {
	began := time.Now()
	found := make([]*signals.Load, len(replicas))
	var all sync.WaitGroup
	for n, i := range replicas {
		all.Go(func() {
			if l, err := r.hosts[r.scheme.placed[model][i]].poll(r.ctx, model); err == nil {
				found[n] = &l
			}
		})
	}
	all.Wait()
	now := time.Since(r.began)
	for n, i := range replicas {
		if found[n] != nil {
			k.Hear(i, counters(*found[n]), balance.Polled, now)
		}
	}
	r.mu.Lock()
	r.polls += len(replicas)
	r.pollTook += time.Since(began) * time.Duration(len(replicas))
	r.mu.Unlock()
}

// counters are those of a load.
func counters(l signals.Load) signals.Counters {
	return signals.Counters{
		Model: int(max(0, l.Requests)), Host: int(max(0, l.Host)), Cores: l.Cores,
		Work: time.Duration(max(0, l.Work) * float64(time.Second)), Use: max(0, l.Utilization), Rate: max(0, l.Rate),
	}
}

// simulate plays a ramp of the scheme in the simulator, with the costs that were measured.
func (x *tailTier) simulate(t *testing.T, s *tailScheme, pollTakes, length time.Duration, seed uint64) tailRun {
	t.Helper()
	c := clients.Config{
		Clients: tailClients, Chooser: s.chooser, PollTakes: pollTakes, PollWork: tailPoll, Timeout: x.timeout(), Length: length, Seed: seed, Turns: true,
		RateAt: func(now time.Duration) float64 { return loadAt(min(now, length), length) * x.capacity() }, Period: time.Second,
	}
	for _, cores := range tailCores {
		c.Hosts = append(c.Hosts, fleet.Host{Compute: cores})
	}
	for i := range tailModels {
		c.Models = append(c.Models, clients.Demand{Model: fleet.Model{Name: tailModels[i].Name}, Share: 1, Mean: x.cost[i], Work: func(*rand.Rand) time.Duration { return x.cost[i] }, Replicas: s.placed[i]})
	}
	result, err := clients.Run(&c)
	if err != nil {
		t.Fatal(err)
	}
	out := tailRun{carried: tailFrom}
	requests, late := 0, 0
	for _, m := range result.Series {
		if requests, late = requests+m.Requests, late+m.Timeouts; float64(late) <= tailMost*float64(requests) && m.At <= length {
			out.carried = loadAt(m.At, length)
		}
	}
	return out
}

// The load that a ramp carries is where too many of the requests so far were late.
func TestJudgeRamp(t *testing.T) {
	var answers []tailAnswer
	for n := range 1000 {
		took := 10 * time.Millisecond
		if n >= 500 {
			took = time.Second
		}
		answers = append(answers, tailAnswer{time.Duration(n) * time.Millisecond, took})
	}
	carried, p99 := judgeRamp(answers, time.Second, 100*time.Millisecond)
	// Nothing is known to be carried from .5 s on: the answers to what began then come after the ramp.
	if want := loadAt(509*time.Millisecond, time.Second); carried != want || p99 != 10*time.Millisecond {
		t.Errorf("carried %v, want %v; p99 %v, want 10ms", carried, want, p99)
	}
	for i := range answers {
		if answers[i].took > 100*time.Millisecond {
			answers[i].took = 110 * time.Millisecond
		}
	}
	if carried, _ = judgeRamp(answers, time.Second, 100*time.Millisecond); carried < loadAt(550*time.Millisecond, time.Second) || carried > loadAt(650*time.Millisecond, time.Second) {
		t.Errorf("late answers from .5 s on: carried %v", carried)
	}
}
