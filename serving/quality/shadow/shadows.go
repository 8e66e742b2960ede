package shadow

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/internal/splitmix"
	"gearshift/router/fleet"
	"gearshift/router/quality"
	"gearshift/router/quality/scoring"
	"gearshift/serving/config"
	"gearshift/serving/openai/tokens"
	"gearshift/serving/openai/wire"
	"gearshift/serving/quality/feedback"
)

// The bounds of what is kept and done at once.
const (
	mostDrawn = 32       // requests whose clients have no whole answer yet
	mostAsked = 2        // second answers
	mostBody  = 64 << 10 // bytes of a request, and of its answer
	mostReply = 1 << 20  // bytes of a second answer
)

// Options hold the parts that second answers need. The functions may be called from any goroutine.
type Options struct {
	Table    *fleet.Table
	Settings func() config.Shadow
	// Sample returns the features of a request's prompt; false if it is not all text.
	Sample func(r *wire.Request, task string) (quality.Sample, bool)
	// Place takes a place for the request on a replica of the variant, which end gives back. It reports
	// false where clients' requests need the room.
	Place func(r *fleet.Request, variant int) (replica int, end func(), ok bool)
	// Ask returns the answer of the replica to a body that it is sent, and an error unless that is a
	// success.
	Ask func(ctx context.Context, replica int, path string, compose func(model string) ([]byte, error), most int64) ([]byte, error)
	// Output returns how many tokens an answer is expected to have.
	Output func() float64
	// Learn takes the scores.
	Learn func(feedback.Label)
	Clock func() time.Duration
	Log   *slog.Logger
}

// Shadows has second answers asked for. Its methods may be called from any goroutine.
type Shadows struct {
	Options
	metrics metrics
	budget  budget
	seen    atomic.Uint64 // requests that might have been drawn
	turn    atomic.Uint64 // of smaller sizes
	drawn   atomic.Int64  // that have not ended
	slots   chan struct{} // of second answers
	ctx     context.Context
	stop    context.CancelFunc

	mu     sync.Mutex // protects all below
	closed bool
	ends   sync.WaitGroup
}

// New returns Shadows that are to be closed.
func New(o Options) *Shadows {
	ctx, cancel := context.WithCancel(context.Background())
	return &Shadows{Options: o, metrics: newMetrics(), slots: make(chan struct{}, mostAsked), ctx: ctx, stop: cancel}
}

// Draw returns a copy of the request if it is drawn, and else nil. The task is the one that the request
// names. Each copy is to be ended.
func (s *Shadows) Draw(path string, r *wire.Request, of *fleet.Request, task string) *Copy {
	c := s.Settings()
	if c.Share == 0 || len(r.Body) > mostBody || splitmix.Unit(splitmix.Next(s.seen.Add(1))) >= c.Share {
		return nil
	}
	if !s.budget.left(c.TokensPerHour, s.Clock()) {
		s.count(overBudget)
		return nil
	}
	if s.drawn.Add(1) > mostDrawn {
		s.drawn.Add(-1)
		s.count(busy)
		return nil
	}
	own := fleet.Request{Task: of.Task, PromptTokens: of.PromptTokens, Holding: of.Holding, Without: of.Without}
	return &Copy{path: path, task: task, of: own, body: append([]byte(nil), r.Body...)}
}

// Copy is a request that was drawn. It takes what the client gets of the answer.
type Copy struct {
	path, task   string
	of           fleet.Request
	body, answer []byte
	long         bool // the answer is longer than what is kept
}

// Write implements [io.Writer].
func (c *Copy) Write(p []byte) (int, error) {
	if c.long = c.long || len(c.answer)+len(p) > mostBody; !c.long {
		c.answer = append(c.answer, p...)
	}
	return len(p), nil
}

// End has a second size asked, if the variant has answered the client whole. It does not wait.
func (s *Shadows) End(c *Copy, variant int, whole bool) {
	s.drawn.Add(-1)
	if !whole || c.long {
		s.count(unfit)
		return
	}
	select {
	case s.slots <- struct{}{}:
	default:
		s.count(busy)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		<-s.slots
		return
	}
	s.ends.Go(func() {
		outcome := failed
		defer func() {
			if v := recover(); v != nil {
				s.Log.Error("panic", "value", v, "stack", string(debug.Stack()))
			}
			<-s.slots
			s.count(outcome)
		}()
		outcome = s.label(c, variant)
	})
}

// Close ends all that is under way.
func (s *Shadows) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.ends.Wait()
}

func (s *Shadows) count(outcome string) { s.metrics.drawn.WithLabelValues(outcome).Inc() }

// label asks the second size and has the scores learned. It returns what came of it.
func (s *Shadows) label(c *Copy, variant int) (outcome string) {
	r, err := wire.ParseRequest(c.body)
	if err != nil {
		return unfit
	}
	sample, ok := s.Sample(r, c.task)
	second, largest := s.second(c.of.Task, variant)
	if !ok || second < 0 {
		return unfit
	}
	first, _ := read(c.answer)
	if first == "" {
		return noText
	}
	other, outcome := s.ask(c, r, second)
	if outcome != labelled {
		return outcome
	}
	score := scoring.Agree(first, other)
	s.Learn(feedback.Label{Task: c.of.Task, Variant: min(variant, second), Score: score, Sample: sample})
	s.Learn(feedback.Label{Task: c.of.Task, Variant: largest, Score: 1, Sample: sample})
	return labelled
}

// second returns the variant that is to answer too: the largest that answers the task or, if that was
// the first, one of the smaller ones by turns; −1 if there is none.
func (s *Shadows) second(task, first int) (variant, largest int) {
	var sizes []int
	for v := range s.Table.Variants {
		if s.Table.Answers(task, v) {
			sizes = append(sizes, v)
		}
	}
	if len(sizes) < 2 {
		return -1, -1
	}
	last := len(sizes) - 1
	if largest = sizes[last]; first != largest {
		return largest, largest
	}
	return sizes[int(s.turn.Add(1)%uint64(last))], largest
}

// ask returns the second size's answer. The outcome is labelled if there is one.
func (s *Shadows) ask(c *Copy, r *wire.Request, variant int) (text, outcome string) {
	expected := max(1, int(s.Output()))
	if most := r.MaxTokens(); most > 0 {
		expected = most
	}
	if !s.budget.reserve(expected, s.Settings().TokensPerHour, s.Clock()) {
		return "", overBudget
	}
	spent := 0
	defer func() { s.budget.settle(expected, spent) }()
	replica, end, ok := s.Place(&c.of, variant)
	if !ok {
		return "", noRoom
	}
	defer end()
	answer, err := s.Ask(s.ctx, replica, c.path, func(model string) ([]byte, error) { return compose(c.body, model) }, mostReply)
	if err != nil {
		spent = expected // of which the engine may have made some
		s.Log.Debug("no second answer", "replica", s.Table.Replicas[replica].Name, "error", err)
		return "", failed
	}
	if text, spent = read(answer); spent == 0 {
		spent = tokens.JSON([]byte(text))
	}
	s.metrics.tokens.Add(float64(spent))
	if text == "" {
		return "", noText
	}
	return text, labelled
}
