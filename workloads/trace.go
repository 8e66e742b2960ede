package workloads

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"gearshift/router/fleet"
	"gearshift/workloads/traces"
)

// Record is one request of a trace.
type Record = traces.Record

// Trace is requests that were recorded, as a [Process]: the same arrivals every
// time, whose true rate is unknown. Read-only once read.
type Trace traces.Trace

// MeanRate implements [Process]: gaps by the time from the first arrival to the
// last, or 0 where that is no time.
func (t *Trace) MeanRate() float64 {
	span := t.Records[len(t.Records)-1].At - t.Records[0].At
	if span <= 0 {
		return 0
	}
	return float64(len(t.Records)-1) / span.Seconds()
}

// IDC implements [Process]. Of a trace it can only be measured; see [Measure].
func (t *Trace) IDC(time.Duration) (float64, bool) { return 0, false }

// Times implements [Process]; it draws nothing.
func (t *Trace) Times(*rand.Rand) Times {
	rest := t.Records
	return func() (time.Duration, float64, bool) {
		if len(rest) == 0 {
			return 0, 0, false
		}
		at := rest[0].At
		rest = rest[1:]
		return at, 0, true
	}
}

// Rescaled returns the trace with all times stretched by one factor, so that the mean
// rate becomes the one given, per second. The shape of bursts stays, in units of
// the mean gap; their speed does not, so say so next to a result.
func (t *Trace) Rescaled(rate float64) (*Trace, error) {
	if err := checkRate(rate); err != nil {
		return nil, fmt.Errorf("cannot rescale trace %q: %w", t.Name, err)
	}
	mean := t.MeanRate()
	if len(t.Records) == 1 {
		return nil, fmt.Errorf("cannot rescale trace %q: of one request alone there is no rate; take two or more, or no rate", t.Name)
	}
	if mean == 0 {
		return nil, fmt.Errorf("cannot rescale trace %q: all its requests arrive at once", t.Name)
	}
	factor := mean / rate
	if float64(t.Records[len(t.Records)-1].At)*factor >= float64(Forever) {
		return nil, fmt.Errorf("cannot rescale trace %q to %v requests per second: it would last centuries", t.Name, rate)
	}
	return t.mapped(func(r *Record) {
		r.At = time.Duration(math.Round(float64(r.At) * factor))
	}), nil
}

// Fitting returns the trace with every request cut to what fits; see [Fit].
func (t *Trace) Fitting(tokens int) *Trace {
	return t.mapped(func(r *Record) {
		r.PromptTokens, r.OutputTokens = Fit(r.PromptTokens, r.OutputTokens, tokens)
	})
}

// Fit cuts a prompt and its output to so many tokens together: the output as far as
// needed, but not below half of them, then the prompt. Zero is no bound.
func Fit(prompt, output, tokens int) (int, int) {
	if tokens > 0 {
		output = min(output, max(tokens/2, tokens-prompt))
		prompt = min(prompt, tokens-output)
	}
	return prompt, output
}

func (t *Trace) mapped(f func(*Record)) *Trace {
	records := append([]Record(nil), t.Records...)
	for i := range records {
		f(&records[i])
	}
	return &Trace{Name: t.Name, Records: records, Skipped: t.Skipped}
}

// Open returns the trace as a stream. A task that a record names is kept; the others
// are drawn from the mix. Token counts are drawn from the shape, or with lengths
// set are the trace's own. The error names every fault of the shape, or the
// first record whose task the fleet does not have.
func (t *Trace) Open(tasks []fleet.Task, shape Shape, lengths bool, seed uint64) (Stream, error) {
	r, err := t.Recorded(tasks, lengths)
	if err != nil {
		return nil, err
	}
	return r.Open(tasks, shape, seed)
}

// Recorded returns the trace's requests. Those whose task the trace names have it. The error
// names the first record whose task the fleet does not have.
func (t *Trace) Recorded(tasks []fleet.Task, lengths bool) (Recorded, error) {
	index := map[string]int{"": -1}
	for i, task := range tasks {
		index[task.Name] = i
	}
	r := make(Recorded, len(t.Records))
	for i := range t.Records {
		record := &t.Records[i]
		task, ok := index[record.Task]
		if !ok {
			return nil, fmt.Errorf("%s:%d: column task: %q is not a task of this fleet; one of %s would be right",
				t.Name, record.Line, record.Task, strings.Join(taskNames(tasks), ", "))
		}
		r[i] = Arrival{At: record.At, Task: task}
		if lengths {
			r[i].PromptTokens, r[i].OutputTokens = record.PromptTokens, record.OutputTokens
		}
	}
	return r, nil
}

// Recorded lists requests in order of time, at least one. A task below zero and lengths of zero tokens are
// unknown: streams draw them.
type Recorded []Arrival

// Open returns the requests as a stream. What is not known of them is drawn under the seed.
func (r Recorded) Open(tasks []fleet.Task, shape Shape, seed uint64) (Stream, error) {
	drawn, err := newGenerator(tasks, shape, seed)
	if err != nil {
		return nil, err
	}
	rest := r
	return &replay{drawn: drawn, next: func() (*Arrival, time.Duration) {
		if len(rest) == 0 {
			return nil, 0
		}
		a := &rest[0]
		rest = rest[1:]
		return a, a.At
	}}, nil
}

// replay draws requests, and replaces what is known by the recorded values.
type replay struct {
	drawn *generator
	next  func() (known *Arrival, at time.Duration) // nil: there are no more
}

