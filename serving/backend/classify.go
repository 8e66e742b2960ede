package backend

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"time"

	"gearshift/serving/openai/inference"
	"gearshift/serving/openai/wire"
)

// Classification is the answer to a request to classify, in the form of vLLM's /classify.
type Classification struct {
	ID      string  `json:"id"`
	Object  string  `json:"object"`
	Created int64   `json:"created"`
	Model   string  `json:"model"`
	Data    []Class `json:"data"`
	Usage   struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	} `json:"usage"`
	// Modalities are those that the answer to one input rests on. In an answer to a list each
	// of its elements has its own.
	Modalities []string `json:"modalities,omitempty"`
}

// Class is what an input is.
type Class struct {
	Index   int       `json:"index"`
	Label   string    `json:"label"`
	Probs   []float64 `json:"probs"`
	Classes int       `json:"num_classes"`
	// Modalities are those of one of a list of inputs.
	Modalities []string `json:"modalities,omitempty"`
}

// NewClassification is an answer without its data.
func NewClassification(id uint64, model string) *Classification {
	return &Classification{ID: fmt.Sprintf("classify-%012x", id), Object: "list", Created: time.Now().Unix(), Model: model}
}

// simulatedClasses is how many classes a simulated engine knows. Which of them it finds means
// nothing, and is the same for the same input.
const simulatedClasses = 10

// mostInputs bounds those of a request to a simulated engine.
const mostInputs = 4096

// batch has the engine run so many sequences together, as a batch if its profile is one of
// batches, and waits for them. The refusal says why it does not.
func (r *replica) batch(request *http.Request, n int) (id uint64, refusal, err error) {
	jobs := make([]*job, n)
	for i := range jobs {
		jobs[i] = &job{replica: r.index, engine: r.engine, prompt: 1, output: 1, wake: make(chan struct{}, 1)}
	}
	fits, err := r.host.submitAll(jobs)
	if err != nil {
		return 0, nil, err
	}
	if !fits {
		return 0, fmt.Errorf("%d inputs exceed what %s holds", n, r.model), nil
	}
	for i := range jobs {
		for done := false; !done; {
			if _, done, err = r.host.seen(jobs[i]); err != nil {
				return 0, nil, err
			}
			if done {
				break
			}
			select {
			case <-jobs[i].wake:
			case <-request.Context().Done():
				for _, j := range jobs[i:] {
					r.host.cancel(j, request.Context().Err())
				}
				return 0, nil, request.Context().Err()
			}
		}
	}
	return jobs[0].id, nil, nil
}

// classify answers a request to classify one input or a list.
func (r *replica) classify(request *http.Request, body []byte) (*http.Response, error) {
	var o struct {
		Inputs []json.RawMessage `json:"inputs"`
	}
	if fault := ReadMembers(body, &o); fault != nil {
		return Refuse(request, http.StatusBadRequest, *fault), nil
	}
	list := o.Inputs != nil
	if !list {
		o.Inputs = []json.RawMessage{body}
	}
	if n := len(o.Inputs); n == 0 || n > mostInputs {
		return Refuse(request, http.StatusBadRequest, invalid("inputs", fmt.Sprintf("a list of %d inputs; want 1 to %d", n, mostInputs))), nil
	}
	classes := make([]Class, len(o.Inputs))
	for i, in := range o.Inputs {
		label, there := simulatedLabel(in)
		if len(there) == 0 {
			return Refuse(request, http.StatusBadRequest, invalid("input", fmt.Sprintf(`input %d: there is nothing to classify; want "input" (text), "image", "audio" or "video"`, i))), nil
		}
		classes[i] = Class{Index: i, Label: fmt.Sprintf("class-%d", label), Classes: simulatedClasses, Probs: make([]float64, simulatedClasses), Modalities: there}
		classes[i].Probs[label] = 1
	}
	id, refusal, err := r.batch(request, len(classes))
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		return Refuse(request, http.StatusBadRequest, invalid("inputs", refusal.Error())), nil
	}
	a := NewClassification(id, r.model)
	if a.Data = classes; !list {
		a.Modalities, classes[0].Modalities = classes[0].Modalities, nil
	}
	a.Usage.Prompt, a.Usage.Total = len(classes), len(classes)
	return respondJSON(request, a)
}

