package classifier

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"gearshift/serving/backend"
	"gearshift/serving/wire"
)

// order is a request: text, image and sound, each of which may be left out.
type order struct {
	Input *string `json:"input"`
	Image string  `json:"image"` // PNG or JPEG, in base 64
	Audio string  `json:"audio"` // WAV, in base 64
}

// answer is the form of vLLM's /classify.
type answer struct {
	ID      string  `json:"id"`
	Object  string  `json:"object"`
	Created int64   `json:"created"`
	Model   string  `json:"model"`
	Data    []class `json:"data"`
	Usage   struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	} `json:"usage"`
	// Modalities are those that the answer rests on.
	Modalities []string `json:"modalities"`
}

type class struct {
	Index   int       `json:"index"`
	Label   string    `json:"label"`
	Probs   []float64 `json:"probs"`
	Classes int       `json:"num_classes"`
}

// RoundTrip implements [http.RoundTripper].
func (e *Engine) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, fmt.Errorf("cannot read request: %w", err)
		}
	}
	if r.Method == http.MethodPost && asksToInfer(r.URL.Path) {
		return e.infer(r, body)
	}
	if r.Method != http.MethodPost || r.URL.Path != backend.ClassifyPath {
		return backend.Refuse(r, http.StatusNotFound, backend.NoEndpoint("a classifier", r)), nil
	}
	in, fault := e.read(body)
	if fault != nil {
		return backend.Refuse(r, http.StatusBadRequest, *fault), nil
	}
	j, err := e.classify(r, in)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(e.answer(j))
	if err != nil {
		return nil, fmt.Errorf("cannot encode answer: %w", err)
	}
	return backend.Respond(r, http.StatusOK, text), nil
}

// read makes an input of the request.
func (e *Engine) read(body []byte) (in Input, fault *wire.Error) {
	var o order
	if fault := backend.ReadMembers(body, &o); fault != nil {
		return in, fault
	}
	if o.Input != nil && *o.Input != "" {
		if longest := e.tokenizer.Longest(); len(*o.Input) <= longest*e.config.Context {
			in.Tokens = e.tokenizer.Prompt(*o.Input)
		}
		if n := len(in.Tokens); n == 0 || n > e.config.Context {
			fault := invalid("input", fmt.Sprintf("the text is longer than the context of %s, %d tokens", e.config.Name, e.config.Context))
			fault.Code = "context_length_exceeded"
			return in, fault
		}
	}
	layout := e.model.Layout()
	in.Image, fault = media("image", "PNG or JPEG", o.Image, func(data []byte) ([]float32, error) { return readImage(data, layout.ImageSide) })
	if fault != nil {
		return in, fault
	}
	in.Audio, fault = media("audio", "WAV of 16-bit PCM", o.Audio, func(data []byte) ([]float32, error) {
		return readWAV(data, e.config.SamplingRate, layout.AudioSamples)
	})
	if fault != nil {
		return in, fault
	}
	if in.Tokens == nil && in.Image == nil && in.Audio == nil {
		return in, invalid("input", `there is nothing to classify; want "input" (text), "image" or "audio", or several of them`)
	}
	return in, nil
}

// media reads a member in base 64, nil if it is empty.
func media(name, form, text string, read func([]byte) ([]float32, error)) ([]float32, *wire.Error) {
	if text == "" {
		return nil, nil
	}
	data, err := base64.StdEncoding.DecodeString(text)
	var values []float32
	if err == nil {
		values, err = read(data)
	}
	if err != nil {
		return nil, invalid(name, fmt.Sprintf("%q must be a %s in base 64: %v", name, form, err))
	}
	return values, nil
}

// answer has the likeliest label, and how likely each is.
func (e *Engine) answer(j *job) *answer {
	a := &answer{
		ID: fmt.Sprintf("classify-%012x", j.id), Object: "list", Created: time.Now().Unix(), Model: e.config.Name,
		Data: []class{{Classes: len(j.logits), Probs: make([]float64, len(j.logits))}},
	}
	best, sum := 0, 0.0
	for i, l := range j.logits {
		if l > j.logits[best] {
			best = i
		}
	}
	probs := a.Data[0].Probs
	for i, l := range j.logits {
		probs[i] = math.Exp(float64(l) - float64(j.logits[best]))
		sum += probs[i]
	}
	for i := range probs {
		probs[i] /= sum
	}
	a.Data[0].Label = e.config.Labels[best]
	a.Usage.Prompt, a.Usage.Total = len(j.Tokens), len(j.Tokens)
	for _, m := range []struct {
		name  string
		there bool
	}{{"text", j.Tokens != nil}, {"image", j.Image != nil}, {"audio", j.Audio != nil}} {
		if m.there {
			a.Modalities = append(a.Modalities, m.name)
		}
	}
	return a
}

func invalid(param, message string) *wire.Error {
	return &wire.Error{Type: wire.InvalidRequest, Param: wire.Optional(param), Code: "invalid_value", Message: message}
}
