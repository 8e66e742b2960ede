package loadgen

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config is a measurement.
type Config struct {
	Target     Target
	Neighbours []Target
	// Batches are the numbers of requests at once, and Prompts the prompt lengths
	// in tokens: ascending, at least two of each.
	Batches, Prompts []int
	// Output is how many tokens an answer has where steps are timed.
	Output int
	// Time is how long [Run] measures. The first round goes on until each cell was
	// tried once, for at most [FirstRound] or twice the time, whichever is longer.
	Time time.Duration
	// Seed of the words of prompts and of the cells' order.
	Seed uint64
	// Transport is HTTP's own if nil.
	Transport http.RoundTripper
	// Processors, if not nil, reads those of the engines' machine.
	Processors func() Processors
	// Progress, if not nil, is called before each cell.
	Progress func(Progress)
}

// Progress is how far a measurement has come.
type Progress struct {
	Elapsed, Of time.Duration
	Round       int // from 1
	Done, Cells int // of the round
	Now         string
}

// FirstRound bounds the first round of a measurement that is given less than half of it.
const FirstRound = 5 * time.Minute

const (
	// loadBatch is how many requests at once a neighbour is loaded with.
	loadBatch = 4
	// loadOutput is the length of their answers: mostly decoding, as in use.
	loadOutput = 128
	// fewest samples that a measurement is worth something with.
	fewest = 8
	// rest is how long an engine is idle before it is timed. Those that a request
	// finds idle have mostly been so: processors that slept, and caches that others used,
	// take their time.
	rest = 30 * time.Millisecond
	// settle is how long an engine runs next to loaded neighbours before it is timed, and
	// stretch for how long it then is. One that has just been woken shares a processor with
	// the neighbour that has it, until the system has moved them about: where they outnumber the
	// processors it would be found slower, and they quicker, than any of them is in use.
	settle, stretch = 300 * time.Millisecond, 400 * time.Millisecond
)

// Validate names the first fault.
func (c *Config) Validate() error {
	if err := c.ValidateLoads(); err != nil {
		return err
	}
	if c.Time <= 0 {
		return fmt.Errorf("time %v: want a time above 0", c.Time)
	}
	return nil
}

// ValidateLoads names the first fault of all but the time.
func (c *Config) ValidateLoads() error {
	for _, list := range []struct {
		name   string
		values []int
	}{{"batches", c.Batches}, {"prompts", c.Prompts}} {
		if len(list.values) < 2 || list.values[0] < 1 || !slices.IsSorted(list.values) || len(slices.Compact(slices.Clone(list.values))) < len(list.values) {
			return fmt.Errorf("%s %v: want at least two whole numbers, from 1 on and ascending", list.name, list.values)
		}
	}
	if c.Output < 4 {
		return fmt.Errorf("output %d: want at least 4 tokens, to time the steps between them", c.Output)
	}
	return nil
}

// Measurement is what came of it.
type Measurement struct {
	Target     Target // with its model
	Neighbours []Target
	Samples    []Sample
	Requests   []Record // to the target
	Took       time.Duration
	Rounds     int
	// Stolen is the share of the processors' time that went to other machines.
	Stolen float64
	// Notes say what was left out and why.
	Notes []string
}

// Record is a request to the engine measured, as a log has it. Times are in
// seconds from the measurement's start.
type Record struct {
	ID           string  `json:"request_id"`
	PromptTokens int     `json:"input_toks"`
	OutputTokens int     `json:"output_toks"`
	Arrival      float64 `json:"arrival_time"`
	First        float64 `json:"first_token_ts"`
	Last         float64 `json:"last_token_ts"`
	// Beside is how many requests were sent together with it.
	Beside int `json:"beside"`
	// Neighbours are the models that were under load meanwhile.
	Neighbours []string `json:"neighbours,omitempty"`
}

// run is a measurement under way.
type run struct {
	Config
	client  *http.Client
	targets []Target // the engine measured, then its neighbours
	words   []tokenizer
	start   time.Time
	cells   []*Cell
	out     Measurement
	used    Processors // while it was measured

	mu     sync.Mutex // protects random
	random *rand.Rand
}

