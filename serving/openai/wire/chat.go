package wire

import "encoding/json"

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
