package work

import (
	"gearshift/serving/openai/tokens"
	"gearshift/serving/openai/wire"
)

// Prompts correct the estimated lengths of prompts by what engines count, for each task: a task's
// prompts are of one kind, and the sizes of a model have one vocabulary.
type Prompts []tokens.Ratio

// Tokens is the length of a prompt as far as is known. Token ids and media are not corrected.
func (p Prompts) Tokens(task int, prompt wire.Prompt) int {
	return prompt.IDs + prompt.Media + p[task].Of(prompt.Text+prompt.Marks)
}

// Learn takes in what the engine counted of the work's prompt. A prompt of which the request does
// not show all is ignored, as is one that is longer than the replica can hold.
func (p Prompts) Learn(w *Work, counted int) {
	prompt := w.Prompt
	room := w.adapter.router.Table().Replicas[w.Replica].KVTokens
	if prompt.Hidden || prompt.IDs > prompt.Text || room > 0 && counted > room {
		return
	}
	p[w.Request.Task].Learn(prompt.Text+prompt.Marks, counted-prompt.IDs)
}
