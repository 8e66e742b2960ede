package wire

import (
	"encoding/json"
	"math/bits"
)

// mostChoices bounds the choices of an answer that are counted separately.
const mostChoices = 1 << 16

// choices are those of a stream: how many there are, and which have stated why they ended.
// The zero value expects one.
type choices struct {
	expected int
	count    int      // one more than the highest index
	over     uint64   // the first 64 that have ended
	further  []uint64 // the others, 64 each
}

// seen notes that an event was of the choice with the index, and whether it was its end.
func (c *choices) seen(index int, over bool) {
	if index < 0 || index >= mostChoices {
		return
	}
	c.count = max(c.count, index+1)
	if !over {
		return
	}
	word, bit := index/64, uint64(1)<<(index%64)
	if word == 0 {
		c.over |= bit
		return
	}
	for len(c.further) < word {
		c.further = append(c.further, 0)
	}
	c.further[word-1] |= bit
}

// ended reports whether each choice has ended: those asked for, and those that have come.
func (c *choices) ended() bool {
	n := bits.OnesCount64(c.over)
	for _, word := range c.further {
		n += bits.OnesCount64(word)
	}
	return n >= max(1, c.expected, c.count)
}

// Chat is the body of a streamed chat request with that prompt, whose answer has so
// many tokens and states its usage: what those send who measure a server.
func Chat(model, prompt string, tokens int) ([]byte, error) {
	var b struct {
		Model         string     `json:"model"`
		Messages      [1]Message `json:"messages"`
		MaxTokens     int        `json:"max_tokens"`
		IgnoreEOS     bool       `json:"ignore_eos"`
		Stream        bool       `json:"stream"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	b.Model, b.MaxTokens = model, tokens
	b.Messages[0] = Message{Role: "user", Content: &prompt}
	b.IgnoreEOS, b.Stream, b.StreamOptions.IncludeUsage = true, true, true
	return json.Marshal(b)
}
