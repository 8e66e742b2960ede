package env

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gearshift/env/engine"
	"gearshift/router/control"
	"gearshift/router/fleet"
)

// Outcome is the end of one request.
type Outcome struct {
	// Decision numbers the request's routing decision from 0 since the reset.
	Decision     int
	Request      fleet.Request
	Variant      int
	Replica      int
	OutputTokens int
	FirstToken   time.Duration // when it came; likewise Finished
	Finished     time.Duration
	Utility      float64
	// Marginal is by how much the request changed what all on its host would earn if no
	// other came ([Config.Marginal]): its own utility, less what it took from the others.
	Marginal float64
	Met      bool // its deadlines held
	// Failed is whether its host was lost before the end. FirstToken, where
	// there was none, and Finished are then the moment of the loss.
	Failed bool
	// Waited is from its arrival to its decision, or to its refusal. It is zero but as
	// served ([Config.AsServed]), and so are the others below.
	Waited time.Duration
	// Degraded is whether the gate had another variant answer it than was chosen.
	Degraded bool
	// Refused is why it was not begun, as router.Refused has it; empty of all others. It
	// had no decision (−1), variant or replica; Finished is then the moment of its refusal.
	Refused string
}

// Latency is the mean time per output token, queueing included (LBE-4); of an answer
// without output tokens, the whole.
func (o *Outcome) Latency() time.Duration { return o.Took().PerToken }

// Took is how long the answer took.
func (o *Outcome) Took() fleet.Times {
	return fleet.Took(o.FirstToken-o.Request.Arrival, o.Finished-o.Request.Arrival, o.OutputTokens)
}

// sent is when the request was sent to its replica.
func (o *Outcome) sent() time.Duration { return o.Request.Arrival + o.Waited }

// Deadlines are those that hold for the answer of a request of the task.
func (o *Outcome) Deadlines(t *fleet.Task) fleet.Deadlines {
	return t.Deadlines(&o.Request).Of(o.OutputTokens)
}

// Simulator advances the engines of all hosts, one event per engine iteration, and
// between them what is on the agenda.
type Simulator struct {
	table *fleet.Table
	hosts []*engine.Host
	order hostHeap
	place []place // by replica
	kinds [][]int // of the tasks' input, by replica and task; nil where its engine has none
	now   time.Duration
	jobs  []job // by sequence ID; slots are reused
	free  []uint64
	event []engine.Event
	check bool
	began int
	ended int

	pace    *pace    // may be nil
	outlook *outlook // may be nil
	crew    *crew    // may be nil

	agenda   agenda
	losses   []HostLoss // in the order in which they begin; read-only
	nextLoss int
	// ledgers are those of all routers, which show what is up; empty where nobody routes.
	ledgers []*fleet.Ledger

	controllers  *control.Set // nil where nobody controls
	fault        error        // what a controller could not do
	evidence     Evidence
	stands       []stand         // by replica
	loads, wakes []time.Duration // by replica, what these take; read-only
	breaking     int             // requests that have broken, and not ended yet
	reached      time.Duration   // how far the engines have got
}

// place is where a replica's engine is.
type place struct{ host, engine int }

// job is a request on an engine.
type job struct {
	outcome Outcome
	lease   fleet.Lease
	refused bool // by a replica that nobody is at
}

// NewSimulator makes idle engines for every replica of the configuration.
func NewSimulator(c *Config) (*Simulator, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Simulator{table: c.Table, place: make([]place, len(c.Table.Replicas)), check: c.Check, outlook: newOutlook(c), losses: byStart(c.Losses)}
	for h := range c.Table.Hosts {
		var engines []*engine.Engine
		for _, r := range c.Table.ReplicasOn(h) {
			e, err := engine.New(c.Engine, c.Profiles[r], c.KVTokens[r])
			if err != nil {
				return nil, fmt.Errorf("replica %s: %w", c.Table.Replicas[r].Name, err)
			}
			s.place[r] = place{h, len(engines)}
			engines = append(engines, e)
		}
		s.hosts = append(s.hosts, engine.NewHost(engines...))
	}
	s.kinds = c.kinds()
	s.order = newHostHeap(s.hosts)
	s.stands, s.evidence = make([]stand, len(c.Table.Replicas)), c.Evidence
	for i, r := range c.Table.Replicas {
		if s.stands[i].is = r.Initial; c.Initial != nil {
			s.stands[i].is = c.Initial[i]
		}
	}
	s.loads, s.wakes = c.actionTimes()
	for i, l := range s.losses {
		s.agenda.add(item{at: l.From, what: hostLost, index: i})
	}
	return s, nil
}

// Now is the time of the last event or arrival.
func (s *Simulator) Now() time.Duration { return s.now }

// Host is the simulated host of that index in the table.
func (s *Simulator) Host(i int) *engine.Host { return s.hosts[i] }

// Slowdown is how many times as long as the profiles say steps take that begin now, in
// the mean over the hosts.
func (s *Simulator) Slowdown() float64 {
	var sum float64
	for _, h := range s.hosts {
		sum += h.Slowdown(s.now)
	}
	return sum / float64(len(s.hosts))
}

// Held is the number of tokens that the requests on a replica hold there; see
// [fleet.View].
func (s *Simulator) Held(replica int) int {
	return s.engineOf(replica).Held()
}

// Each calls f for each request that is not ended, with its decision's number
// and the tokens that it has generated.
func (s *Simulator) Each(f func(decision, generated int)) {
	s.each(func(o *Outcome, generated int) { f(o.Decision, generated) })
}

