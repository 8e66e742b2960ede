package sampling

import (
	"context"
	"fmt"
	"os"
	"strings"

	"gearshift/internal/calibrate/loadgen"
	"gearshift/router/quality/scoring"
)

// ReadTemplate reads the judge's prompt from a file; without a path it returns [scoring.Template].
func ReadTemplate(path string) (string, error) {
	if path == "" {
		return scoring.Template, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("--judge-prompt: %w", err)
	}
	if err := scoring.CheckTemplate(string(text)); err != nil {
		return "", fmt.Errorf("--judge-prompt %s: %w", path, err)
	}
	return string(text), nil
}

// judged returns the scores of answers that a judge compares with the largest's, each in both
// orders. The largest itself has .5, as good as itself.
func (r *run) judged(ctx context.Context, p *Prompt, answers []loadgen.Completion, s *share) ([]float64, error) {
	scores := make([]float64, len(answers))
	scores[0] = 0.5
	largest := answers[0].Text
	for i := 1; i < len(answers); i++ {
		text := answers[i].Text
		if strings.TrimSpace(text) == strings.TrimSpace(largest) {
			scores[i] = 0.5 // nothing to ask
			continue
		}
		var said [2]scoring.Verdict
		err := each(ctx, len(said), func(ctx context.Context, turned int) (err error) {
			a, b := text, largest
			if turned == 1 {
				a, b = b, a
			}
			said[turned], err = r.compare(ctx, p, a, b, s)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("the judge of %s: %w", r.Sizes[i].Name, err)
		}
		scores[i] = scoring.Compared(said[0], said[1])
		r.mu.Lock()
		r.report.Compared++
		if said[0] != -said[1] {
			r.report.Disagreed++
		}
		r.mu.Unlock()
	}
	return scores, nil
}

// compare asks the judge which of two answers is better.
func (r *run) compare(ctx context.Context, p *Prompt, a, b string, s *share) (scoring.Verdict, error) {
	said, err := r.ask(ctx, r.Judge, &Prompt{}, scoring.Fill(r.Template, p.Text, a, b), s)
	if err != nil {
		return 0, err
	}
	v, ok := scoring.ParseVerdict(said.Text)
	if !ok {
		why := "has no verdict"
		if said.Cut {
			why = "was cut before its verdict"
		}
		return 0, fmt.Errorf("its answer %s (A, B or tie): %q", why, short(said.Text))
	}
	return v, nil
}
