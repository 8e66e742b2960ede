package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"gearshift/serving/openai/wire"
)

// Generation is one answer on its way through an engine. Its pieces are what the
// tokens add to the text, one for each; a piece may be empty.
type Generation interface {
	// ID identifies the answer among the engine's.
	ID() uint64
	// Wait returns once there are more than the given pieces, or the answer has
	// ended, and why if it ended short.
	Wait(pieces int) (now int, done bool, err error)
	// Piece is the i-th, which Wait has counted.
	Piece(i int) string
	// Finish is why the answer ended, "stop" or "length". Usage counts the
	// tokens. Both hold once the answer has ended.
	Finish() wire.Optional
	Usage() (prompt, output int)
	// Cancel ends the answer with the error, unless it has ended.
	Cancel(cause error)
}

// Generator starts answers.
type Generator interface {
	// Model is the name that answers carry.
	Model() string
	// Generate reads the body of a request for a chat or a completion, and
	// starts its answer. What is wrong with the body is a fault; an error is
	// for an engine that is not there.
	Generate(body []byte, chat bool) (Generation, *wire.Error, error)
}

// Front is a [Generator] behind OpenAI's wire forms of chats and completions.
type Front struct{ generator Generator }

// NewFront puts the generator behind an [http.RoundTripper].
func NewFront(g Generator) *Front { return &Front{g} }

// RoundTrip implements [http.RoundTripper]. The work is cancelled with the
// request's context, or when a streamed answer's body is closed.
func (f *Front) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := readBody(request)
	if err != nil {
		return nil, err
	}
	chat := request.URL.Path == ChatPath
	if !chat && request.URL.Path != CompletionPath || request.Method != http.MethodPost {
		return Refuse(request, http.StatusNotFound, NoEndpoint("this engine", request)), nil
	}
	var shape struct {
		Stream        bool           `json:"stream"`
		StreamOptions *streamOptions `json:"stream_options"`
	}
	if fault := ReadMembers(body, &shape); fault != nil {
		return Refuse(request, http.StatusBadRequest, *fault), nil
	}
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	generation, fault, err := f.generator.Generate(body, chat)
	if err != nil {
		return nil, err
	}
	if fault != nil {
		return Refuse(request, http.StatusBadRequest, *fault), nil
	}
	w := newWork(request.Context(), generation, f.generator.Model(), chat)
	w.usage = shape.StreamOptions.usage()
	if shape.Stream {
		return w.stream(request), nil
	}
	return w.whole(request)
}

func readBody(request *http.Request) ([]byte, error) {
	if request.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(request.Body)
	request.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("cannot read request: %w", err)
	}
	return body, nil
}

// ReadMembers reads the members of a JSON object that the struct that into points
// to has.
func ReadMembers(body []byte, into any) *wire.Error {
	if err := wire.Decode(body, into, false); err != nil {
		e := invalid("", err.Error())
		errors.As(err, &e)
		return &e
	}
	return nil
}

// streamOptions is what a request says of its stream.
type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

func (s *streamOptions) usage() bool { return s != nil && s.IncludeUsage }

// work is an answer together with the request that it is for.
type work struct {
	Generation
	chat  bool
	usage bool
	call  *wire.Function // to answer with in place of text, or nil
	base  wire.Answer    // what all events of the answer share
	stop  func() bool    // lets go of the context
}

func newWork(ctx context.Context, g Generation, model string, chat bool) *work {
	w := &work{Generation: g, chat: chat}
	w.base = wire.Answer{ID: fmt.Sprintf("cmpl-%012x", g.ID()), Object: wire.CompletionObject, Created: time.Now().Unix(), Model: model}
	if chat {
		w.base.ID, w.base.Object = "chat"+w.base.ID, wire.ChatObject
	}
	w.stop = context.AfterFunc(ctx, func() { g.Cancel(context.Cause(ctx)) })
	return w
}

func (w *work) finish() wire.Optional {
	if w.call != nil {
		return "tool_calls"
	}
	return w.Finish()
}

func (w *work) spent() *wire.Usage {
	prompt, output := w.Usage()
	return &wire.Usage{PromptTokens: prompt, CompletionTokens: output, TotalTokens: prompt + output}
}

// whole waits for the end and answers in one piece.
func (w *work) whole(request *http.Request) (*http.Response, error) {
	defer w.stop()
	text, err := w.text()
	if err != nil {
		return nil, err
	}
	answer := w.base
	answer.Usage = w.spent()
	choice := wire.Choice{FinishReason: w.finish()}
	switch {
	case w.call != nil:
		choice.Message = &wire.Message{Role: "assistant", ToolCalls: []wire.ToolCall{{ID: w.callID(), Type: "function", Function: *w.call}}}
	case w.chat:
		choice.Message = &wire.Message{Role: "assistant", Content: &text}
	default:
		choice.Text = &text
	}
	answer.Choices = []wire.Choice{choice}
	body, err := json.Marshal(answer)
	if err != nil {
		return nil, fmt.Errorf("cannot encode answer: %w", err)
	}
	return Respond(request, http.StatusOK, body), nil
}

// text waits for all pieces.
func (w *work) text() (string, error) {
	var b []byte
	for i := 0; ; {
		now, done, err := w.Wait(i)
		if err != nil {
			return "", err
		}
		for ; i < now; i++ {
			b = append(b, w.Piece(i)...)
		}
		if done {
			return string(b), nil
		}
	}
}
