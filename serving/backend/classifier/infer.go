package classifier

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"gearshift/serving/backend"
)

// The tensors of a request to infer. Each of text (or the tokens of one), pixels and samples
// may be left out.
const (
	textInput   = "text"
	tokenInput  = "input_ids"
	maskInput   = "attention_mask"
	imageInput  = "pixel_values"
	audioInput  = "input_values"
	partsInput  = "modality_mask"
	modalities  = 3 // in the mask: text, image, audio
	logitOutput = "logits"
)

// Signature implements [backend.Described].
func (e *Engine) Signature() backend.Signature {
	l := e.model.Layout()
	var inputs []backend.TensorType
	if l.Vocabulary > 0 {
		inputs = append(inputs,
			backend.TensorType{Name: textInput, Datatype: backend.Bytes, Shape: []int64{-1}},
			backend.TensorType{Name: tokenInput, Datatype: backend.Int64, Shape: []int64{-1, -1}},
			backend.TensorType{Name: maskInput, Datatype: backend.Int64, Shape: []int64{-1, -1}})
	}
	if side := int64(l.ImageSide); side > 0 {
		inputs = append(inputs, backend.TensorType{Name: imageInput, Datatype: backend.Float32, Shape: []int64{-1, 3, side, side}})
	}
	if samples := int64(l.AudioSamples); samples > 0 {
		inputs = append(inputs, backend.TensorType{Name: audioInput, Datatype: backend.Float32, Shape: []int64{-1, samples}})
	}
	return backend.Signature{
		Platform: "onnx_onnxv1",
		Inputs:   append(inputs, backend.TensorType{Name: partsInput, Datatype: backend.Float32, Shape: []int64{-1, modalities}}),
		Outputs:  []backend.TensorType{{Name: logitOutput, Datatype: backend.Float32, Shape: []int64{-1, int64(l.Labels)}}},
	}
}

// infer answers a request of the Open Inference Protocol.
func (e *Engine) infer(r *http.Request, body []byte) (*http.Response, error) {
	request, err := backend.ReadInference(r, body, e.Signature())
	var inputs []Input
	if err == nil {
		inputs, err = e.rows(request)
	}
	if err != nil {
		return backend.RefuseInference(r, http.StatusBadRequest, err), nil
	}
	jobs, err := e.classifyAll(r, inputs)
	if err != nil {
		return nil, err
	}
	output := backend.OutputTensor{TensorType: backend.TensorType{Name: logitOutput, Datatype: backend.Float32, Shape: []int64{int64(len(inputs)), int64(e.model.Layout().Labels)}}}
	for _, j := range jobs {
		output.Data = append(output.Data, j.logits...)
	}
	return request.Answer(r, e.config.Name, output), nil
}

// maxRows bounds the rows of a request.
const maxRows = 4096

// rows makes an input of each row of the batch.
func (e *Engine) rows(q *backend.InferenceRequest) ([]Input, error) {
	n := -1
	for _, t := range q.Inputs {
		if n >= 0 && t.Rows() != n {
			return nil, fmt.Errorf("input %q has %d rows, and input %q has %d", t.Name, t.Rows(), q.Inputs[0].Name, n)
		}
		n = t.Rows()
	}
	if n < 1 {
		return nil, fmt.Errorf("there is nothing to classify; %s takes %s", e.config.Name, strings.Join(e.model.Layout().takes(), ", "))
	}
	if n > maxRows {
		return nil, fmt.Errorf("a request of %d rows; at most %d are classified at once", n, maxRows)
	}
	inputs := make([]Input, n)
	image, audio := q.Input(imageInput), q.Input(audioInput)
	for i := range inputs {
		if image != nil {
			inputs[i].Image = row(image.Floats, i, n)
		}
		if audio != nil {
			inputs[i].Audio = row(audio.Floats, i, n)
		}
	}
	err := e.tokens(q, inputs)
	if err == nil {
		err = choose(q.Input(partsInput), inputs)
	}
	for i, in := range inputs {
		if err == nil && in.Tokens == nil && in.Image == nil && in.Audio == nil {
			err = fmt.Errorf("row %d has no text, no image and no sound", i)
		}
	}
	return inputs, err
}

