package drift

import (
	"sync/atomic"
	"time"

	"gearshift/router/profile"
)

// Load counts the requests and tokens on a replica, at a time or in the mean.
type Load struct {
	// Sequences are those that decode, and Context the tokens that they hold.
	Sequences, Context float64
	// Neighbours is the sum of the duties of the host's other busy replicas.
	Neighbours float64
}

// add adds a load to a sum, with a weight.
func (l *Load) add(weight float64, o *Load) {
	l.Sequences += weight * o.Sequences
	l.Context += weight * o.Context
	l.Neighbours += weight * o.Neighbours
}

// Timing records the times of an answer, with the load on its replica meanwhile.
type Timing struct {
	Replica, Prompt int
	// Decode is the time from the first token to the last, in which so many Tokens came: all but
	// the first. Of an answer whose tokens were not seen it is the time from the replica's choice
	// to the end, and Whole is set.
	Decode time.Duration
	Tokens int
	Whole  bool
	// During is the mean load of that time. PromptSteps and PromptTokens are of other requests'
	// prompts that were read meanwhile: the steps that this took, and their tokens.
	During                    Load
	PromptSteps, PromptTokens int
	// First is the time from the replica's choice to the first token, Before the load at the choice,
	// without the request, and Ahead the prompts that waited to be read then. First is 0 if it was
	// not seen.
	First  time.Duration
	Before Load
	Ahead  int
}

// wait is a stay before its first token. The zero value is over.
type wait struct {
	waits   bool
	replica int
	placed  time.Duration // when the replica was chosen
	prompt  int
	before  Load
	ahead   int
}

// prompts counts prompts, and their tokens.
type prompts struct{ number, tokens atomic.Int64 }

func (p *prompts) add(number, tokens int) {
	p.number.Add(int64(number))
	p.tokens.Add(int64(tokens))
}

func (p *prompts) now() count { return count{p.number.Load(), p.tokens.Load()} }

// count is a moment of [prompts].
type count struct{ number, tokens int64 }

// Place notes that the request has a place on the replica from now on: its prompt is to be read.
func (m *Monitor) Place(s *Stay, replica int, now time.Duration, prompt int) {
	if m == nil {
		return
	}
	m.read(s)
	r := &m.replicas[replica]
	s.wait = wait{waits: true, replica: replica, placed: now, prompt: prompt, ahead: int(r.waiting.Load())}
	if r.profile.Load() != nil {
		_, s.wait.before = m.step(replica)
		s.wait.before.Sequences = float64(r.load.sequences.Load() + r.others.sequences.Load()) // 0 if it is idle
	}
	r.waiting.Add(1)
}

// read notes that the request's prompt has been read, or never will be.
func (m *Monitor) read(s *Stay) {
	if s.wait.waits {
		s.wait.waits = false
		m.replicas[s.wait.replica].waiting.Add(-1)
	}
}

// report passes on how long a whole answer took.
func (m *Monitor) report(s *Stay, now time.Duration, generated int) {
	r := &m.replicas[s.replica]
	if m.config.Timed == nil || r.profile.Load() == nil {
		return
	}
	read := r.prompts.now()
	t := Timing{
		Replica: s.replica, Prompt: s.wait.prompt, Decode: now - s.answer.began, Tokens: generated - s.answer.first,
		PromptSteps: int(read.number - s.answer.prompts.number), PromptTokens: int(read.tokens - s.answer.prompts.tokens),
	}
	if placed := s.wait.replica == s.replica && s.wait.prompt > 0; placed {
		t.Before, t.Ahead = s.wait.before, s.wait.ahead
		if s.timed {
			t.First = s.answer.began - s.wait.placed
		}
	}
	if s.timed {
		if s.answer.weight == 0 {
			return
		}
		t.During.add(1/s.answer.weight, &s.answer.loads)
	} else {
		t.Whole, t.Tokens = true, generated
		_, end := m.step(s.replica)
		t.During.add(0.5, &s.with)
		t.During.add(0.5, &end)
	}
	if t.Tokens > 0 && t.Decode > 0 {
		m.config.Timed(&t)
	}
}

// Revise has answers compared with other profiles from now on. What is known of the deviation from
// the earlier ones is forgotten.
func (m *Monitor) Revise(profiles []*profile.Profile) {
	if m == nil {
		return
	}
	for i := range m.replicas {
		r := &m.replicas[i]
		if was := r.profile.Swap(profiles[i]); was != nil && profiles[i] != nil && *was == *profiles[i] {
			continue
		}
		r.estimate.forget()
		m.forget(i)
	}
}
