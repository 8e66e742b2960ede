// Package sampling makes labels for quality predictors by asking engines: each prompt is sent to
// every size, and the answers are scored. It writes lines that "gearshift quality fit" reads, and
// goes on where an earlier run stopped. A size is asked through an [Ask], which [Config.Connect] makes
// for a server.
package sampling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gearshift/internal/calibrate/loadgen"
	"gearshift/router/quality/scoring"
	"gearshift/serving/openai/tokens"
)

// Ask sends a question to one size of a model and returns its whole answer.
type Ask func(ctx context.Context, q loadgen.Question) (loadgen.Completion, error)

// Size is one column of the labels.
type Size struct {
	Name string
	Ask  Ask
}

// Config says what to ask, and how to score the answers.
type Config struct {
	// Sizes to ask, the largest first.
	Sizes []Size
	// Prompts in the order in which to ask them, as [Read] and [Draw] return them.
	Prompts []Prompt
	Kind    scoring.Kind
	// Judge compares each size's answer with the largest's, with [scoring.Judge] alone. Template is
	// its prompt, see [scoring.CheckTemplate].
	Judge    Ask
	Template string
	// MaxTokens bounds each answer, Budget the tokens of all prompts and answers; 0 is no bound.
	MaxTokens int
	Budget    int
	// Concurrency is the number of prompts that are with the engines at once.
	Concurrency int
	// Write takes each label as soon as it is known, one at a time.
	Write func(Label) error
	// Wait pauses before a request is sent again; nil waits by the clock.
	Wait func(ctx context.Context, d time.Duration) error
	// Progress, if not nil, is called after each prompt, one at a time.
	Progress func(done, total int)
}

// mostFailures bounds the prompts that fail in a row: engines that are gone would only cost tokens.
const mostFailures = 20

// run is a sampling under way.
type run struct {
	Config
	budget *budget
	ratio  tokens.Ratio // of what engines count to what is estimated

	mu     sync.Mutex // protects all below, and Write and Progress
	report Report
	begun  int   // prompts
	row    int   // failures since the last label
	stop   bool  // no further prompt is begun
	fault  error // a label that cannot be written
}

// Run asks the prompts and returns what came of it, also with an error. It ends early, without an
// error, where the budget is used up. It is an error if no prompt was labelled, if too many failed
// in a row, or if a label cannot be written.
func Run(ctx context.Context, c Config) (Report, error) {
	if c.Wait == nil {
		c.Wait = wait
	}
	r := &run{Config: c, budget: newBudget(c.Budget), report: newReport(c)}
	var workers sync.WaitGroup
	for range max(1, c.Concurrency) {
		workers.Go(func() {
			for p := r.next(ctx); p != nil; p = r.next(ctx) {
				r.one(ctx, p)
			}
		})
	}
	workers.Wait()
	r.report.Tokens = r.budget.used
	return r.report, r.verdict(ctx)
}

// next returns the prompt to ask next; nil if there is none, or none is to be begun.
func (r *run) next(ctx context.Context) *Prompt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop || ctx.Err() != nil || r.begun == len(r.Prompts) {
		return nil
	}
	r.begun++
	return &r.Prompts[r.begun-1]
}

// one asks a prompt, writes its label and enters how it went.
func (r *run) one(ctx context.Context, p *Prompt) {
	share, ok := r.budget.reserve(r.cost(p))
	var scores []float64
	err := errBudget
	if ok {
		scores, err = r.score(ctx, p, share)
		share.release()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case ctx.Err() != nil && err != nil:
		return
	case errors.Is(err, errBudget):
		r.stop, r.report.OutOfBudget = true, true
		return
	case err != nil:
		r.row++
		r.stop = r.stop || r.row == mostFailures
		r.report.Failed, r.report.Fault = r.report.Failed+1, err
	default:
		r.row = 0
		r.written(p, scores)
	}
	if r.Progress != nil {
		r.Progress(r.report.Labelled+r.report.Failed, len(r.Prompts))
	}
}

// written writes a label and counts it. The lock is held.
func (r *run) written(p *Prompt, scores []float64) {
	label := Label{Prompt: p.Text, Scores: map[string]float64{}, Task: p.Task, Group: p.Group}
	for i, s := range r.Sizes {
		label.Scores[s.Name] = scores[i]
	}
	if err := r.Write(label); err != nil {
		r.fault, r.stop = cmp.Or(r.fault, err), true
		return
	}
	r.report.Labelled++
	for i := range r.Sizes {
		r.report.Sizes[i].sum += scores[i]
	}
}

// verdict returns why the run as a whole is an error.
func (r *run) verdict(ctx context.Context) error {
	n := &r.report
	switch {
	case r.fault != nil:
		return r.fault
	case ctx.Err() != nil:
		return ctx.Err()
	case n.Failed > 0 && n.Labelled == 0:
		return fmt.Errorf("no prompt was labelled: %d failed, the last with: %w", n.Failed, n.Fault)
	case r.row >= mostFailures:
		return fmt.Errorf("stopped, since %d prompts in a row failed, the last with: %w", r.row, n.Fault)
	case n.OutOfBudget && n.Labelled == 0:
		return fmt.Errorf("no prompt was labelled: a budget of %d tokens is too small for one, which may take %d", r.Budget, r.cost(&r.Prompts[0]))
	}
	return nil
}

// wait pauses by the clock.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
