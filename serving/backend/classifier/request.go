package classifier

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"gearshift/serving/backend"
	"gearshift/serving/openai/wire"
)

// order is a request: one input, or a list of them.
type order struct {
	Input  *string  `json:"input"`
	Image  string   `json:"image"`
	Audio  string   `json:"audio"`
	Inputs *[]parts `json:"inputs"`
}

// parts are text, image and sound, each of which may be left out.
type parts struct {
	Input *string `json:"input"`
	Image string  `json:"image"` // PNG or JPEG, in base 64
	Audio string  `json:"audio"` // WAV, in base 64
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
	switch {
	case backend.AsksToInfer(r):
		return e.infer(r, body)
	case backend.AsksForMetadata(r):
		return backend.Describe(r, e.config.Name, e.Signature())
	}
	if r.Method != http.MethodPost || r.URL.Path != backend.ClassifyPath {
		return backend.Refuse(r, http.StatusNotFound, backend.NoEndpoint("a classifier", r)), nil
	}
	inputs, list, fault := e.read(body)
	if fault != nil {
		return backend.Refuse(r, http.StatusBadRequest, *fault), nil
	}
	jobs, err := e.classifyAll(r, inputs)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(e.answer(jobs, list))
	if err != nil {
		return nil, fmt.Errorf("cannot encode answer: %w", err)
	}
	return backend.Respond(r, http.StatusOK, text), nil
}

// read makes inputs of the request, one or a list.
func (e *Engine) read(body []byte) (inputs []Input, list bool, fault *wire.Error) {
	var o order
	if fault := backend.ReadMembers(body, &o); fault != nil {
		return nil, false, fault
	}
	if o.Inputs == nil {
		in, fault := e.input(&parts{o.Input, o.Image, o.Audio}, "")
		return []Input{in}, false, fault
	}
	switch n := len(*o.Inputs); {
	case o.Input != nil || o.Image != "" || o.Audio != "":
		return nil, true, invalid("inputs", `there are "inputs" and one input next to them; want one or the other`)
	case n == 0:
		return nil, true, invalid("inputs", `"inputs" is empty; want at least one`)
	case n > maxRows:
		return nil, true, invalid("inputs", fmt.Sprintf("a list of %d inputs; at most %d are classified at once", n, maxRows))
	}
	for i := range *o.Inputs {
		in, fault := e.input(&(*o.Inputs)[i], fmt.Sprintf("inputs[%d].", i))
		if fault != nil {
			return nil, true, fault
		}
		inputs = append(inputs, in)
	}
	return inputs, true, nil
}

// input makes one of its parts. Their names in errors follow the prefix.
func (e *Engine) input(p *parts, prefix string) (in Input, fault *wire.Error) {
	layout := e.model.Layout()
	for _, m := range []struct {
		member string
		given  bool
		size   int
	}{{"input", p.Input != nil && *p.Input != "", layout.Vocabulary}, {"image", p.Image != "", layout.ImageSide}, {"audio", p.Audio != "", layout.AudioSamples}} {
		if m.given && m.size == 0 {
			return in, invalid(prefix+m.member, fmt.Sprintf("the model %s does not take %q; it takes %s", e.config.Name, m.member, strings.Join(layout.takes(), ", ")))
		}
	}
	if p.Input != nil && *p.Input != "" {
		if longest := e.tokenizer.Longest(); len(*p.Input) <= longest*e.config.Context {
			in.Tokens = e.tokenizer.Prompt(*p.Input)
		}
		if n := len(in.Tokens); n == 0 || n > e.config.Context {
			fault := invalid(prefix+"input", fmt.Sprintf("the text is longer than the context of %s, %d tokens", e.config.Name, e.config.Context))
			fault.Code = "context_length_exceeded"
			return in, fault
		}
	}
	in.Image, fault = media(prefix+"image", "PNG or JPEG", p.Image, func(data []byte) ([]float32, error) { return readImage(data, layout.ImageSide) })
	if fault != nil {
		return in, fault
	}
	in.Audio, fault = media(prefix+"audio", "WAV of 16-bit PCM", p.Audio, func(data []byte) ([]float32, error) {
		return readWAV(data, e.config.SamplingRate, layout.AudioSamples)
	})
	if fault != nil {
		return in, fault
	}
	if in.Tokens == nil && in.Image == nil && in.Audio == nil {
		return in, invalid(prefix+"input", fmt.Sprintf(`there is nothing to classify; want "input" (text), "image" or "audio", or several of them; the model %s takes %s`,
			e.config.Name, strings.Join(layout.takes(), ", ")))
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

// answer has of each input the likeliest label, and how likely each is.
func (e *Engine) answer(jobs []*job, list bool) *backend.Classification {
	a := backend.NewClassification(jobs[0].id, e.config.Name)
	for i, j := range jobs {
		best := likeliest(j.logits)
		c := backend.Class{Index: i, Label: e.config.Labels[best], Classes: len(j.logits), Probs: probabilities(j.logits, best)}
		if list {
			c.Modalities = j.modalities()
		} else {
			a.Modalities = j.modalities()
		}
		a.Data = append(a.Data, c)
		a.Usage.Prompt += len(j.Tokens)
	}
	a.Usage.Total = a.Usage.Prompt
	return a
}

// likeliest is the index of the highest of the logits.
func likeliest(logits []float32) (best int) {
	for i, l := range logits {
		if l > logits[best] {
			best = i
		}
	}
	return best
}

// probabilities are the softmax of the logits, of which the highest is given.
func probabilities(logits []float32, best int) []float64 {
	probs, sum := make([]float64, len(logits)), 0.0
	for i, l := range logits {
		probs[i] = math.Exp(float64(l) - float64(logits[best]))
		sum += probs[i]
	}
	for i := range probs {
		probs[i] /= sum
	}
	return probs
}

// modalities are those that the input has.
func (in *Input) modalities() (names []string) {
	for i, there := range [modalities]bool{in.Tokens != nil, in.Image != nil, in.Audio != nil} {
		if there {
			names = append(names, modalityNames[i])
		}
	}
	return names
}

func invalid(param, message string) *wire.Error {
	return &wire.Error{Type: wire.InvalidRequest, Param: wire.Optional(param), Code: "invalid_value", Message: message}
}
