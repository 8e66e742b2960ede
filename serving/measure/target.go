package measure

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
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
	u, err := url.Parse(t.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return t, fmt.Errorf("%q: want the URL of an engine, such as http://127.0.0.1:8101/v1, or URL=MODEL", text)
	}
	t.URL = strings.TrimSuffix(strings.TrimSuffix(t.URL, "/"), "/v1")
	return t, nil
}

// ErrRefused is that an engine does not take a request as it is: one too long, or
// one too many. Others may do.
var ErrRefused = errors.New("refused")

// models asks the engine what it serves, and settles the target's model.
func (t *Target) models(ctx context.Context, client *http.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := t.request(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("cannot reach %s: %w", t.URL, plain(err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	var list wire.Models
	if err == nil && response.StatusCode == http.StatusOK {
		err = json.Unmarshal(body, &list)
	}
	if err != nil || response.StatusCode != http.StatusOK || len(list.Data) == 0 {
		return fmt.Errorf("cannot measure %s: GET /v1/models answered %s without a list of models; it needs an OpenAI-compatible server", t.URL, response.Status)
	}
	names := make([]string, len(list.Data))
	for i, m := range list.Data {
		names[i] = m.ID
	}
	switch {
	case t.Model == "" && len(names) == 1:
		t.Model = names[0]
	case t.Model == "":
		return fmt.Errorf("cannot measure %s: it has several models; name one of %s", t.URL, strings.Join(names, ", "))
	case !slices.Contains(names, t.Model):
		return fmt.Errorf("cannot measure %s: it has no model %q; it has %s", t.URL, t.Model, strings.Join(names, ", "))
	}
	return nil
}

func (t *Target) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, method, t.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("cannot measure %s: %w", t.URL, err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if t.Key != "" {
		request.Header.Set("Authorization", "Bearer "+t.Key)
	}
	return request, nil
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
	body, err := wire.Chat(t.Model, prompt, tokens)
	if err != nil {
		return heard{}, err
	}
	request, err := t.request(ctx, http.MethodPost, "/v1/chat/completions", body)
	if err != nil {
		return heard{}, err
	}
	if t.task != "" {
		request.Header.Set("X-Gearshift-Task", t.task)
	}
	h := heard{sent: since()}
	response, err := client.Do(request)
	if err != nil {
		return h, t.gone(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return h, t.refused(response)
	}
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
func (t *Target) refused(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(text, &body)
	why := response.Status
	if body.Error.Message != "" {
		why += ": " + oneLine(body.Error.Message)
	}
	if status := response.StatusCode; status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable && response.Header.Get("Retry-After") != "" || status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge {
		return fmt.Errorf("%s: %w with %s", t.Model, ErrRefused, why)
	}
	return fmt.Errorf("cannot measure %s: it answered %s", t.URL, why)
}

// gone is that the engine went away, or the measurement was ended.
func (t *Target) gone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("the engine at %s went away: %w", t.URL, plain(err))
}

// plain is an error without the URL that the message has already.
func plain(err error) error {
	var without *url.Error
	if errors.As(err, &without) {
		return without.Err
	}
	return err
}

func oneLine(text string) string {
	const most = 200
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}
