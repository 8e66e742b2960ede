package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"gearshift/serving/config/setting"
	"gearshift/serving/engines/address"
	"gearshift/serving/openai/wire"
)

// Server is an OpenAI-compatible server.
type Server struct {
	// URL as [Base] has it.
	URL string
	// Key, if not empty, is sent as a bearer token.
	Key string
	// Purpose is the verb of errors: what cannot be done to the URL.
	Purpose string
}

// Base is a server's URL without /v1, which is understood, and without the slash at its
// end; false if the text is none that [address.Parse] reads.
func Base(text string) (string, bool) {
	text = setting.Trim(text)
	if _, err := address.Parse(text); err != nil {
		return "", false
	}
	return strings.TrimSuffix(strings.TrimRight(text, "/"), "/v1"), true
}

// Transport is HTTP for who has as many connections as it needs, and keeps them.
func Transport() *http.Transport {
	return &http.Transport{Proxy: address.Proxy, DialContext: address.Dialer(new(net.Dialer).DialContext), MaxIdleConnsPerHost: 4096, IdleConnTimeout: 30 * time.Second, DisableCompression: true}
}

// ErrKey is that the server does not know the key, or misses one.
var ErrKey = errors.New("it asks for an API key that it knows")

// Model asks the server for its models, and is the one that is wanted: if that is
// empty, the only one there is.
func (s Server) Model(ctx context.Context, client *http.Client, wanted string) (string, error) {
	names, err := s.models(ctx, client)
	switch {
	case err != nil:
		return "", err
	case wanted == "" && len(names) == 1:
		return names[0], nil
	case wanted == "":
		return "", s.cannot(fmt.Errorf("it has several models; name one of %s", strings.Join(names, ", ")))
	case !slices.Contains(names, wanted):
		return "", s.cannot(fmt.Errorf("it has no model %q; it has %s", wanted, strings.Join(names, ", ")))
	}
	return wanted, nil
}

func (s Server) models(ctx context.Context, client *http.Client) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := s.request(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("cannot reach %s: %w", s.URL, Plain(err))
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusUnauthorized {
		return nil, s.cannot(ErrKey)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	var list wire.Models
	if err == nil && response.StatusCode == http.StatusOK {
		err = json.Unmarshal(body, &list)
	}
	if err != nil || response.StatusCode != http.StatusOK || len(list.Data) == 0 {
		return nil, s.cannot(fmt.Errorf("GET /v1/models answered %s without a list of models; it needs an OpenAI-compatible server", response.Status))
	}
	names := make([]string, len(list.Data))
	for i, m := range list.Data {
		names[i] = m.ID
	}
	return names, nil
}

func (s Server) chat(ctx context.Context, q Question) (*http.Request, error) {
	body, err := wire.Chat(q.Model, q.Prompt, q.Tokens)
	if err != nil {
		return nil, err
	}
	return s.post(ctx, q, body)
}

// post returns a chat request with the body, and with the question's task in its header.
func (s Server) post(ctx context.Context, q Question, body []byte) (*http.Request, error) {
	request, err := s.request(ctx, http.MethodPost, "/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if q.Task != "" {
		request.Header.Set("X-Gearshift-Task", q.Task)
	}
	return request, nil
}

func (s Server) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	server, err := address.Parse(s.URL)
	if err != nil {
		return nil, s.cannot(err)
	}
	to := server.To(&url.URL{Path: path})
	request, err := http.NewRequestWithContext(ctx, method, to.String(), body)
	if err != nil {
		return nil, s.cannot(err)
	}
	request.Host = address.Host(&to)
	if s.Key != "" {
		request.Header.Set("Authorization", "Bearer "+s.Key)
	}
	return request, nil
}

func (s Server) cannot(err error) error {
	return fmt.Errorf("cannot %s %s: %w", s.Purpose, s.URL, err)
}

// Plain is an error without the URL that the message has already.
func Plain(err error) error {
	var without *url.Error
	if errors.As(err, &without) {
		return without.Err
	}
	return err
}

// Refusal is an answer that is no success.
type Refusal struct {
	StatusCode int
	Status     string
	// Code and Message are those of its error, if it has one.
	Code, Message string
	// Later says that it names a time to try again after.
	Later bool
}

// Error is the kind of the refusal: its status, and the code of its error.
func (r *Refusal) Error() string {
	kind := fmt.Sprintf("status %d", r.StatusCode)
	if r.Code != "" {
		kind += " (" + r.Code + ")"
	}
	return kind
}

// do sends the request. What is answered in another way than with success is an
// error, a [*Refusal].
func do(client *http.Client, request *http.Request) (*http.Response, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	// To its end, as far as that is near: then the connection can serve the next request.
	text, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	var body struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(text, &body) // a body of another form has no error to read
	return nil, &Refusal{
		StatusCode: response.StatusCode, Status: response.Status,
		Code: body.Error.Code, Message: body.Error.Message, Later: response.Header.Get("Retry-After") != "",
	}
}
