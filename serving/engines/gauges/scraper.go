package gauges

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/router/signals"
)

// elsewhere is where gauges are that are not at the path of the configuration: those of
// TensorRT-LLM, whose /metrics are no such page, of NVIDIA NIM, and of SGLang without metrics.
var elsewhere = [...]string{"/prometheus/metrics", "/v1/metrics", LoadsPath}

// noPage is the error of a path that the server does not have.
type noPage struct {
	path   string
	status int
}

func (e noPage) Error() string {
	return fmt.Sprintf("it answers %s with status %d", e.path, e.status)
}

// rarest is how seldom an engine without gauges is asked again, in intervals.
const rarest = 30

// Server is what has gauges.
type Server interface {
	// Get asks for a path of the server's own. The caller closes the body.
	Get(ctx context.Context, path string) (*http.Response, error)
}

// Reader is a [Server] that also answers on kept connections.
type Reader interface {
	// Read is Get on a kept connection.
	Read(ctx context.Context, path string) (*http.Response, error)
}

// Source is one server, with the replicas that it runs.
type Source struct {
	Server   Server
	Replicas []int
	// Models are the names by which it knows the replicas' variants.
	Models []string
	// Named returns the name of the model that the replica of an index has now, where that
	// changes; empty if it has none. It is called from any goroutine. Nil: the names are Models.
	Named func(n int) string
	// Loaded reports whether the replica's model is loaded: of one that is not, the server
	// has nothing to say. Nil: all are.
	Loaded func(replica int) bool
	// Engine identifies the present engine; zero means none, and nothing is read. Nil: it never changes.
	Engine func() uint64
}

// Counts is what the router itself has on a replica: requests, and tokens that
// they hold there.
type Counts func(replica int) signals.Count

// Reported is called with a server when its gauges are read for the first time, or again
// after they were stale; and when they have gone stale, or cannot be read from
// the start, with the last error.
type Reported func(s Source, fresh bool, err error)

// Loads hears what engines say of their load. Its methods are called from any goroutine.
type Loads interface {
	// Page is called with what a replica's engine says, when the router's own work there was own.
	Page(replica int, l signals.Load, own signals.Count)
	// Missed is called when the engine did not answer.
	Missed(replica int)
}

// Scraper reads the gauges of engines, and corrects the ledger by the work that
// they have in addition to the router's own.
type Scraper struct {
	config   Config
	clock    func() time.Duration
	signals  *signals.Monitor
	own      Counts
	reported Reported
	// Loads, if set before Start, hears all that is read.
	Loads Loads

	rounds []round
	ended  sync.WaitGroup
}

// round is how one server is asked, by one goroutine.
type round struct {
	Source
	random *rand.Rand
	missed int         // in a row
	err    error       // the last one
	asked  atomic.Bool // ever
	read   bool        // ever
	fresh  bool        // what was read last is not stale
	path   string      // where its gauges were found, if not where they should be
	// lacking is how often in a row it had no page where gauges should be.
	lacking int
	before  []signals.Count // own counts at the end of the last scrape, by the Source's replicas
	engine  uint64          // the engine read last
	idle    bool            // the last reading showed no requests, and the router had none there
}

// New makes a Scraper that passes what it reads to the monitor. The clock gives the readings
// their age. The seed is that of the jitter.
func New(c Config, m *signals.Monitor, sources []Source, own Counts, clock func() time.Duration, seed uint64, reported Reported) *Scraper {
	s := &Scraper{
		config: c, clock: clock, signals: m, own: own, reported: reported,
		rounds: make([]round, len(sources)),
	}
	for i, source := range sources {
		s.rounds[i] = round{Source: source, random: rand.New(rand.NewPCG(seed, uint64(i))), before: make([]signals.Count, len(source.Replicas))}
	}
	return s
}

// Start begins to read. It goes on until the context ends; [Scraper.Wait] waits
// for that.
func (s *Scraper) Start(ctx context.Context) {
	for i := range s.rounds {
		t := &s.rounds[i]
		if s.config.Interval == 0 {
			s.forget(t)
			continue
		}
		s.ended.Go(func() { s.round(ctx, t) })
	}
}

