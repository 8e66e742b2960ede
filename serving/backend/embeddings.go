package backend

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"net/http"

	"gearshift/serving/openai/wire"
)

// embeddingOrder is what a simulated engine heeds in a request for embeddings.
type embeddingOrder struct {
	Input      json.RawMessage `json:"input"`
	Encoding   string          `json:"encoding_format"`
	Dimensions *int            `json:"dimensions"`
}

// embedding is one vector of the answer.
type embedding struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"` // numbers, or their bytes in base 64
}

// embed answers with vectors that mean nothing, the same for the same text. To
// the engine it is a prompt with one token of output.
func (r *replica) embed(request *http.Request, body []byte) (*http.Response, error) {
	var o embeddingOrder
	if fault := o.read(body); fault != nil {
		return Refuse(request, http.StatusBadRequest, *fault), nil
	}
	_, answer, refusal, err := r.ask(request, CompletionPath, map[string]any{"prompt": o.Input, "max_tokens": 1, "ignore_eos": true})
	if answer == nil {
		return refusal, err
	}
	out := struct {
		Object string      `json:"object"`
		Data   []embedding `json:"data"`
		Model  string      `json:"model"`
		Usage  struct {
			Prompt int `json:"prompt_tokens"`
			Total  int `json:"total_tokens"`
		} `json:"usage"`
	}{Object: "list", Data: o.vectors(r.model), Model: r.model}
	out.Usage.Prompt, out.Usage.Total = answer.Usage.PromptTokens, answer.Usage.PromptTokens
	return respondJSON(request, out)
}

func (o *embeddingOrder) read(body []byte) *wire.Error {
	if fault := ReadMembers(body, o); fault != nil {
		return fault
	}
	var fault wire.Error
	switch {
	case len(o.Input) == 0 || string(o.Input) == "null":
		fault = invalid("input", `"input" is missing`)
	case o.Input[0] != '"' && !listOf(o.Input, `"[0123456789`):
		fault = invalid("input", `"input" must be a string, or a list of strings or tokens that is not empty`)
	case o.Encoding != "" && o.Encoding != "float" && o.Encoding != "base64":
		fault = invalid("encoding_format", fmt.Sprintf("%q is no encoding; want float or base64", o.Encoding))
	case o.Dimensions != nil && (*o.Dimensions < 1 || *o.Dimensions > 4096):
		fault = invalid("dimensions", `"dimensions" must be at least 1 and at most 4096`)
	case o.texts() > mostTexts:
		fault = invalid("input", fmt.Sprintf(`"input" has %d texts; want at most %d`, o.texts(), mostTexts))
	case o.texts()*o.dimensions() > mostNumbers:
		fault = invalid("dimensions", fmt.Sprintf(`%d texts with %d dimensions are too many numbers; want at most %d in all`, o.texts(), o.dimensions(), mostNumbers))
	default:
		return nil
	}
	return &fault
}

// The bounds of an answer, which is many times its request: texts, as OpenAI has it, and numbers of all
// vectors together.
const (
	mostTexts   = 2048
	mostNumbers = 1 << 20
)

// texts counts those of the input.
func (o *embeddingOrder) texts() (n int) {
	if !listOf(o.Input, `"[`) { // one text, given as such or as tokens
		return 1
	}
	wire.Elements(o.Input, func([]byte) { n++ })
	return n
}

func (o *embeddingOrder) dimensions() int {
	if o.Dimensions != nil {
		return *o.Dimensions
	}
	return 16
}

// vectors is one for each text of the input.
func (o *embeddingOrder) vectors(model string) (all []embedding) {
	dimensions := o.dimensions()
	add := func(text []byte) {
		e := embedding{Object: "embedding", Index: len(all)}
		v := vector(model, text, dimensions)
		if e.Embedding = v; o.Encoding == "base64" {
			var raw bytes.Buffer
			_ = binary.Write(&raw, binary.LittleEndian, v) // a buffer takes all
			e.Embedding = base64.StdEncoding.EncodeToString(raw.Bytes())
		}
		all = append(all, e)
	}
	if listOf(o.Input, `"[`) { // of texts; else one text, given as such or as tokens
		wire.Elements(o.Input, add)
	} else {
		add(o.Input)
	}
	return all
}

// vector is of length 1.
func vector(model string, text []byte, dimensions int) []float32 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, model)
	_, _ = h.Write(text)
	random := rand.New(rand.NewPCG(h.Sum64(), 0))
	v, square := make([]float32, dimensions), 0.0
	for i := range v {
		x := random.NormFloat64()
		v[i], square = float32(x), square+x*x
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(square))
	}
	return v
}

// ask has the engine do the work of a request of another form. It returns the
// whole answer, or the stream that brings it, or the refusal to pass on.
func (r *replica) ask(request *http.Request, path string, order map[string]any) (stream io.ReadCloser, whole *wire.Answer, refusal *http.Response, err error) {
	body, err := json.Marshal(order)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("cannot encode request: %w", err)
	}
	inner := request.Clone(request.Context())
	inner.URL.Path, inner.Body = path, io.NopCloser(bytes.NewReader(body))
	response, err := r.RoundTrip(inner)
	if err != nil {
		return nil, nil, nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, nil, response, nil
	}
	if order["stream"] == true {
		return response.Body, nil, nil, nil
	}
	defer response.Body.Close()
	whole = &wire.Answer{}
	if err := json.NewDecoder(response.Body).Decode(whole); err != nil {
		return nil, nil, nil, fmt.Errorf("cannot read answer: %w", err)
	}
	return nil, whole, nil, nil
}

func respondJSON(request *http.Request, answer any) (*http.Response, error) {
	body, err := json.Marshal(answer)
	if err != nil {
		return nil, fmt.Errorf("cannot encode answer: %w", err)
	}
	return Respond(request, http.StatusOK, body), nil
}
