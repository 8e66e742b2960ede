package engine_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/env/engine"
	"gearshift/router/profile"
)

// FuzzHost does whatever the bytes say on two engines that contend: submits,
// cancels, steps. After each, the engines' books must balance; in the end every
// sequence has ended once, as it was asked to, and every token is accounted for.
func FuzzHost(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 24 {
		data := make([]byte, 200+100*n)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &play{t: t, data: data, lives: map[uint64]*life{}}
		p.run()
	})
}

// play is one history, and what it should come to.
type play struct {
	t      *testing.T
	data   []byte
	w      *watched
	lives  map[uint64]*life
	next   uint64    // identity
	tokens [2]uint64 // of the sequences finished, by engine
	lost   bool      // a cancelled sequence may have yielded tokens
}

// life is what is known of one sequence.
type life struct {
	engine           int
	output           int
	first, cancelled bool
}

// byte is the next choice, below n; 0 when the data is used up.
func (p *play) byte(n int) int {
	if len(p.data) == 0 {
		return 0
	}
	b := p.data[0]
	p.data = p.data[1:]
	return int(b) % n
}

func (p *play) run() {
	cost := &profile.Profile{LaunchFloor: 1, Weights: 5, Growth: 0.003, Token: 0.05, Context: 0.001, Overhead: 1.5, Sequence: 0.2, Contention: 0.5}
	p.w = watch(p.t)
	for range 2 {
		c := engine.Config{
			Scheduler:      []string{engine.PrefillFirst, engine.ChunkedPrefill}[p.byte(2)],
			MaxBatchTokens: 1 + p.byte(100), MaxSequences: 1 + p.byte(12), BlockTokens: 1 + p.byte(20),
		}
		p.w.engines = append(p.w.engines, newEngine(p.t, c, cost, 100+3*p.byte(200)))
	}
	p.w.Host = engine.NewHost(p.w.engines...)
	p.w.Observe = p.checkStep
	for len(p.data) > 0 {
		switch p.byte(8) {
		case 0, 1, 2:
			p.submit()
		case 3:
			p.cancel(uint64(p.byte(256)))
		default:
			if _, busy := p.w.Next(); busy {
				p.events(p.w.step())
			}
		}
		p.w.check()
	}
	p.events(p.w.drain())
	p.end()
}

// submit comes at a moment between the last event and the next.
func (p *play) submit() {
	if at, busy := p.w.Next(); busy {
		p.w.now += (at - p.w.now) * time.Duration(p.byte(4)) / 4
	} else {
		p.w.now += time.Duration(p.byte(200)) * time.Millisecond
	}
	i := p.byte(2)
	s := engine.Sequence{ID: p.next, PromptTokens: 1 + p.byte(120), OutputTokens: 1 + p.byte(90)}
	if !p.w.engines[i].Fits(s) {
		return
	}
	p.lives[s.ID] = &life{engine: i, output: s.OutputTokens}
	p.next++
	p.w.Submit(i, s, p.w.now)
}

// cancel takes an old identity now and then, which must not be known.
func (p *play) cancel(back uint64) {
	if p.next == 0 {
		return
	}
	id := p.next - 1 - back%p.next
	l, alive := p.lives[id]
	engine := int(back) % 2
	if alive {
		engine = l.engine
	}
	if known := p.w.Cancel(engine, id); known != alive {
		p.t.Fatalf("sequence %d: cancelled %t, alive %t", id, known, alive)
	}
	if alive {
		l.cancelled, p.lost = true, true
		p.w.check()
	}
	p.sweep()
}

// sweep forgets what was cancelled and has left: at once if it waited, else with
// the step in progress. Its engine then knows it no more.
func (p *play) sweep() {
	for id, l := range p.lives {
		if l.cancelled && !p.w.Cancel(l.engine, id) {
			delete(p.lives, id)
		}
	}
}

func (p *play) events(events []engine.Event) {
	for _, x := range events {
		l, alive := p.lives[x.ID]
		switch {
		case !alive || l.cancelled:
			p.t.Fatalf("sequence %d has event %v after it ended or was cancelled", x.ID, x.Kind)
		case l.engine != x.Engine || x.At > p.w.now:
			p.t.Fatalf("event %+v at %v, of a sequence of engine %d", x, p.w.now, l.engine)
		case x.Kind == engine.FirstToken && l.first, x.Kind == engine.Finished && !l.first:
			p.t.Fatalf("sequence %d: event %v, first token before: %t", x.ID, x.Kind, l.first)
		case x.Kind == engine.FirstToken:
			l.first = true
		default:
			p.tokens[x.Engine] += uint64(l.output)
			delete(p.lives, x.ID)
		}
	}
	p.sweep()
}

// checkStep wants every step to take time and to do something.
func (p *play) checkStep(s engine.Step) {
	if s.End <= s.Start || s.Start < p.w.now || s.Tokens == 0 {
		p.t.Fatalf("step %+v begins at %v", s, p.w.now)
	}
}

func (p *play) end() {
	for id, l := range p.lives {
		if !l.cancelled {
			p.t.Errorf("sequence %d never ended", id)
		}
	}
	for i, e := range p.w.engines {
		if e.Load() != 0 {
			p.t.Errorf("engine %d is idle with %d sequences", i, e.Load())
		}
		if e.Produced() < p.tokens[i] || !p.lost && e.Produced() != p.tokens[i] {
			p.t.Errorf("engine %d produced %d tokens, the finished sequences took %d", i, e.Produced(), p.tokens[i])
		}
	}
}
