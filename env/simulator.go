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
	// Marginal is by how much the request changed what all requests on its host would earn
	// if no other came: its own utility, less what it took from the others. It is zero
	// unless [Config.Marginal] is set; by [Config.Difference] later ones count until its end.
	Marginal float64
	Met      bool // its deadlines held
	// Failed is whether its replica was lost or stopped before the end. FirstToken, where
	// there was none, and Finished are then the moment of that.
	Failed bool
	// Waited is the time from its arrival to its decision, or to its refusal. It is zero
	// unless as served ([Config.AsServed]), and so are the fields below.
	Waited time.Duration
	// Degraded is whether the gate gave it to another variant than was chosen.
	Degraded bool
	// Refused is the reason of its refusal, one of the router's Refused constants; empty if
	// it was not refused. A refused request has no decision, variant or replica (−1), and
	// Finished is the moment of its refusal.
	Refused string
}

// Latency returns the mean time per output token, queueing included (LBE-4), or the whole
// time of an answer without output tokens.
func (o *Outcome) Latency() time.Duration { return o.Took().PerToken }

// Took returns how long the answer took.
func (o *Outcome) Took() fleet.Times {
	return fleet.Took(o.FirstToken-o.Request.Arrival, o.Finished-o.Request.Arrival, o.OutputTokens)
}

// sent returns when the request was sent to its replica.
func (o *Outcome) sent() time.Duration { return o.Request.Arrival + o.Waited }

// Deadlines returns the deadlines of the request, which is of the task, for an answer of
// this length.
func (o *Outcome) Deadlines(t *fleet.Task) fleet.Deadlines {
	return t.Deadlines(&o.Request).Of(o.OutputTokens)
}

// Simulator advances the engines of all hosts, one event per engine iteration, and between
// them the items of the agenda.
type Simulator struct {
	table        *fleet.Table
	laws         []Law
	hosts        []*engine.Host // the same, where engines are their law; nil under another
	order        hostHeap
	locations    []location // by replica
	inputKinds   [][]int    // of the tasks' input, by replica and task; nil where its engine has none
	now          time.Duration
	jobs         []job // by sequence ID; slots are reused
	free         []uint64
	event        []engine.Event
	check        bool
	began, ended int
	prompts      *Prompts // may be nil

	drift            *driftFeed                                                     // may be nil
	marginal         *marginalReward                                                // may be nil
	difference       *differenceReward                                              // may be nil
	routers          *routerReplicas                                                // may be nil
	work             func(r fleet.Request, outputTokens, replica int) time.Duration // under other laws than engines'
	follower         Follower                                                       // of requests that no ledger counts, or beside those that are routed; may be nil
	shared           bool                                                           // with requests that are routed, by the follower
	beside, departed int                                                            // its requests under way, and those that have ended
	limit            time.Duration                                                  // until when engines run, unless the follower has something due before
	period           time.Duration                                                  // in which it measures
	source           *Jobs                                                          // may be nil
	batch            []engine.Sequence                                              // of the source, its memory
	paused           bool                                                           // by the source

	agenda   Agenda
	losses   []HostLoss // in the order in which they begin; read-only
	nextLoss int
	// ledgers are those of all routers, into which the simulator writes what is up; empty
	// without routers.
	ledgers []*fleet.Ledger

	controllers  *control.Set // nil without controllers
	watchers     []Watcher    // among them; likewise hiders
	hiders       []Hider
	counters     []Counter
	registrars   []Registrar
	beaten       []time.Duration // by host, when its last heartbeat came
	down         []int           // by host, losses under way
	gone         []bool          // by host: its process is
	fault        error           // that a controller has reported
	evidence     Evidence
	engineStates []engineState   // by replica
	actions      []actionTimes   // by replica; read-only
	loadWork     []time.Duration // by replica, of its host; nil is none; read-only
	breaking     int             // requests that have broken, and not ended yet
	reached      time.Duration   // how far the engines have got
}

// location is where a replica's engine is: its host, and its index among the host's
// engines.
type location struct{ host, engine int }

// job is a request on an engine.
type job struct {
	outcome Outcome
	lease   fleet.Lease
	refused bool // by a replica whose engine does not run or cannot be reached
}