// row is the i-th of n rows.
func row[T any](values []T, i, n int) []T {
	size := len(values) / n
	return values[i*size : (i+1)*size : (i+1)*size]
}

// tokens enters the text of each row.
func (e *Engine) tokens(q *backend.InferenceRequest, inputs []Input) error {
	text, ids, mask := q.Input(textInput), q.Input(tokenInput), q.Input(maskInput)
	switch {
	case text != nil && ids != nil:
		return fmt.Errorf("inputs %s and %s exclude each other", textInput, tokenInput)
	case mask != nil && ids == nil:
		return fmt.Errorf("input %s is there without %s", maskInput, tokenInput)
	case mask != nil && !slices.Equal(mask.Shape, ids.Shape):
		return fmt.Errorf("input %s has the shape %v, and input %s has %v", maskInput, mask.Shape, tokenInput, ids.Shape)
	}
	for i := range inputs {
		switch {
		case text != nil && text.Strings[i] != "":
			if longest := e.tokenizer.Longest(); len(text.Strings[i]) > longest*e.config.Context {
				return e.tooLong(i)
			}
			if tokens := e.tokenizer.Prompt(text.Strings[i]); len(tokens) > 0 {
				inputs[i].Tokens = tokens
			}
		case ids != nil:
			tokens := row(ids.Integers, i, len(inputs))
			if mask != nil {
				n, err := length(row(mask.Integers, i, len(inputs)))
				if err != nil {
					return fmt.Errorf("input %s, row %d: %w", maskInput, i, err)
				}
				tokens = tokens[:n]
			}
			if len(tokens) > 0 {
				inputs[i].Tokens = tokens
			}
		}
		if len(inputs[i].Tokens) > e.config.Context {
			return e.tooLong(i)
		}
		vocabulary := int64(e.model.Layout().Vocabulary)
		for _, id := range inputs[i].Tokens {
			if id < 0 || id >= vocabulary {
				return fmt.Errorf("input %s, row %d: token %d; want 0 to %d", tokenInput, i, id, vocabulary-1)
			}
		}
	}
	return nil
}

func (e *Engine) tooLong(row int) error {
	return fmt.Errorf("row %d: the text is longer than the context of %s, %d tokens", row, e.config.Name, e.config.Context)
}

// length is how many tokens a mask lets through, from the first on.
func length(mask []int64) (int, error) {
	n := slices.Index(mask, 0)
	if n < 0 {
		n = len(mask)
	}
	for i, m := range mask {
		if m != 0 && m != 1 || i > n && m == 1 {
			return 0, errors.New("want ones, and zeros after them")
		}
	}
	return n, nil
}

// choose leaves out what the mask of modalities leaves out, if there is one.
func choose(mask *backend.InputTensor, inputs []Input) error {
	if mask == nil {
		return nil
	}
	for i := range inputs {
		in, m := &inputs[i], row(mask.Floats, i, len(inputs))
		for k, there := range []bool{in.Tokens != nil, in.Image != nil, in.Audio != nil} {
			switch {
			case m[k] != 0 && m[k] != 1:
				return fmt.Errorf("input %s, row %d: %v; want 0 or 1", partsInput, i, m[k])
			case m[k] == 1 && !there:
				return fmt.Errorf("input %s, row %d: the row has no %s", partsInput, i, [...]string{"text", "image", "sound"}[k])
			}
		}
		if m[0] == 0 {
			in.Tokens = nil
		}
		if m[1] == 0 {
			in.Image = nil
		}
		if m[2] == 0 {
			in.Audio = nil
		}
	}
	return nil
}
