package offload

import (
	"math"
	"slices"
)

// Stream is a streaming client as the schedule of its server knows it. The driver of the schedule sets
// the fields up to Of.
type Stream struct {
	SLA float64
	// Rate is what is estimated, see [Rate], and Network the time of a frame to the server and of its result back.
	Rate, Network float64
	// Phase is when the client has its frame 0, by the server's clock. It has one more with each frame interval.
	Phase    float64
	Arrivals Arrivals
	// Of is the driver's.
	Of any

	// Host is that of a [Fleet] which serves the stream, or is to; nil: none. Silent has it not be served, whatever room
	// there is.
	Host   *ScheduledHost
	Silent bool

	Served  bool
	Since   float64 // when it began to be served, or was evicted
	Setting Setting

	tried float64 // when a plan had no room for it

	last    int    // the newest frame that it is to send
	results int    // of which its rate is an estimate, since it is served
	done    int    // the newest of which the batch has begun
	book    Client // what it has gained by batches that have begun
	next    Client // and by those that will in any case
}

// Newest returns the newest frame that the client has then.
func (c *Stream) Newest(at float64) int { return int(math.Floor(at - c.Phase + Same)) }

// Captured returns when the client has the frame.
func (c *Stream) Captured(frame int) float64 { return float64(frame) + c.Phase }

// Serve begins or ends to serve the client. What it has sent before was for another server.
func (c *Stream) Serve(served bool, now float64) {
	if c.Served == served {
		return
	}
	c.Served, c.Since, c.results = served, now, 0
	if served {
		c.last, c.done = c.Newest(now), c.Newest(now)
		c.book, c.next = Client{}, Client{}
	}
}

// Sent notes that the client sends a frame by itself.
func (c *Stream) Sent(frame int) { c.last = frame }

// Frame is one that a client is to send.
type Frame struct {
	Stream *Stream
	Number int
	Model  int // that answers it
	// Void says that it is not to be sent any more.
	Void bool
	// Arrived is when it has; negative before.
	Arrived float64
	// Of is the driver's.
	Of any

	planned *Scheduled
}

// Start returns when the batch of the frame is to begin.
func (f *Frame) Start() float64 { return f.planned.Start }

// Scheduled is a batch of a schedule.
type Scheduled struct {
	Start  float64
	Frames []*Frame
	Model  int

	takes   float64
	planned float64 // its first Start
}

// Schedule holds what a server runs: batches that are planned again and again from behind what its clients are about to
// send (ARISE-9). The simulator and a router drive it alike.
type Schedule struct {
	Planner
	// Margin is by how much more than estimated clients are taken to lose, relative to it. By deadlines it is that of
	// clients of which much is known, see [Schedule.Learn].
	Margin float64
	// Weight is how much one result counts in an estimate at least; 0 has margins not depend on how many there were.
	Weight float64
	// Horizon bounds how far plans go.
	Horizon float64
	// Until tells when the running batch ends, where the driver knows that; what is planned begins after it.
	Until float64
	// Fixed is what all clients have in place of what suits them; a part of 0 is what suits them.
	Fixed Setting
	reacting

	batches []*Scheduled // in order
	late    []*Frame     // that missed their batches
	stood   float64      // when its server has stood still last, or got the clients of another
	list    []Client
	of      []*Stream
}

// AtOnce counts those that wait which a plan looks at.
const AtOnce = 4

// Candidates lists what is known of the streams that are served, and of some that wait. Those that were evicted less
// than rest ago do not wait yet.
func (s *Schedule) Candidates(streams []*Stream, now, rest float64) ([]Client, []*Stream) {
	s.list, s.of = s.list[:0], s.of[:0]
	add := func(c *Stream) { s.list, s.of = append(s.list, s.Known(c)), append(s.of, c) }
	for _, c := range streams {
		if c.Served {
			add(c)
		}
	}
	n := 0
	for _, c := range streams {
		if n < AtOnce && !c.Served && (c.Since == 0 || now-c.Since > rest+Same) {
			c.last, c.done = c.Newest(now), c.Newest(now)
			add(c)
			n++
		}
	}
	return s.list, s.of
}