// Asked reports whether each server that has an engine has been asked at least once.
func (s *Scraper) Asked() bool {
	if s.config.Interval == 0 {
		return true
	}
	for i := range s.rounds {
		if t := &s.rounds[i]; !t.asked.Load() && (t.Engine == nil || t.Engine() != 0) {
			return false
		}
	}
	return true
}

// Set changes the configuration of a Scraper that does not run.
func (s *Scraper) Set(c Config) {
	s.config = c
	for i := range s.rounds {
		s.rounds[i].path = ""
	}
}

// Wait returns once the reading has ended. It may be started again then, and goes on
// from what was read.
func (s *Scraper) Wait() { s.ended.Wait() }

// round asks one server, at intervals, until the context ends. One without gauges is asked less
// and less often; what it said before goes stale on time.
func (s *Scraper) round(ctx context.Context, t *round) {
	due := s.clock() + time.Duration(t.random.Float64()*float64(s.config.Interval))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next := s.expire(t)
		timer.Reset(max(min(due, next)-s.clock(), 0))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if s.clock() >= due {
			if !t.enter() {
				due = s.clock() + s.pause(t)
				continue
			}
			err := s.ask(ctx, t)
			if err != nil && ctx.Err() != nil {
				return
			}
			if err != nil && t.read && s.Loads != nil {
				for _, replica := range t.Replicas {
					s.Loads.Missed(replica)
				}
			}
			t.asked.Store(true)
			s.note(t, err) // also of a reading that has come: it has corrected the ledger
			due = s.clock() + s.pause(t)
		}
	}
}

// pause until the server is asked again, give or take a tenth.
func (s *Scraper) pause(t *round) time.Duration {
	times := 1 << min(max(0, t.missed-given), 10)
	if t.idle && t.missed == 0 && len(s.rounds) > manyServers {
		times = idlePause
	}
	return time.Duration((0.9 + 0.2*t.random.Float64()) * float64(s.config.Interval) * float64(min(times, rarest)))
}

// ask reads the gauges once, and corrects each replica of the server by them.
func (s *Scraper) ask(ctx context.Context, t *round) error {
	before := s.counts(t)
	readings, err := s.read(ctx, t)
	if err != nil {
		return err
	}
	if t.Engine != nil && t.Engine() != t.engine {
		return nil // the reading is another engine's
	}
	after := s.counts(t)
	t.idle = true
	for i, r := range readings {
		t.idle = t.idle && (r.unloaded || r.none() && after[i].InFlight == 0)
		if r.unloaded {
			s.signals.Forget(t.Replicas[i : i+1])
			continue
		}
		// Engines' gauges lag behind: only work that none of the router's own around that
		// time explains is another's.
		own := t.before[i].Most(before[i]).Most(after[i])
		if r.shared {
			own = sumOf(t.before).Most(sumOf(before)).Most(sumOf(after))
		}
		s.signals.Observe(t.Replicas[i], r.Reading, own, s.clock())
		if s.Loads != nil {
			s.Loads.Page(t.Replicas[i], r.Load, own)
		}
	}
	copy(t.before, after)
	return nil
}

// sumOf adds up the counts.
func sumOf(counts []signals.Count) (sum signals.Count) {
	for _, c := range counts {
		sum.InFlight += c.InFlight
		sum.Held += c.Held
	}
	return sum
}

// read finds the page and reads it. A server that has one without gauges is asked for
// that which may have them, and from then on first: no other request should delay the former.
func (s *Scraper) read(ctx context.Context, t *round) ([]Reading, error) {
	if t.path != "" {
		if readings, err := s.readAt(ctx, t, t.path); err == nil {
			return readings, nil
		}
		t.path = ""
	}
	readings, err := s.readAt(ctx, t, s.config.Path)
	if err == nil || !t.looksElsewhere(err) {
		return readings, err
	}
	for _, path := range elsewhere {
		if path == s.config.Path {
			continue
		}
		if readings, none := s.readAt(ctx, t, path); none == nil {
			t.path = path
			return readings, nil
		}
	}
	return nil, err
}

