package backend

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"gearshift/env/engine"
	"gearshift/router/fleet"
)

// ErrClosed is what a simulated replica answers with after Close.
var ErrClosed = errors.New("the simulated backend is closed")

// SimulatedConfig is a fleet of engines to run in real time.
type SimulatedConfig struct {
	Table *fleet.Table
	// Engines of the replicas, in the table's order. They belong to the
	// backend from then on.
	Engines []*engine.Engine
	// OutputTokens draws the length that an answer would have if nothing cut
	// it short.
	OutputTokens func(*rand.Rand) int
	// Seed of the lengths drawn.
	Seed uint64
	// Observe, if set, is called with each answer as it ends. It is called under a
	// lock, and must neither wait nor call the backend.
	Observe func(Span)
}

// Simulated runs the engines of a fleet by the wall clock, so that a request
// takes the time that its profile says, contention with the host's other
// engines included. The words of its answers mean nothing.
type Simulated struct {
	hosts    []*host
	replicas []replica
}

// NewSimulated starts one goroutine for each host with replicas; Close ends
// them.
func NewSimulated(c SimulatedConfig) (*Simulated, error) {
	if len(c.Engines) != len(c.Table.Replicas) {
		return nil, fmt.Errorf("cannot simulate backends: %d engines for %d replicas", len(c.Engines), len(c.Table.Replicas))
	}
	if c.OutputTokens == nil {
		return nil, errors.New("cannot simulate backends: no distribution of output lengths")
	}
	s := &Simulated{replicas: make([]replica, len(c.Engines))}
	start := time.Now()
	for h := range c.Table.Hosts {
		var engines []*engine.Engine
		var of *host
		for _, r := range c.Table.ReplicasOn(h) {
			if of == nil {
				of = newHost(start, rand.New(rand.NewPCG(c.Seed, uint64(h))), c.OutputTokens)
				of.observe = c.Observe
				s.hosts = append(s.hosts, of)
			}
			model := c.Table.Variants[c.Table.Replicas[r].Variant].Name
			s.replicas[r] = replica{host: of, engine: len(engines), index: r, model: model, kept: newResponseStore()}
			engines = append(engines, c.Engines[r])
		}
		if of != nil {
			of.begin(engines)
		}
	}
	return s, nil
}

// Replica is the i-th replica of the table.
func (s *Simulated) Replica(i int) http.RoundTripper { return &s.replicas[i] }

// Delay makes the replica's next step longer by the time, once: its engine has just been loaded or woken.
func (s *Simulated) Delay(i int, by time.Duration) {
	r := &s.replicas[i]
	r.host.mu.Lock()
	r.host.host.Delay(r.engine, by)
	r.host.mu.Unlock()
}

// Close ends all work with [ErrClosed] and waits for the goroutines.
func (s *Simulated) Close() {
	for _, h := range s.hosts {
		h.close()
	}
}