// Run measures. It fails if an engine cannot be reached, goes away, or is too slow
// for a result in the time.
func Run(ctx context.Context, c Config) (*Measurement, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s, err := Begin(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := s.run.timed(func() error { return s.run.rounds(ctx) }); err != nil {
		return nil, err
	}
	return s.Measurement()
}

// Session is a measurement in rounds of two halves, Alone and then Beside, between which
// the machine is free for others.
type Session struct{ run *run }

// Begin makes a Session, whose rounds have no limit: the configuration's time is not
// looked at. Close it.
func Begin(ctx context.Context, c Config) (*Session, error) {
	if err := c.ValidateLoads(); err != nil {
		return nil, err
	}
	r, err := begin(ctx, c, append([]Target{c.Target}, c.Neighbours...))
	if err != nil {
		return nil, err
	}
	r.cells = plan(&r.Config)
	return &Session{r}, nil
}

// Close lets the connections go.
func (s *Session) Close() { s.run.client.CloseIdleConnections() }

// Alone goes once through the loads of each engine alone, in an order of its own.
func (s *Session) Alone(ctx context.Context) error {
	return s.half(ctx, false)
}

// Beside goes once through the loads beside neighbours, if there are any, and ends the
// round.
func (s *Session) Beside(ctx context.Context) error {
	err := s.half(ctx, true)
	s.run.out.Rounds++
	return err
}

func (s *Session) half(ctx context.Context, beside bool) error {
	r := s.run
	cells := slices.DeleteFunc(slices.Clone(r.cells), func(c *Cell) bool { return (len(c.Loaded) > 0) != beside })
	return r.timed(func() error {
		_, err := r.round(ctx, cells, r.out.Rounds+1, math.MaxInt64)
		return err
	})
}

// Measurement is what came of all rounds, after which there are none. It fails if that
// is too little for a result.
func (s *Session) Measurement() (*Measurement, error) {
	r := s.run
	r.out.Stolen = r.used.StolenSince(Processors{})
	r.undisturbed()
	r.out.Target, r.out.Neighbours = r.targets[0], r.targets[1:]
	return &r.out, r.enough()
}

// Slowness is how many times as long the engine's samples of each round took as those of
// their cells do in all rounds, in the mean over the cells: what the machine was slower by.
// A round without a sample has 1; one that was cut short has none.
func (m *Measurement) Slowness() []float64 {
	type mean struct{ sum, n float64 }
	cells, rounds := map[string]mean{}, make([]mean, m.Rounds+1) // the last may not be whole
	for _, s := range m.Samples {
		if s.Engine == 0 {
			c := cells[s.Cell]
			cells[s.Cell] = mean{c.sum + s.MS, c.n + 1}
		}
	}
	for _, s := range m.Samples {
		if s.Engine == 0 {
			c, r := cells[s.Cell], &rounds[s.Round]
			r.sum, r.n = r.sum+s.MS/(c.sum/c.n), r.n+1
		}
	}
	slow := make([]float64, m.Rounds)
	for i, r := range rounds[:m.Rounds] {
		if slow[i] = 1; r.n > 0 {
			slow[i] = r.sum / r.n
		}
	}
	return slow
}

// timed counts the time of f, and what was stolen of it, as the measurement's.
func (r *run) timed(f func() error) error {
	began, before := r.since(), r.processors()
	err := f()
	after := r.processors()
	r.used.All += after.All - before.All
	r.used.Stolen += after.Stolen - before.Stolen
	r.out.Took += r.since() - began
	return err
}

// begin asks each target for its models and how it counts tokens.
func begin(ctx context.Context, c Config, targets []Target) (*run, error) {
	if c.Transport == nil {
		c.Transport = Transport()
	}
	r := &run{
		Config: c, client: &http.Client{Transport: c.Transport}, start: time.Now(),
		targets: targets, words: make([]tokenizer, len(targets)), random: rand.New(rand.NewPCG(c.Seed, 1)),
	}
	for i := range targets {
		t := &targets[i]
		var err error
		if t.Model, err = t.server().Model(ctx, r.client, t.Model); err == nil {
			err = r.learnWords(ctx, i)
		}
		if err != nil {
			r.client.CloseIdleConnections()
			return nil, err
		}
	}
	return r, nil
}

func (r *run) since() time.Duration { return time.Since(r.start) }

// rounds goes through all cells, in another order each time, until the time is
// up. The first round goes on until each was tried, within its bound, and the others
// end in their midst: what drifts meanwhile then falls on all cells alike.
func (r *run) rounds(ctx context.Context) error {
	for round := 1; ; round++ {
		limit := r.Time
		if round == 1 {
			limit = max(2*r.Time, FirstRound)
		}
		whole, err := r.round(ctx, r.cells, round, limit)
		if err != nil {
			return err
		}
		if !whole {
			return nil
		}
		if r.out.Rounds = round; r.since() >= r.Time {
			return nil
		}
	}
}

// round goes through the cells once: those alone, then those beside each set of
// neighbours. It says whether it came to the end.
func (r *run) round(ctx context.Context, cells []*Cell, round int, limit time.Duration) (whole bool, err error) {
	order := slices.Clone(cells)
	r.random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	slices.SortStableFunc(order, func(a, b *Cell) int { return slices.Compare(a.Loaded, b.Loaded) })
	done := 0
	for len(order) > 0 {
		n := 1
		for n < len(order) && slices.Equal(order[n].Loaded, order[0].Loaded) {
			n++
		}
		err := r.beside(ctx, order[0].Loaded, func(load *load) error {
			for _, cell := range order[:n] {
				if r.since() >= limit {
					return errTime
				}
				if r.Progress != nil {
					r.Progress(Progress{Elapsed: r.since(), Of: r.Time, Round: round, Done: done, Cells: len(cells), Now: r.describe(cell)})
				}
				done++
				if err := r.sample(ctx, cell, load); err != nil {
					return err
				}
			}
			return nil
		})
		if errors.Is(err, errTime) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		order = order[n:]
	}
	return true, nil
}

var errTime = errors.New("the time is up")

// describe is a cell in words.
func (r *run) describe(c *Cell) string {
	text := r.targets[c.Engine].Model + ": " + c.name()
	for i, n := range c.Loaded {
		text += []string{", beside ", " and "}[min(i, 1)] + r.targets[n].Model
	}
	return text
}

// enough says whether the engine was sampled in enough different cells.
func (r *run) enough() error {
	sampled, all := 0, 0
	for _, c := range r.cells {
		if c.Engine == 0 && len(c.Loaded) == 0 && !c.dropped {
			all++
			if c.Samples > 0 {
				sampled++
			}
		}
	}
	if r.out.Rounds > 0 && sampled >= min(fewest, all) && sampled > 3 {
		return nil
	}
	if r.out.Rounds > 0 {
		return fmt.Errorf("too few samples: %d loads of %s gave one (%s)", sampled, r.targets[0].Model, strings.Join(r.out.Notes, "; "))
	}
	tried := 0
	for _, c := range r.cells {
		if c.Samples > 0 || c.dropped {
			tried++
		}
	}
	return fmt.Errorf("too few samples: in %v only %d of %d loads could be tried once; give it a longer --time (calibrate: --measure-time), or fewer --batches and --prompts",
		r.since().Round(time.Second), tried, len(r.cells))
}
