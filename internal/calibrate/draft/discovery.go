package draft

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"gearshift/internal/calibrate/loadgen"
	"gearshift/serving/engines/address"
	"gearshift/serving/openai/wire"
)

// This file asks inference servers what they are: their models, contexts and
// caches, by the endpoints that all OpenAI-compatible servers have and by those of vLLM,
// SGLang, llama.cpp and Ollama.

// Target is an engine to ask.
type Target struct {
	Host string
	// URL of its base, with or without /v1.
	URL string
	// KeyEnv names the environment variable that Key is from; both may be empty.
	KeyEnv, Key string
}

// Asker asks engines.
type Asker struct {
	Client *http.Client
	// Timeout of each question; of a probe ten times that.
	Timeout time.Duration
	// Probe sends each model a short request, to time its tokens.
	Probe bool
}

// longest is the most that is read of an answer.
const longest = 8 << 20

// engine is one under way.
type askedEngine struct {
	*Asker
	target Target
	root   string // without the version that its OpenAI interface is under
	base   string // with it
	list   wire.Listing
	out    Engine
}

// Ask asks the engine. Its error is one line that says what was tried.
func (a *Asker) Ask(ctx context.Context, t Target) (Engine, error) {
	server, err := address.Parse(t.URL)
	if err != nil {
		return Engine{}, fmt.Errorf("%q is not a URL; want http:// or https://, a host and a port, such as http://127.0.0.1:8000, or unix: and the path of a socket", t.URL)
	}
	trimmed := func(u url.URL) string { return strings.TrimSuffix(u.String(), "/") }
	e := askedEngine{Asker: a, target: t, root: trimmed(server.Root), base: trimmed(server.API)}
	e.out = Engine{Host: t.Host, URL: e.base, Key: t.KeyEnv, Kind: Other}
	if address.IsSocket(t.URL) {
		e.out.URL = t.URL
	}
	if err := e.models(ctx); err != nil {
		return e.out, err
	}
	e.metrics(ctx)
	e.ask(ctx)
	e.repository(ctx)
	if len(e.out.Models) == 0 && len(e.out.Unloaded) > 0 {
		return e.out, fmt.Errorf("%s has no model loaded; its repository has %s: load them, then repeat this command", t.URL, strings.Join(e.out.Unloaded, ", "))
	}
	e.contexts(ctx)
	if len(e.out.Models) == 0 {
		return e.out, fmt.Errorf("%s lists no model that answers with text; tried GET %s/models", t.URL, address.Readable(e.base))
	}
	if a.Probe {
		for i := range e.out.Models {
			if err := e.probe(ctx, &e.out.Models[i]); err != nil {
				return e.out, err
			}
		}
	}
	return e.out, ctx.Err()
}

// ask asks the engine's own endpoints for more. It tries all of them for an unknown kind.
func (e *askedEngine) ask(ctx context.Context) {
	for _, k := range []struct {
		kind Kind
		ask  func(context.Context) bool
	}{{SGLang, e.sglang}, {LlamaCpp, e.llamaCpp}, {Ollama, e.ollama}} {
		if e.out.Kind != k.kind && e.out.Kind != Other {
			continue
		}
		if k.ask(ctx) {
			e.out.Kind = k.kind
			return
		}
	}
}

// listed is an entry of /v1/models, with what vLLM, SGLang and llama.cpp add.
type listed struct {
	ID      string  `json:"id"`
	OwnedBy string  `json:"owned_by"`
	Parent  *string `json:"parent"` // of an adapter, the model that it changes
	Meta    struct {
		Parameters float64 `json:"n_params"`
		Size       int64   `json:"size"`
	} `json:"meta"`
}

var kinds = map[string]Kind{
	"vllm": VLLM, "sglang": SGLang, "llamacpp": LlamaCpp, "library": Ollama, "gearshift-engine": Gearshift,
}