// Known returns what a plan knows of a stream.
func (s *Schedule) Known(c *Stream) Client {
	x := Client{SLA: c.SLA, Rate: c.Rate * (1 + s.margin(c)), Network: c.Network, Last: c.last, Waiting: !c.Served, Given: s.Fixed}
	if c.Served {
		x.Ready, x.Model, x.Began, x.Lost = c.next.Ready, c.next.Model, c.next.Began, c.next.Lost
	}
	x.Arrival = c.Captured(c.last) + c.Network/2
	if at, ok := c.Arrivals.Predict(c.last); ok {
		x.Arrival, x.Late = at, 2*c.Arrivals.Spread()
	}
	return x
}

// before is how many results the estimate counts as with which a client comes: it is another server's, or old.
const before = 0.5

// Learning is how much one result counts in an estimate by deadlines.
const Learning = 0.2

// Answered notes that the estimate of the client's rate follows one more result.
func (c *Stream) Answered() { c.results++ }

// Learn takes in what a result says of the rate at which a client loses accuracy. What it came with and its first
// results count alike; then the latest count most.
func (s *Schedule) Learn(c *Stream, rate float64) {
	c.Answered()
	c.Rate += (rate - c.Rate) * max(s.Weight, 1/(float64(c.results)+before))
}

// margin returns the margin of a client. It follows the error of the estimate, which falls with the root of the results
// that it is a mean of.
func (s *Schedule) margin(c *Stream) float64 {
	if s.Weight == 0 || s.Policy != Gearshift {
		return s.Margin
	}
	return s.Margin * math.Sqrt(max(1, 1/(s.Weight*(float64(c.results)+before))))
}

// Replan replaces the schedule from behind what is about to be sent, and decides who of the streams is served. It
// returns the batches that are new, with the frames that are to be sent for them, and the streams that are served from
// now on, or no longer. A stream that was evicted waits for rest until it may be served again. The next call overwrites
// the list of batches.
func (s *Schedule) Replan(streams []*Stream, now, rest float64) (added []*Scheduled, changed []*Stream) {
	lead := 1.5
	for _, c := range streams {
		lead = max(lead, c.Network+1.5)
	}
	if s.Policy == Alpha {
		s.settle(streams, now, lead)
		changed = s.Admit(streams, now, rest)
		return s.ask(streams, now), changed
	}
	free, kept := max(s.Until, now), 0
	start := max(now+lead, free)
	for kept < len(s.batches) && s.batches[kept].Start < now+lead {
		p := s.batches[kept]
		if s.Until > 0 {
			p.Start = max(p.Start, free)
		}
		start = p.Start + (1+s.Grace)*p.takes
		free = start
		kept++
	}
	for _, p := range s.batches[kept:] {
		p.void()
	}
	s.batches = s.batches[:kept]
	for _, c := range streams { // the newest frame that is sent in any case
		c.last, c.next = c.done, c.book
	}
	for _, p := range s.batches {
		for _, f := range p.Frames {
			if !f.Void {
				f.Stream.last = max(f.Stream.last, f.Number)
				s.note(f.Stream, &f.Stream.next, f.Number, p.Start, p.takes, p.Model)
			}
		}
	}
	list, of := s.Candidates(streams, now, rest)
	s.stalled = s.stands(now)
	s.lenient = true
	batches, admitted := s.Plan(list, start, s.Horizon)
	for i, c := range of {
		if in := slices.Contains(admitted, i); c.Served != in {
			c.Serve(in, now)
			changed = append(changed, c)
		}
		c.Setting = s.settings[i]
	}
	for _, b := range batches {
		p := &Scheduled{Start: b.Start, planned: b.Start, Model: b.Model, takes: s.Took(b.Model, len(b.Requests))}
		for _, x := range b.Requests {
			c := of[x.Client]
			p.Frames = append(p.Frames, &Frame{Stream: c, Number: x.Frame, Arrived: -1, planned: p})
			c.last = max(c.last, x.Frame)
		}
		s.batches = append(s.batches, p)
	}
	return s.batches[kept:], changed
}