// ModalitiesOf names the modalities that a request to classify has: of a list, those of any of its
// inputs.
func ModalitiesOf(body []byte) (names []string) {
	inputs := [][]byte{body}
	wire.Members(body, func(key []byte, start, end int) bool {
		if string(key) == "inputs" {
			inputs = nil
			wire.Elements(body[start:end], func(input []byte) { inputs = append(inputs, input) })
		}
		return true
	})
	for _, in := range inputs {
		_, there := simulatedLabel(in)
		for _, name := range there {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// TensorModalities names those of the modalities that the tensors of a request of the Open
// Inference Protocol are of. Other tensors are of none.
func TensorModalities(h http.Header, body []byte, of []string) (names []string, err error) {
	q, err := inference.ReadRequest(h, body)
	if err != nil {
		return nil, err
	}
	for i, name := range of {
		if slices.ContainsFunc(q.Inputs, func(t inference.Tensor) bool { return inference.ModalityOf(t.Name, of) == i }) {
			names = append(names, name)
		}
	}
	return names, nil
}

// TensorRows is how many rows a request of the Open Inference Protocol has, 1 at least.
func TensorRows(h http.Header, body []byte) int {
	rows := 1
	if q, err := inference.ReadRequest(h, body); err == nil {
		for i := range q.Inputs {
			rows = max(rows, q.Inputs[i].Rows())
		}
	}
	return rows
}

// simulatedLabel is the class of an input, and the modalities that it has.
func simulatedLabel(input []byte) (label int, modalities []string) {
	hash := fnv.New32a()
	wire.Members(input, func(key []byte, start, end int) bool {
		name, value := string(key), input[start:end]
		if name == "input" {
			name = "text"
		}
		switch name {
		case "text", "image", "audio", "video":
			if string(value) != `""` && string(value) != "null" {
				modalities = append(modalities, name)
				_, _ = hash.Write(value) // it never fails
			}
		}
		return true
	})
	return int(hash.Sum32() % simulatedClasses), modalities
}

// SimulatedSignature is that of a simulated engine. It takes tensors of other names and shapes too.
func SimulatedSignature() Signature {
	return Signature{
		Platform: "gearshift_simulated",
		Inputs: []TensorType{
			{Name: "text", Datatype: Bytes, Shape: []int64{-1}},
			{Name: "pixel_values", Datatype: Float32, Shape: []int64{-1, 3, -1, -1}},
			{Name: "input_values", Datatype: Float32, Shape: []int64{-1, -1}},
		},
		Outputs: []TensorType{{Name: "logits", Datatype: Float32, Shape: []int64{-1, simulatedClasses}}},
	}
}

// Of leaves the signature the tensors of the modalities, and names one for each modality that has
// none.
func (s Signature) Of(modalities []string) Signature {
	var inputs []TensorType
	for i, name := range modalities {
		j := slices.IndexFunc(s.Inputs, func(t TensorType) bool { return inference.ModalityOf(t.Name, modalities) == i })
		if j < 0 {
			inputs = append(inputs, TensorType{Name: name, Datatype: Float32, Shape: []int64{-1, -1}})
		} else {
			inputs = append(inputs, s.Inputs[j])
		}
	}
	s.Inputs = inputs
	return s
}

// infer answers a request of the Open Inference Protocol by tensors of any names.
func (r *replica) infer(request *http.Request, body []byte) (*http.Response, error) {
	read, err := inference.ReadRequest(request.Header, body)
	var rows [][]byte
	for i := 0; err == nil && i < len(read.Inputs); i++ {
		t := &read.Inputs[i]
		var cut [][]byte
		if cut, err = t.Cut(); err != nil {
			err = fmt.Errorf("input %q %w", t.Name, err)
		} else if rows != nil && len(cut) != len(rows) {
			err = fmt.Errorf("input %q has %d rows, and input %q has %d", t.Name, len(cut), read.Inputs[0].Name, len(rows))
		}
		rows = cut
	}
	if err == nil && (len(rows) == 0 || len(rows) > mostInputs) {
		err = fmt.Errorf("there are %d rows; want 1 to %d", len(rows), mostInputs)
	}
	if err != nil {
		return RefuseInference(request, http.StatusBadRequest, err), nil
	}
	_, refusal, err := r.batch(request, len(rows))
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		return RefuseInference(request, http.StatusBadRequest, refusal), nil
	}
	out := OutputTensor{TensorType: TensorType{Name: "logits", Datatype: Float32, Shape: []int64{int64(len(rows)), simulatedClasses}}}
	for _, row := range rows {
		hash := fnv.New32a()
		_, _ = hash.Write(row)
		logits := make([]float32, simulatedClasses)
		logits[hash.Sum32()%simulatedClasses] = 1
		out.Data = append(out.Data, logits...)
	}
	q := InferenceRequest{Request: read}
	return q.Answer(request, r.model, out), nil
}
