package workloads

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
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
	drawn, err := newGenerator(t, tasks, shape, seed)
	if err != nil {
		return nil, err
	}
	index := make(map[string]int, len(tasks))
	for i, task := range tasks {
		index[task.Name] = i
	}
	for _, r := range t.Records {
		if _, ok := index[r.Task]; !ok && r.Task != "" {
			return nil, fmt.Errorf("%s:%d: column task: %q is not a task of this fleet; one of %s would be right",
				t.Name, r.Line, r.Task, strings.Join(taskNames(tasks), ", "))
		}
	}
	return &replay{drawn: drawn, rest: t.Records, tasks: index, lengths: lengths}, nil
}

// replay lays what the trace knows over what is drawn.
type replay struct {
	drawn   *generator
	rest    []Record
	tasks   map[string]int
	lengths bool
}

// Next implements [Stream].
func (r *replay) Next() (Arrival, bool) {
	if len(r.rest) == 0 {
		return Arrival{}, false
	}
	record := &r.rest[0]
	task := -1
	if record.Task != "" {
		task = r.tasks[record.Task]
	}
	a, ok := r.drawn.next(task)
	if !ok {
		return Arrival{}, false
	}
	r.rest = r.rest[1:]
	if r.lengths {
		a.PromptTokens, a.OutputTokens = record.PromptTokens, record.OutputTokens
	}
	return a, true
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