// stands reports whether the server stands still, or has done so in the last second: a batch begins more than overdue
// later than planned.
func (s *Schedule) stands(now float64) bool {
	if len(s.batches) > 0 && now-s.batches[0].planned > overdue {
		s.stood = now
	}
	return s.stood > 0 && now-s.stood < float64(s.Longest)
}

// void has the frames of a batch not be sent.
func (p *Scheduled) void() {
	for _, f := range p.Frames {
		f.Void = true
	}
}

// Forget drops all that is planned.
func (s *Schedule) Forget() {
	for _, p := range s.batches {
		p.void()
	}
	s.batches, s.late, s.arrived = nil, nil, nil
}

// Drop drops what is planned for a stream that has gone.
func (s *Schedule) Drop(c *Stream) {
	own := func(f *Frame) bool { return f.Stream == c }
	s.late, s.arrived = slices.DeleteFunc(s.late, own), slices.DeleteFunc(s.arrived, own)
	if s.Policy == Alpha {
		s.batches = slices.DeleteFunc(s.batches, func(p *Scheduled) bool { return own(p.Frames[0]) })
	}
	for _, p := range s.batches {
		p.Frames = slices.DeleteFunc(p.Frames, func(f *Frame) bool { return f.Stream == c })
	}
}

// Arrive notes that a frame has arrived. One that missed its batch is run with the next, if clients are served by
// deadlines, and else is not run.
func (s *Schedule) Arrive(f *Frame, now float64) (missed bool) {
	f.Arrived = now
	f.Stream.Arrivals.Add(f.Number, now)
	if s.Policy == Alpha {
		s.arrived = append(s.arrived, f)
		return false
	}
	if missed = !slices.Contains(s.batches, f.planned); missed && s.Policy == Gearshift {
		s.late = append(s.late, f)
	}
	return missed
}

// Next returns the batch that begins now, of frames that have arrived, and how much later than planned it does; without
// frames, when to look again. A batch begins once all of it has arrived, or its grace is over.
func (s *Schedule) Next(now float64) (frames []*Frame, model int, late, again float64) {
	if s.Policy == Alpha {
		return s.react(now), 0, 0, math.Inf(1)
	}
	for len(s.batches) > 0 {
		p := s.batches[0]
		var there []*Frame
		for _, f := range p.Frames {
			if f.Arrived >= 0 {
				there = append(there, f)
			}
		}
		if until := p.Start + s.Grace*p.takes; len(there) < len(p.Frames) && now < until-Same {
			return nil, 0, 0, until
		}
		s.batches = s.batches[1:]
		for _, f := range p.Frames {
			f.Stream.done = max(f.Stream.done, f.Number)
		}
		there = append(there, s.late...) // of whatever model
		s.late = s.late[:0]
		if len(there) == 0 {
			continue
		}
		there = there[:min(len(there), len(s.Latency))]
		if now-p.planned > overdue {
			s.stood = now
		}
		s.Begin(there, p.Model, now)
		return there, p.Model, now - p.planned, 0
	}
	return nil, 0, 0, math.Inf(1)
}

// Begin notes that a batch of a model begins.
func (s *Schedule) Begin(frames []*Frame, model int, now float64) {
	for _, f := range frames {
		f.Model = model
		s.note(f.Stream, &f.Stream.book, f.Number, now, s.Took(model, len(frames)), model)
	}
}

// note notes in a book of the stream's that a frame is in a batch which begins then and takes so long.
func (s *Schedule) note(c *Stream, book *Client, number int, begins, takes float64, model int) {
	x := s.Known(c)
	lag := x.Arrival - float64(x.Last)
	book.SLA, book.Rate, book.Network = x.SLA, x.Rate, x.Network
	s.Server.Serve(book, number, int(math.Ceil(begins-lag+c.Network+takes-Same)), model)
}

// Took returns the time of a batch of a model.
func (s *Server) Took(model, n int) float64 { return s.model(model).Latency[n-1] }
