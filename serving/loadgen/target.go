package loadgen

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"gearshift/serving/wire"
)

// Target is an engine that answers for a model.
type Target struct {
	// URL of the server, with or without /v1.
	URL string
	// Model to ask for. Empty is the only one that the server has.
	Model string
	// Key, if not empty, is sent as a bearer token.
	Key string

	task string // of a request to a router
}

// Parse reads a target written as URL or URL=MODEL.
func Parse(text string) (Target, error) {
	t := Target{URL: text}
	// An URL may hold an equals sign in a query, which no server's base has.
	if address, model, named := strings.Cut(text, "="); named {
		t.URL, t.Model = address, model
	}
	base, ok := Base(t.URL)
	if !ok {
		return t, fmt.Errorf("%q: want the URL of an engine, such as http://127.0.0.1:8101/v1, or URL=MODEL", text)
	}
	t.URL = base
	return t, nil
}

// ErrRefused is that an engine does not take a request as it is: one too long, or
// one too many. Others may do.
var ErrRefused = errors.New("refused")

func (t *Target) server() Server {
	return Server{URL: t.URL, Key: t.Key, Purpose: "measure"}
}

// heard is what came back of a request, in times since the measurement's start.
type heard struct {
	prompt, output int // tokens, by the engine's usage
	sent           time.Duration
	tokens         []time.Duration // when each piece of content came
	end            time.Duration
	header         http.Header
}

// ask sends a request for so many tokens and reads the answer to its end.
func (t *Target) ask(ctx context.Context, client *http.Client, since func() time.Duration, prompt string, tokens int, first func()) (heard, error) {
	request, err := t.server().Chat(ctx, t.Model, t.task, prompt, tokens)
	if err != nil {
		return heard{}, err
	}
	h := heard{sent: since()}
	response, err := Do(client, request)
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return h, t.refused(refusal)
	}
	if err != nil {
		return h, t.gone(ctx, err)
	}
	defer response.Body.Close()
	h.header = response.Header
	if err := h.read(response.Body, since, first); err != nil {
		return h, t.gone(ctx, err)
	}
	h.end = since()
	if len(h.tokens) == 0 {
		return h, fmt.Errorf("cannot measure %s: an answer of %s has no content", t.URL, t.Model)
	}
	if h.prompt == 0 || h.output == 0 {
		return h, fmt.Errorf("cannot measure %s: it does not tell the tokens of an answer (usage, with stream_options.include_usage)", t.URL)
	}
	return h, nil
}

// read takes the stream in, line by line, and notes when content comes.
func (h *heard) read(body io.Reader, since func() time.Duration, first func()) error {
	meter := wire.NewMeter(true)
	lines := bufio.NewReaderSize(body, 64<<10)
	begun := time.Duration(-1)
	for pieces, stated := 0, false; ; {
		line, err := lines.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			return errors.New("a line of the answer is too long")
		}
		before := meter.Begun()
		_, _ = meter.Write(line)
		content := false
		if h.usage(line) {
			before, stated, content = true, true, hasContent(line)
		} else if !stated {
			content = meter.Tokens() > pieces
			pieces = meter.Tokens()
		} else {
			content = hasContent(line)
		}
		if !before && meter.Begun() {
			begun = since()
		}
		if content {
			if len(h.tokens) == 0 && first != nil {
				first()
			}
			h.tokens = append(h.tokens, since())
		}
		if err == io.EOF {
			meter.Close()
			if meter.Failed() || !meter.Finished() {
				return errors.New("an answer broke off")
			}
			if len(h.tokens) == 0 && begun >= 0 { // an answer of special tokens, which have no text
				h.tokens = append(h.tokens, begun)
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// usage takes in the counts of tokens, and says whether the event has them: the
// last one has, and of some engines each.
func (h *heard) usage(line []byte) bool {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok || !bytes.Contains(line, []byte(`"usage"`)) {
		return false
	}
	var event struct {
		Usage *wire.Usage `json:"usage"`
	}
	if json.Unmarshal(data, &event) != nil || event.Usage == nil {
		return false
	}
	h.prompt, h.output = event.Usage.PromptTokens, event.Usage.CompletionTokens
	return true
}

// hasContent says whether an event has content, whatever else it has.
func hasContent(line []byte) bool {
	alone := wire.NewMeter(true)
	_, _ = alone.Write(line)
	return alone.Started()
}

// refused is an answer that is no success.
func (t *Target) refused(r *Refusal) error {
	why := r.Status
	if r.Message != "" {
		why += ": " + oneLine(r.Message)
	}
	switch {
	case r.StatusCode == http.StatusTooManyRequests, r.StatusCode == http.StatusServiceUnavailable && r.Later,
		r.StatusCode == http.StatusBadRequest, r.StatusCode == http.StatusRequestEntityTooLarge:
		return fmt.Errorf("%s: %w with %s", t.Model, ErrRefused, why)
	}
	return fmt.Errorf("cannot measure %s: it answered %s", t.URL, why)
}

// gone is that the engine went away, or the measurement was ended.
func (t *Target) gone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("the engine at %s went away: %w", t.URL, Plain(err))
}

func oneLine(text string) string {
	const most = 200
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}