// InFlight is the number of requests submitted and not ended.
func (s *Simulator) InFlight() int { return s.began - s.ended }

// Submit starts a request on a replica at time now, which must not lie before
// an event already processed. The simulator ends the lease with the request;
// on error the lease stays the caller's.
func (s *Simulator) Submit(decision int, r fleet.Request, outputTokens, replica int, lease fleet.Lease, now time.Duration) error {
	if now < s.now {
		return fmt.Errorf("request at %v lies before %v, where the simulation is", now, s.now)
	}
	p := s.place[replica]
	// An answer without output tokens is there when its prompt has been computed.
	q := engine.Sequence{PromptTokens: max(1, r.PromptTokens), OutputTokens: max(1, outputTokens)}
	if !s.hosts[p.host].Engine(p.engine).Fits(q) {
		return fmt.Errorf("request of %d prompt and %d output tokens can never fit the KV cache of replica %s",
			q.PromptTokens, q.OutputTokens, s.table.Replicas[replica].Name)
	}
	if n := len(s.free); n > 0 {
		q.ID, s.free = s.free[n-1], s.free[:n-1]
	} else {
		q.ID = uint64(len(s.jobs))
		s.jobs = append(s.jobs, job{})
	}
	if kinds := s.kinds[replica]; kinds != nil {
		q.Kind = kinds[r.Task]
	}
	s.jobs[q.ID] = job{
		lease: lease,
		outcome: Outcome{
			Decision: decision, Request: r, OutputTokens: outputTokens,
			Variant: s.table.Replicas[replica].Variant, Replica: replica, Waited: now - r.Arrival,
		},
	}
	s.now = now
	s.began++
	if s.unreachable(replica, now) {
		s.refuse(q.ID, replica, now)
		return nil
	}
	s.hosts[p.host].Submit(p.engine, q, now)
	s.outlook.begin(s, p.host, &s.jobs[q.ID].outcome)
	s.order.fix(p.host)
	return nil
}

// lostRequests is the error of requests that nothing will end.
func (s *Simulator) lostRequests() error {
	return fmt.Errorf("simulator lost requests: %d began, %d ended", s.began, s.ended)
}

// runEngines processes what the engines do up to and including time until.
func (s *Simulator) runEngines(until time.Duration, dst []Outcome) ([]Outcome, error) {
	before := len(dst)
	for at, ok := s.order.first(); ok && at <= until; at, ok = s.order.first() {
		var err error
		if dst, err = s.run(s.order.top(), until, dst); err != nil {
			return dst, err
		}
	}
	if until < idle-1 {
		s.reached = max(s.reached, until)
	}
	s.sort(dst[before:])
	s.tellAnswers(dst[before:])
	return dst, nil
}

// sort puts the outcomes of hosts that have run one after the other in order of the
// ends, and then of the hosts.
func (s *Simulator) sort(outcomes []Outcome) {
	if len(outcomes) < 2 {
		return
	}
	slices.SortStableFunc(outcomes, func(a, b Outcome) int {
		return cmp.Or(cmp.Compare(a.Finished, b.Finished), cmp.Compare(s.place[a.Replica].host, s.place[b.Replica].host))
	})
}

// run processes one host's events up to and including time until. Hosts meet only
// where requests arrive, so each goes there by itself, which spares the heap; an
// observer is shown one event at a time, across the hosts.
func (s *Simulator) run(h int, until time.Duration, dst []Outcome) ([]Outcome, error) {
	host, last := s.hosts[h], s.now
	for at, ok := host.Next(); ok && at <= until; at, ok = host.Next() {
		if s.check && at < last {
			return dst, fmt.Errorf("time runs back from %v to %v", last, at)
		}
		last = at
		s.event = host.Step(s.event[:0])
		for _, e := range s.event {
			if e.Kind == engine.FirstToken {
				s.jobs[e.ID].outcome.FirstToken = e.At
				s.pace.first(e.ID, &s.jobs[e.ID].outcome)
				continue
			}
			o, err := s.end(e)
			if err != nil {
				return dst, err
			}
			dst = append(dst, o)
		}
		s.pace.advance(s, h, at)
		if s.check {
			if err := s.checkHost(h); err != nil {
				return dst, err
			}
		}
		if host.Observe != nil {
			break
		}
	}
	s.order.fix(h)
	return dst, nil
}

func (s *Simulator) end(e engine.Event) (Outcome, error) {
	j := &s.jobs[e.ID]
	if !j.lease.End() {
		return Outcome{}, fmt.Errorf("decision %d ended twice", j.outcome.Decision)
	}
	s.ended++
	s.free = append(s.free, e.ID)
	o := &j.outcome
	o.Finished = e.At
	s.pace.last(e.ID, o)
	o.Utility = s.utility(o)
	task := &s.table.Tasks[o.Request.Task]
	j.lease.Settle(task.Shortfall(o.Utility))
	o.Met = o.Deadlines(task).Met(o.Took())
	s.outlook.end(s.place[o.Replica].host, o.Utility)
	return *o, nil
}

func (s *Simulator) utility(o *Outcome) float64 {
	task := &s.table.Tasks[o.Request.Task]
	return task.Utility(o.Variant, o.Took(), o.Deadlines(task))
}

func (s *Simulator) checkHost(h int) error {
	for i := range s.table.ReplicasOn(h) {
		if err := s.hosts[h].Engine(i).CheckInvariants(); err != nil {
			return fmt.Errorf("host %s, engine %d at %v: %w", s.table.Hosts[h].Name, i, s.now, err)
		}
	}
	return nil
}
