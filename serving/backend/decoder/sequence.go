package decoder

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gearshift/serving/backend"
	"gearshift/serving/backend/tokenizer"
	"gearshift/serving/openai/wire"
)

// sequence is one prompt and what is generated from it. It implements
// [backend.Generation].
type sequence struct {
	sampling
	engine    *Engine
	prompt    []int64
	limit     int // of tokens to generate
	stops     []string
	ignoreEnd bool

	// Under the engine's mutex.
	id     uint64
	began  time.Time
	first  time.Duration // zero before the first token
	last   int64
	tokens int
	pieces []string
	held   []byte // text that may yet be part of a stop string or of a character
	finish wire.Optional
	done   bool
	err    error

	// wake has room for one signal: there is progress to see.
	wake chan struct{}
}

// reserved is how many tokens the sequence may come to have in the cache.
func (s *sequence) reserved() int { return len(s.prompt) + s.limit }

// add takes in a token and returns why the answer ends with it, or nothing.
func (s *sequence) add(token int64, t *tokenizer.Tokenizer, end []int64) (finish wire.Optional) {
	if s.tokens == 0 {
		s.first = time.Since(s.began)
	}
	s.tokens++
	s.last = token
	ends := slices.Contains(end, token)
	if ends && !s.ignoreEnd {
		s.release(len(s.held))
		return "stop"
	}
	s.held = append(s.held, t.Bytes(token)...)
	if at := s.stopAt(); at >= 0 {
		s.held = s.held[:at]
		s.release(at)
		return "stop"
	}
	if s.tokens == s.limit {
		s.release(len(s.held))
		return "length"
	}
	s.release(len(s.held) - max(s.stopBegun(), partial(s.held)))
	return ""
}

// release makes a piece of the first bytes that are held.
func (s *sequence) release(n int) {
	s.pieces = append(s.pieces, strings.ToValidUTF8(string(s.held[:n]), string(utf8.RuneError)))
	s.held = append(s.held[:0], s.held[n:]...)
}

// stopAt is where the first stop string begins in the held text, or −1.
func (s *sequence) stopAt() int {
	at := -1
	for _, stop := range s.stops {
		if i := strings.Index(string(s.held), stop); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	return at
}

// stopBegun is how many bytes at the end of the held text may begin a stop
// string.
func (s *sequence) stopBegun() (longest int) {
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(s.held)); n > longest; n-- {
			if strings.HasSuffix(string(s.held), stop[:n]) {
				longest = n
			}
		}
	}
	return longest
}

// partial is how many bytes at the end of the text begin a character that is not
// whole.
func partial(text []byte) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(text)); n++ {
		tail := text[len(text)-n:]
		if utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

func (s *sequence) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// end removes the sequence from the counts. Its row leaves the batch before the
// next step. The caller holds e.mu.
func (e *Engine) end(s *sequence, finish wire.Optional, err error) {
	if s.done {
		return
	}
	s.done, s.finish, s.err = true, finish, err
	s.signal()
	if e.config.Observe != nil {
		e.config.Observe(backend.Span{
			PromptTokens: len(s.prompt), OutputTokens: s.tokens,
			First: s.first, Total: time.Since(s.began), Cut: finish == "length", Err: err,
		})
	}
}

// ID implements [backend.Generation].
func (s *sequence) ID() uint64 { return s.id }

// Wait implements [backend.Generation].
func (s *sequence) Wait(pieces int) (now int, done bool, err error) {
	for {
		s.engine.mu.Lock()
		now, done, err = len(s.pieces), s.done, s.err
		s.engine.mu.Unlock()
		if done || now > pieces {
			return now, done, err
		}
		<-s.wake
	}
}

// Piece implements [backend.Generation].
func (s *sequence) Piece(i int) string {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	return s.pieces[i]
}

// Finish implements [backend.Generation].
func (s *sequence) Finish() wire.Optional { return s.finish }

// Usage implements [backend.Generation].
func (s *sequence) Usage() (prompt, output int) { return len(s.prompt), s.tokens }

// Cancel implements [backend.Generation].
func (s *sequence) Cancel(cause error) {
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.Index(e.waiting, s); i >= 0 {
		e.waiting = slices.Delete(e.waiting, i, i+1)
	}
	e.end(s, "", cause)
	e.change.Signal()
}

// Load is the engine's present load.
func (e *Engine) Load() backend.Load {
	e.mu.Lock()
	defer e.mu.Unlock()
	longest := 0
	for _, s := range e.running {
		longest = max(longest, s.reserved())
	}
	return backend.Load{
		Running: len(e.running), Waiting: len(e.waiting), Tokens: e.tokens,
		CacheUsage: float64(longest*len(e.running)) / float64(e.config.KVTokens),
	}
}
