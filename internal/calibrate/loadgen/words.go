package loadgen

import (
	"context"
	"fmt"
	"math"
	"strings"
)

// tokenizer is how many tokens an engine makes of so many words.
type tokenizer struct{ fixed, word float64 }

// count is the words that make a prompt of so many tokens.
func (t tokenizer) count(tokens int) int {
	return max(1, int(math.Round((float64(tokens)-t.fixed)/t.word)))
}

// learnWords asks the engine for an answer to two prompts of different length, after
// one that warms it up.
func (r *run) learnWords(ctx context.Context, engine int) error {
	const few, many = 8, 48
	var tokens [2]int
	streams := false
	if _, err := r.targets[engine].ask(ctx, r.client, r.since, strings.Join(vocabulary[:few], " "), 16, nil); err != nil {
		return err
	}
	for i, words := range []int{few, many} {
		h, err := r.targets[engine].ask(ctx, r.client, r.since, r.prompt(words), 16, nil)
		if err != nil {
			return err
		}
		tokens[i] = h.Prompt
		const atOnce = 0.02 // of the time to the first token
		decoding := h.Pieces[len(h.Pieces)-1] - h.Pieces[0]
		streams = streams || h.Output < 2 || float64(decoding) >= atOnce*float64(h.Pieces[0]-h.Sent)
	}
	if !streams {
		return fmt.Errorf("cannot measure %s: it does not stream, all tokens come at once", r.targets[engine].URL)
	}
	t := tokenizer{word: float64(tokens[1]-tokens[0]) / (many - few)}
	if t.word <= 0 {
		return fmt.Errorf("cannot measure %s: prompts of %d and %d words have %d and %d tokens by its usage", r.targets[engine].URL, few, many, tokens[0], tokens[1])
	}
	t.fixed = math.Max(0, float64(tokens[0])-few*t.word)
	r.words[engine] = t
	return nil
}

// prompt is so many words, other ones each time, from the first on: what a prefix
// cache knew would be no prefill.
func (r *run) prompt(words int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for i := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(vocabulary[r.random.IntN(len(vocabulary))])
	}
	return b.String()
}

// vocabulary has words of four letters, so that byte-level tokenizers make as
// many tokens of each.
var vocabulary = strings.Fields(`able acid aged also area army away baby back ball band bank base bath bear beat been beer
bell belt best bill bird blow blue boat body bomb bond bone book boom born boss both bowl bulk burn bush busy call calm came
camp card care case cash cast cell chat chip city club coal coat code cold come cook cool cope copy core cost crew crop dark
data date dawn days dead deal dean dear debt deep deny desk dial diet disc disk does done door dose down draw drew drop drug
dual duke dust duty each earn ease east easy edge else even ever evil exit face fact fail fair fall farm fast fate fear feed
feel feet fell felt file fill film find fine fire firm fish five flat flow food foot ford form fort four free from fuel full
fund gain game gate gave gear gene gift girl give glad goal goes gold golf gone good gray grew grow gulf hair half hall hand`)