// Next implements [Stream].
func (r *replay) Next() (Arrival, bool) {
	known, at := r.next()
	if known == nil {
		return Arrival{}, false
	}
	a := r.drawn.request(known.Task)
	a.At, a.Rate = at, known.Rate
	a.Deadline, a.FirstToken, a.Total = known.Deadline, known.FirstToken, known.Total
	if known.PromptTokens > 0 {
		a.PromptTokens = known.PromptTokens
	}
	if known.OutputTokens > 0 {
		a.OutputTokens = known.OutputTokens
	}
	return a, true
}

// Day is the length of a day of recorded requests, which begins with the first of them.
const Day = 24 * time.Hour

// Split divides the requests before the last share of them. Where they span two days or more, it divides
// them at the end of a day, and the share is of the days, at least one. A part may be empty.
func (r Recorded) Split(share float64) (first, last Recorded) {
	at := len(r) - int(math.Round(share*float64(len(r))))
	if days := int((r.span() + Day - 1) / Day); r.span() >= 2*Day {
		kept := days - min(days-1, max(1, int(math.Round(share*float64(days)))))
		border := r[0].At + time.Duration(kept)*Day
		at, _ = slices.BinarySearchFunc(r, border, func(a Arrival, at time.Duration) int { return cmp.Compare(a.At, at) })
	}
	return r[:at], r[at:]
}

// span returns the time from the first request to the last.
func (r Recorded) span() time.Duration { return r[len(r)-1].At - r[0].At }

// Block returns the requests of one of n blocks of as many requests each, from 0 on. Its time
// begins with its first request.
func (r Recorded) Block(i, n int) Recorded {
	block := slices.Clone(r[i*len(r)/n : (i+1)*len(r)/n])
	if len(block) > 0 {
		for begin, k := block[0].At, 0; k < len(block); k++ {
			block[k].At -= begin
		}
	}
	return block
}

// Rated returns the requests with the rate at which they came, by the twenty nearest.
func (r Recorded) Rated() Recorded {
	const near = 10
	rated := slices.Clone(r)
	for i := range rated {
		from, to := max(0, i-near), min(len(r)-1, i+near)
		rated[i].Rate = float64(to-from) / max(r[to].At-r[from].At, time.Millisecond).Seconds()
	}
	return rated
}

// Bootstrap draws streams from recorded requests: blocks of time that follow each other.
type Bootstrap struct {
	// Block is the mean length of a block: from half of it to half more, all as likely. Each begins
	// at any time of the record, whose end its beginning follows.
	Block time.Duration
	// ScaledShare of the streams are slower or faster by one factor, up to Scale times as fast.
	ScaledShare, Scale float64
}

// Block lengths of [NewBootstrap].
const (
	blockRequests = 250
	leastBlock    = time.Minute
)

// NewBootstrap returns the usual way: blocks in which 250 requests come in the mean, of a minute at
// least and a quarter of the record at most; half of the streams scaled, by up to 1.25.
func NewBootstrap(r Recorded) Bootstrap {
	block := max(leastBlock, time.Duration(blockRequests*float64(r.span())/float64(len(r))))
	return Bootstrap{Block: min(block, r.span()/4), ScaledShare: 0.5, Scale: 1.25}
}

// Open draws an endless stream. The requests must span some time.
func (b Bootstrap) Open(r Recorded, tasks []fleet.Task, shape Shape, seed uint64) (Stream, error) {
	drawn, err := newGenerator(tasks, shape, seed)
	if err != nil {
		return nil, err
	}
	random, speed := source(seed, blockPart), 1.0
	if random.Float64() < b.ScaledShare {
		speed = math.Pow(b.Scale, 2*random.Float64()-1)
	}
	p := &bootstrapped{record: r, block: b.Block, speed: speed, random: random}
	return &replay{drawn: drawn, next: p.next}, nil
}

// bootstrapped is the present block of a stream.
type bootstrapped struct {
	record Recorded
	block  time.Duration
	speed  float64
	random *rand.Rand

	at    int           // of the next request
	shift time.Duration // from its time in the record to that in the stream, before scaling
	ends  time.Duration // of the block in the stream, before scaling
}

// next returns the next request. Where the block has no more, it draws another.
func (b *bootstrapped) next() (*Arrival, time.Duration) {
	for {
		if b.at == len(b.record) { // the beginning of the record follows its end
			b.at = 0
			b.shift += b.around()
		}
		a := &b.record[b.at]
		if at := a.At + b.shift; at < b.ends {
			b.at++
			return a, time.Duration(float64(at) / b.speed)
		}
		b.draw()
	}
}

// around returns the time of the record, with a mean gap before it begins again.
func (b *bootstrapped) around() time.Duration {
	span := b.record.span()
	return span + max(1, span/time.Duration(len(b.record)))
}

// draw begins a block where the last one has ended.
func (b *bootstrapped) draw() {
	from := b.record[0].At + time.Duration(b.random.Int64N(int64(b.around())))
	b.at, _ = slices.BinarySearchFunc(b.record, from, func(a Arrival, at time.Duration) int { return cmp.Compare(a.At, at) })
	b.shift = b.ends - from
	b.ends += b.block/2 + time.Duration(b.random.Int64N(int64(b.block)+1))
}

// WriteTrace writes a stream to its end as JSON lines, the form that
// [traces.Reading.Read] documents, and returns the number of requests. Read back with its
// own lengths, it gives the same stream except for the true rate.
func WriteTrace(w io.Writer, s Stream, tasks []fleet.Task) (int, error) {
	return traces.Write(w, func() (Record, bool) {
		a, ok := s.Next()
		if !ok {
			return Record{}, false
		}
		return Record{At: a.At, Task: tasks[a.Task].Name, PromptTokens: a.PromptTokens, OutputTokens: a.OutputTokens}, true
	})
}
