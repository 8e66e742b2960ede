package quality

import (
	"bytes"
	"strings"
	"time"

	"gearshift/router/fleet"
	"gearshift/serving/openai/wire"
)

// Example is a prompt that was given another variant than the best one. Examples are kept only where
// operators want prompts kept (quality.keep_prompts), and in memory alone.
type Example struct {
	Task    string `json:"task"`
	Prompt  string `json:"prompt"` // its beginning
	Variant string `json:"variant"`
	// Loss says by how much the best variant is predicted to have been better, and Sure how sure that is.
	Loss float64 `json:"loss"`
	Sure float64 `json:"sure"`
}

// The bounds of what is kept of prompts.
const (
	mostExamples = 20
	exampleBytes = 200
	exampleEvery = time.Second
)

// exemplify keeps the request as an example, if it is one and none was kept lately.
func (p *Predictors) exemplify(r *wire.Request, f *fleet.Request, variant int) {
	_, best := p.table.Range(f)
	loss := best - f.Predicted.Quality[variant]
	if loss <= 0 || !p.Settings().KeepPrompts {
		return
	}
	now, next := time.Now().UnixNano(), p.nextExample.Load()
	if now < next || !p.nextExample.CompareAndSwap(next, now+int64(exampleEvery)) {
		return
	}
	e := Example{
		Task: p.table.Tasks[f.Task].Name, Prompt: p.beginning(r), Variant: p.table.Variants[variant].Name,
		Loss: rounded(float64(loss)), Sure: rounded(float64(f.Predicted.Sure)),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.examples = append(p.examples, e); len(p.examples) > mostExamples {
		p.examples = p.examples[1:]
	}
}

// beginning copies the beginning of the request's last turn.
func (p *Predictors) beginning(r *wire.Request) string {
	x := p.idle()
	defer p.give(x)
	r.Turns(&x.turns)
	if len(x.turns.Parts) == 0 {
		return ""
	}
	text := x.turns.Parts[len(x.turns.Parts)-1]
	cut := text[:min(len(text), exampleBytes)]
	return strings.ToValidUTF8(string(bytes.TrimSpace(cut)), "")
}