// NewSimulator makes idle engines for every replica of the configuration.
func NewSimulator(c *Config) (*Simulator, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Simulator{table: c.Table, locations: make([]location, len(c.Table.Replicas)), check: c.Check, prompts: c.Prompts, marginal: newMarginalReward(c), difference: newDifferenceReward(c), losses: byStart(c.Losses), loadWork: c.LoadWork, period: c.Period}
	for h := range c.Table.Hosts {
		for i, r := range c.Table.ReplicasOn(h) {
			s.locations[r] = location{h, i}
		}
	}
	if c.Laws != nil {
		s.laws, s.work = c.Laws(), c.Work
	} else if err := s.makeEngines(c); err != nil {
		return nil, err
	}
	s.inputKinds = c.inputKinds()
	s.order = newHostHeap(s.laws)
	s.engineStates, s.evidence, s.beaten = make([]engineState, len(c.Table.Replicas)), c.Evidence, make([]time.Duration, len(s.laws))
	s.down, s.gone = make([]int, len(s.laws)), make([]bool, len(s.laws))
	for i, r := range c.Table.Replicas {
		if s.engineStates[i].is = r.Initial; c.Initial != nil {
			s.engineStates[i].is = c.Initial[i]
		}
		if is := s.engineStates[i].is; is != fleet.Cold {
			s.turn(i, is)
		}
	}
	s.actions = c.actionTimes()
	for i, l := range s.losses {
		s.agenda.Add(Item{At: l.From, Kind: hostLost, Index: i})
	}
	return s, nil
}

// makeEngines makes hosts whose replicas have an engine each.
func (s *Simulator) makeEngines(c *Config) error {
	for h := range c.Table.Hosts {
		var engines []*engine.Engine
		for _, r := range c.Table.ReplicasOn(h) {
			e, err := engine.New(c.Engine, c.Profiles[r], c.KVTokens[r])
			if err != nil {
				return fmt.Errorf("replica %s: %w", c.Table.Replicas[r].Name, err)
			}
			engines = append(engines, e)
		}
		host := engine.NewHost(engines...)
		s.hosts, s.laws = append(s.hosts, host), append(s.laws, host)
	}
	return nil
}

// Now returns the time of the last event or arrival.
func (s *Simulator) Now() time.Duration { return s.now }

// Host returns the simulated host with that index in the table.
func (s *Simulator) Host(i int) *engine.Host { return s.hosts[i] }

// Slowdown returns how many times as long as in the profiles a step takes that begins now,
// as a mean over the hosts.
func (s *Simulator) Slowdown() float64 {
	if s.hosts == nil {
		return 1
	}
	var sum float64
	for _, h := range s.hosts {
		sum += h.Slowdown(s.now)
	}
	return sum / float64(len(s.hosts))
}

// Held returns how many tokens the requests on a replica hold there; see [fleet.View].
func (s *Simulator) Held(replica int) int {
	if s.hosts == nil {
		return 0
	}
	return s.engineOf(replica).Held()
}

// Each calls f for each request that has not ended, with its decision's number and the
// tokens that it has generated.
func (s *Simulator) Each(f func(decision, generated int)) {
	s.each(func(o *Outcome, generated int) { f(o.Decision, generated) })
}

// InFlight returns the number of requests submitted and not ended.
func (s *Simulator) InFlight() int { return s.began - s.ended }

