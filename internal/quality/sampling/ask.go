package sampling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"gearshift/internal/calibrate/loadgen"
	"gearshift/router/quality/scoring"
	"gearshift/serving/openai/tokens"
)

// A request is sent at most attempts times, with a pause before each but the first that begins
// with firstPause and doubles.
const (
	attempts   = 5
	firstPause = time.Second
)

// framing bounds the tokens that a chat template adds to a prompt.
const framing = 32

// score asks every size, and returns the scores of their answers.
func (r *run) score(ctx context.Context, p *Prompt, s *share) ([]float64, error) {
	answers := make([]loadgen.Completion, len(r.Sizes))
	err := each(ctx, len(r.Sizes), func(ctx context.Context, i int) (err error) {
		answers[i], err = r.ask(ctx, r.Sizes[i].Ask, p, p.Text, s)
		if err != nil {
			err = fmt.Errorf("%s: %w", r.Sizes[i].Name, err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	for i, a := range answers {
		r.report.Sizes[i].add(a)
	}
	r.mu.Unlock()
	switch r.Kind {
	case scoring.Judge:
		return r.judged(ctx, p, answers, s)
	case scoring.Agreement:
		score, err := scoring.New(r.Kind, scoring.Reference{Answers: []string{answers[0].Text}})
		if err != nil {
			return nil, fmt.Errorf("the answer of %s: %w", r.Sizes[0].Name, err)
		}
		return values(answers, score), nil
	}
	return values(answers, p.Score), nil
}

// values returns the score of each answer.
func values(answers []loadgen.Completion, score scoring.Scorer) []float64 {
	scores := make([]float64, len(answers))
	for i, a := range answers {
		scores[i] = score(a.Text)
	}
	return scores
}

// each calls f for 0 to n-1 at once, and returns the first error, which ends the others.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range n {
		group.Go(func() error { return f(ctx, i) })
	}
	return group.Wait()
}

// ask sends a text, again where that may help, and counts the tokens.
func (r *run) ask(ctx context.Context, ask Ask, p *Prompt, text string, s *share) (loadgen.Completion, error) {
	length := estimate(text)
	for try, pause := 1, firstPause; ; try, pause = try+1, 2*pause {
		a, err := ask(ctx, loadgen.Question{Task: p.Task, Prompt: text, Tokens: r.MaxTokens})
		if err == nil {
			r.ratio.Learn(length, a.Prompt)
			s.spend(r.took(length, a))
			return a, nil
		}
		var refusal *loadgen.Refusal
		refused := errors.As(err, &refusal)
		if !refused { // the engine may have computed an answer, of which nothing came
			s.spend(r.most(length))
		}
		if ctx.Err() != nil || try == attempts || refused && !passing(refusal) {
			return a, explained(err, refusal)
		}
		if err := r.Wait(ctx, pause); err != nil {
			return a, err
		}
		if !refused && !s.extend(r.most(length)) {
			return a, errBudget
		}
	}
}

// passing reports whether a request that was refused may be taken later.
func passing(r *loadgen.Refusal) bool {
	const timeout, tooMany, broken = 408, 429, 500
	return r.StatusCode == timeout || r.StatusCode == tooMany || r.StatusCode >= broken
}

// explained adds what a refusal says of itself.
func explained(err error, r *loadgen.Refusal) error {
	if r == nil || r.Message == "" {
		return loadgen.Plain(err)
	}
	return fmt.Errorf("%w: %s", err, short(r.Message))
}

// took returns the tokens of a prompt and its answer, as the engine states them or else estimated.
func (r *run) took(length int, a loadgen.Completion) int {
	prompt, output := a.Prompt, a.Output
	if prompt == 0 {
		prompt = r.ratio.Of(length) + framing
	}
	if output == 0 {
		output = min(r.ratio.Of(estimate(a.Text)), r.MaxTokens)
	}
	return prompt + output
}

// most returns what a request of that estimated length takes at most.
func (r *run) most(length int) int { return r.ratio.Of(length) + framing + r.MaxTokens }

// cost returns what all requests of a prompt take at most.
func (r *run) cost(p *Prompt) int {
	length := estimate(p.Text)
	sum := len(r.Sizes) * r.most(length)
	if r.Kind == scoring.Judge {
		sum += 2 * (len(r.Sizes) - 1) * (r.most(estimate(r.Template)+length) + 2*r.MaxTokens)
	}
	return sum
}

// estimate returns about how many tokens a text has.
func estimate(text string) int {
	quoted, err := json.Marshal(text)
	if err != nil { // strings always encode
		panic(err)
	}
	return tokens.JSON(quoted[1 : len(quoted)-1])
}