func (e *askedEngine) models(ctx context.Context) error {
	var list struct {
		Data []listed `json:"data"`
	}
	tried := e.base + "/models"
	body, err := e.page(ctx, tried)
	if err == nil {
		err = json.Unmarshal(body, &list)
	}
	if err != nil {
		return e.fault(tried, err)
	}
	e.list, _ = wire.ParseListing(body)
	for _, l := range list.Data {
		if l.ID == "" || l.Parent != nil && *l.Parent != "" { // an adapter shares its model's engine
			continue
		}
		if k, ok := kinds[l.OwnedBy]; ok {
			e.out.Kind = k
		}
		e.out.Models = append(e.out.Models, Model{ID: l.ID, Parameters: l.Meta.Parameters, WeightBytes: l.Meta.Size})
	}
	return nil
}

// contexts fills in the contexts that are not known yet, by what a router reads of them.
func (e *askedEngine) contexts(ctx context.Context) {
	var page []byte
	if path := e.list.Page(); path != "" {
		page, _ = e.page(ctx, e.root+path) // not every version has it
	}
	for i := range e.out.Models {
		m := &e.out.Models[i]
		first(&m.Context, wire.PageContext(page, m.ID), e.list.Context(m.ID))
	}
}

// fault is why an engine is of no use, in one line.
func (e *askedEngine) fault(tried string, err error) error {
	tried = address.Readable(tried)
	var status *statusError
	switch {
	case errors.As(err, &status) && (status.code == http.StatusUnauthorized || status.code == http.StatusForbidden):
		hint := "; want --key-env VARIABLE, the environment variable that has it"
		if e.target.KeyEnv != "" {
			hint = ", and not that of " + e.target.KeyEnv
		}
		return fmt.Errorf("%s requires an API key%s (tried GET %s: status %d)", e.target.URL, hint, tried, status.code)
	case errors.As(err, &status):
		return fmt.Errorf("%s is not an OpenAI-compatible server: tried GET %s: status %d; want the base of its API, with or without /v1", e.target.URL, tried, status.code)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s does not answer: tried GET %s for %v", e.target.URL, tried, e.Timeout)
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &kind) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("%s is not an OpenAI-compatible server: the answer of GET %s is not a list of models", e.target.URL, tried)
	}
	return fmt.Errorf("%s does not answer: tried GET %s: %w", e.target.URL, tried, loadgen.Plain(err))
}

// statusError is an answer that is no success.
type statusError struct {
	code int
	// said is the engine's message; empty where it has none.
	said string
}

// Error implements error.
func (s *statusError) Error() string {
	if s.said == "" {
		return fmt.Sprintf("status %d", s.code)
	}
	return fmt.Sprintf("status %d: %q", s.code, s.said)
}

// refusal reads an answer that is no success.
func refusal(r *http.Response) *statusError {
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&body) != nil {
		return &statusError{code: r.StatusCode}
	}
	return &statusError{r.StatusCode, body.Error.Message[:min(len(body.Error.Message), 200)]}
}

func (e *askedEngine) get(ctx context.Context, at string, v any) error {
	return e.exchange(ctx, http.MethodGet, at, nil, func(r io.Reader) error { return json.NewDecoder(r).Decode(v) })
}

// page returns what the engine has at the address.
func (e *askedEngine) page(ctx context.Context, at string) (body []byte, err error) {
	err = e.exchange(ctx, http.MethodGet, at, nil, func(r io.Reader) (err error) {
		body, err = io.ReadAll(r)
		return err
	})
	return body, err
}

// exchange returns a question and what is read of its answer.
func (e *askedEngine) exchange(ctx context.Context, method, at string, body io.Reader, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, at, body)
	if err != nil {
		return err
	}
	request.Host = address.Host(request.URL)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if e.target.Key != "" {
		request.Header.Set("Authorization", "Bearer "+e.target.Key)
	}
	response, err := e.Client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return refusal(response)
	}
	return read(io.LimitReader(response.Body, longest))
}