// Submit starts a request on a replica at time now, which must not lie before
// an event already processed. The simulator ends the lease with the request;
// on error the lease stays the caller's.
func (s *Simulator) Submit(decision int, r fleet.Request, outputTokens, replica int, lease fleet.Lease, now time.Duration) error {
	if now < s.now {
		return fmt.Errorf("request at %v lies before %v, where the simulation is", now, s.now)
	}
	p := s.locations[replica]
	// An answer without output tokens is there when its prompt has been computed.
	q := engine.Sequence{PromptTokens: max(1, r.PromptTokens), OutputTokens: max(1, outputTokens)}
	if s.work != nil {
		q.Work = s.work(r, outputTokens, replica)
		q.Expected, q.Since = q.Work, now
	} else if !s.hosts[p.host].Engine(p.engine).Fits(q) {
		return fmt.Errorf("request of %d prompt and %d output tokens can never fit the KV cache of replica %s",
			q.PromptTokens, q.OutputTokens, s.table.Replicas[replica].Name)
	}
	if n := len(s.free); n > 0 && s.difference == nil { // of which a sequence may end later
		q.ID, s.free = s.free[n-1], s.free[:n-1]
	} else {
		q.ID = uint64(len(s.jobs))
		s.jobs = append(s.jobs, job{})
	}
	if kinds := s.inputKinds[replica]; kinds != nil {
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
	if s.unreachable(replica) {
		s.refuse(q.ID, replica, now)
		return nil
	}
	s.drift.place(q.ID, &s.jobs[q.ID].outcome, now)
	s.difference.begin(s, p, q)
	s.laws[p.host].Submit(p.engine, q, now)
	s.marginal.begin(s, p.host, &s.jobs[q.ID].outcome)
	s.order.fix(p.host)
	return nil
}

// lostRequests returns the error for requests that no event will end, which is a bug of the
// simulator.
func (s *Simulator) lostRequests() error {
	return fmt.Errorf("simulator lost requests: %d began, %d ended", s.began, s.ended)
}

// runEngines processes what the engines do up to and including time until.
func (s *Simulator) runEngines(until time.Duration, dst []Outcome) ([]Outcome, error) {
	if s.follower != nil && !s.shared {
		return dst, s.runSteps(until)
	}
	before := len(dst)
	s.limit = until
	for at, ok := s.order.first(); ok && at <= s.limit && !s.paused; at, ok = s.order.first() {
		var err error
		if dst, err = s.run(s.order.top(), until, dst); err != nil {
			return dst, err
		}
	}
	if until = s.limit; until < idle-1 {
		s.reached = max(s.reached, until)
	}
	dst = s.source.flush(dst)
	s.sort(dst[before:])
	s.observeAnswers(dst[before:])
	return dst, nil
}

// sort orders outcomes by their ends, and at equal times by their hosts. The hosts have run
// one after the other, so the outcomes come host by host.
func (s *Simulator) sort(outcomes []Outcome) {
	if len(outcomes) < 2 {
		return
	}
	slices.SortStableFunc(outcomes, func(a, b Outcome) int {
		return cmp.Or(cmp.Compare(a.Finished, b.Finished), cmp.Compare(s.hostOf(&a), s.hostOf(&b)))
	})
}

// hostOf returns the host of an outcome; −1 of a request that was refused.
func (s *Simulator) hostOf(o *Outcome) int {
	if o.Replica < 0 {
		return -1
	}
	return s.locations[o.Replica].host
}

// run processes one host's events up to and including time until. Hosts affect one another
// only through arrivals, so each runs to the next one by itself, which spares the heap. With
// an observer it processes a single event, so that the observer sees events in order across
// the hosts; so it does with jobs and a follower, whose next batch may be another host's.
func (s *Simulator) run(h int, until time.Duration, dst []Outcome) ([]Outcome, error) {
	host, last := s.laws[h], s.now
	observed := s.source != nil || s.shared || s.hosts != nil && s.hosts[h].Observe != nil
	alone := s.hosts != nil && !observed && !s.check && s.drift == nil && s.marginal == nil && s.difference == nil // nobody looks at it between its events
	for at, ok := host.Next(); ok && at <= until; at, ok = host.Next() {
		if s.check && at < last {
			return dst, fmt.Errorf("time runs back from %v to %v", last, at)
		}
		last = at
		if alone {
			s.event = s.hosts[h].Run(until, s.event[:0])
		} else {
			s.event = host.Step(s.event[:0])
		}
		for _, e := range s.event {
			if e.ID&ofJobs != 0 {
				if e.Kind == engine.Finished {
					s.endJob(e.ID, e.At, false)
				}
				continue
			}
			if s.besides(e.ID) {
				if e.Kind == engine.Finished {
					s.left(e.ID)
					if err := s.follower.Ended(e.ID, e.At); err != nil {
						return dst, err
					}
				}
				continue
			}
			if e.Kind == engine.FirstToken {
				s.jobs[e.ID].outcome.FirstToken = e.At
				s.drift.first(e.ID, &s.jobs[e.ID].outcome)
				continue
			}
			o, err := s.end(e)
			if err != nil {
				return dst, err
			}
			dst = append(dst, o)
		}
		s.drift.advance(s, h, at)
		if s.check {
			if err := s.checkHost(h); err != nil {
				return dst, err
			}
		}
		if observed {
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
	if o.Finished = e.At; o.FirstToken == 0 { // under a law without tokens
		o.FirstToken = e.At
	}
	s.drift.last(e.ID, o)
	o.Utility = s.utility(o)
	task := &s.table.Tasks[o.Request.Task]
	j.lease.Settle(task.Shortfall(s.routed(o)))
	o.Met = o.Deadlines(task).Met(o.Took())
	s.marginal.end(s.locations[o.Replica].host, o.Utility)
	s.difference.end(s, s.locations[o.Replica].host, e.ID, o)
	return *o, nil
}

func (s *Simulator) checkHost(h int) error {
	if s.hosts == nil {
		return nil
	}
	for i := range s.table.ReplicasOn(h) {
		if err := s.hosts[h].Engine(i).CheckInvariants(); err != nil {
			return fmt.Errorf("host %s, engine %d at %v: %w", s.table.Hosts[h].Name, i, s.now, err)
		}
	}
	return nil
}
