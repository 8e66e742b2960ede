package loadgen

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"gearshift/serving/openai/wire"
)

// Completion is an answer that came as one.
type Completion struct {
	Text string
	// Prompt and Output are the tokens that the server states; 0 if it does not.
	Prompt, Output int
	// Cut reports that the answer ended at the bound on its tokens.
	Cut bool
}

// longestAnswer bounds the body of an answer that comes as one.
const longestAnswer = 16 << 20

// Complete sends a request whose answer ends where the model ends it, after q.Tokens at the latest,
// and returns it whole. The error is a [*Refusal] where the server answered in another way than with
// success. First of the question is not called.
func (s Server) Complete(ctx context.Context, client *http.Client, q Question) (Completion, error) {
	body, err := json.Marshal(struct {
		Model     string          `json:"model"`
		Messages  [1]wire.Message `json:"messages"`
		MaxTokens int             `json:"max_tokens"`
	}{q.Model, [1]wire.Message{{Role: "user", Content: &q.Prompt}}, q.Tokens})
	if err != nil {
		return Completion{}, err
	}
	request, err := s.post(ctx, q, body)
	if err != nil {
		return Completion{}, err
	}
	response, err := do(client, request)
	if err != nil {
		return Completion{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, longestAnswer))
	if err != nil {
		return Completion{}, err
	}
	return parseCompletion(text)
}

// parseCompletion reads the first choice of a chat completion.
func parseCompletion(text []byte) (Completion, error) {
	var body struct {
		Choices []struct {
			Message *struct {
				Content string `json:"content"` // null stays empty
			} `json:"message"`
			FinishReason string `json:"finish_reason"`
		} `json:"choices"`
		Usage wire.Usage `json:"usage"`
	}
	if err := json.Unmarshal(text, &body); err != nil || len(body.Choices) == 0 || body.Choices[0].Message == nil {
		return Completion{}, errors.New("the answer is no chat completion: it needs an OpenAI-compatible server")
	}
	first := body.Choices[0]
	return Completion{
		Text: first.Message.Content, Cut: first.FinishReason == "length",
		Prompt: body.Usage.PromptTokens, Output: body.Usage.CompletionTokens,
	}, nil
}