// looksElsewhere says after the error whether the gauges may stand elsewhere: the page is none of
// gauges, or is not there. A server without the page has mostly none at all, and is seldom asked
// for others.
func (t *round) looksElsewhere(err error) bool {
	var missing noPage
	if errors.As(err, &missing) {
		t.lacking++
		return t.lacking <= 2 || t.lacking%16 == 0
	}
	t.lacking = 0
	return errors.Is(err, ErrNone) || errors.Is(err, bufio.ErrTooLong)
}

// readAt reads the page at the path.
func (s *Scraper) readAt(ctx context.Context, t *round, path string) ([]Reading, error) {
	page, err := s.page(ctx, t.Server, path)
	if err != nil {
		return nil, err
	}
	parse := parseMetrics
	if path == LoadsPath {
		parse = parseLoads
	}
	return t.parse(page, parse)
}

func parseMetrics(page []byte, model string) (Reading, error) {
	return Parse(bytes.NewReader(page), model)
}

// parseLoads reads a page of SGLang's loads.
func parseLoads(page []byte, model string) (Reading, error) {
	l, named, err := ParseLoads(page, model)
	if err != nil {
		return Reading{}, err
	}
	sensible := l.Reading()
	for _, v := range []*float64{&sensible.Running, &sensible.Waiting, &sensible.KVUse} {
		if !(*v >= 0 && *v < most) { // NaN fails too
			*v = signals.Unsaid
		}
	}
	return Reading{Reading: sensible, Load: l, named: named}, nil
}

// name returns how the server knows the model of the replica of an index.
func (t *round) name(i int) string {
	if t.Named != nil {
		return t.Named(i)
	}
	return t.Models[i]
}

// parse reads the page for each replica of the server.
func (t *round) parse(page []byte, read func(page []byte, model string) (Reading, error)) (readings []Reading, err error) {
	readings = make([]Reading, len(t.Replicas))
	unnamed := false
	for i := range t.Models {
		readings[i], err = read(page, t.name(i))
		if t.Loaded != nil && !t.Loaded(t.Replicas[i]) && (err != nil || !readings[i].named) {
			readings[i] = Reading{unloaded: true}
			continue
		}
		if err != nil {
			return nil, err
		}
		unnamed = unnamed || len(t.Replicas) > 1 && !readings[i].named
	}
	if unnamed { // adapters count as the model that they adapt
		base := slices.ContainsFunc(readings, func(r Reading) bool { return r.named })
		for i, r := range readings {
			if !r.unloaded && !(base && r.one) {
				return nil, fmt.Errorf("it runs %d replicas, and its gauges do not say which is %q", len(t.Replicas), t.name(i))
			}
			readings[i].shared = true
		}
	}
	if !slices.ContainsFunc(readings, func(r Reading) bool { return !r.unloaded }) {
		return nil, errors.New("none of its models is loaded")
	}
	return readings, nil
}

// page asks for the page, and keeps of it what concerns gauges. It takes no longer than the
// configuration allows, however much the server has to say.
func (s *Scraper) page(ctx context.Context, server Server, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	get := server.Get
	if kept, ok := server.(Reader); ok {
		get = kept.Read
	}
	response, err := get(ctx, path)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	switch status := response.StatusCode; status {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return nil, noPage{path, status}
	default:
		return nil, fmt.Errorf("it answers %s with status %d", path, status)
	}
	keep := pick
	if path == LoadsPath {
		keep = func(page io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(page, biggest)) }
	}
	lines, err := keep(response.Body)
	if err != nil {
		return nil, fmt.Errorf("cannot read metrics: %w", err)
	}
	return lines, nil
}

// counts are the router's own on the server's replicas.
func (s *Scraper) counts(t *round) []signals.Count {
	own := make([]signals.Count, len(t.Replicas))
	for i, r := range t.Replicas {
		own[i] = s.own(r)
	}
	return own
}
