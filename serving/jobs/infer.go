package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"gearshift/serving/openai/inference"
	"gearshift/serving/openai/proxy"
)

// tensors is the requests of a job as the rows of tensors.
type tensors struct {
	set        *model
	asked      *inference.Request
	rows       [][][]byte // by input and request
	modalities []int      // by input
}

// Infer makes a job of a request of the Open Inference Protocol. Of its parameters min_quality,
// total_ms and task are read.
func (s *Service) Infer(a Asked, q *inference.Request) (*Job, *Refused) {
	m, _ := s.find(&a)
	if m == nil {
		_, refused := s.start(&a, nil, nil)
		return nil, refused
	}
	for name, value := range q.Parameters {
		var refused *Refused
		switch name {
		case "min_quality":
			refused = number(value, name, &a.MinQuality)
		case "total_ms":
			refused = span(value, name, &a.Total)
		case "task":
			if json.Unmarshal(value, &a.Task) != nil {
				refused = bad(name, "invalid_type", `"task" must be a string`)
			}
		default:
			continue
		}
		if refused != nil {
			return nil, refused
		}
		delete(q.Parameters, name)
	}
	t := &tensors{set: m, asked: q}
	held, refused := t.weigh()
	if refused != nil {
		return nil, refused
	}
	if !s.Memory.Take(held) {
		return nil, refusal(refusedMemory)
	}
	there, refused := t.read()
	var j *Job
	if refused == nil {
		j, refused = s.start(&a, t, there)
	}
	if refused != nil {
		s.Memory.Give(held)
		return nil, refused
	}
	j.held = held
	return j, nil
}

// rowMemory counts the bytes that a row of a tensor takes that is cut, in addition to its data: of many tensors with
// elements of a byte it is many times the body.
const rowMemory = 24

// weigh returns the memory that the tensors' rows take, and refuses more rows than any worker answers at
// once before they are cut.
func (t *tensors) weigh() (bytes int64, refused *Refused) {
	most := min(mostInputs, t.set.longest(math.MaxUint64))
	for i := range t.asked.Inputs {
		in := &t.asked.Inputs[i]
		n, err := in.Elements()
		if err != nil || len(in.Data) < n { // each element has a byte; what is wrong is said where it is cut
			continue
		}
		if in.Rows() > most {
			return 0, tooMany(in.Rows(), most)
		}
		bytes += rowMemory * int64(in.Rows())
	}
	return bytes, nil
}

// read cuts the tensors into rows, and returns which modalities each row has.
func (t *tensors) read() (there []uint64, refused *Refused) {
	for i := range t.asked.Inputs {
		in := &t.asked.Inputs[i]
		modality := inference.ModalityOf(in.Name, t.set.Modalities)
		if modality < 0 {
			return nil, bad("inputs", "unknown_modality", "%s has no modality of a tensor %q; want tensors of %s", t.set.Name, in.Name, strings.Join(t.set.Modalities, ", "))
		}
		rows, err := in.Cut()
		switch {
		case err != nil:
			return nil, bad("inputs", "invalid_tensor", "input %q %v", in.Name, err)
		case i > 0 && len(rows) != len(t.rows[0]):
			return nil, bad("inputs", "invalid_tensor", "input %q has %d rows, and input %q has %d", in.Name, len(rows), t.asked.Inputs[0].Name, len(t.rows[0]))
		}
		t.rows, t.modalities = append(t.rows, rows), append(t.modalities, modality)
	}
	if len(t.rows) == 0 {
		return nil, nil
	}
	var mask uint64
	for _, modality := range t.modalities {
		mask |= 1 << modality
	}
	return slices.Repeat([]uint64{mask}, len(t.rows[0])), nil
}

// endpoint implements form.
func (t *tensors) endpoint() *proxy.Endpoint { return proxy.EndpointAt(proxy.InferPath) }

// request implements form.
func (t *tensors) request(model string, rows []int, modalities uint64) (string, http.Header, []byte, error) {
	q := *t.asked
	q.Inputs = nil
	some := make([][]byte, len(rows))
	for i := range t.asked.Inputs {
		if modalities>>t.modalities[i]&1 == 0 {
			continue
		}
		for k, row := range rows {
			some[k] = t.rows[i][row]
		}
		q.Inputs = append(q.Inputs, t.asked.Inputs[i].With(some))
	}
	h := http.Header{}
	body, err := q.Write(h)
	return inference.PathPrefix + url.PathEscape(model) + inference.PathSuffix, h, body, err
}

// answer implements form. A row is the elements of each output.
func (t *tensors) answer(h http.Header, body []byte, n int) ([]any, int, any, error) {
	a, err := inference.ReadAnswer(h, body)
	if err != nil {
		return nil, 0, nil, fmt.Errorf("its answer cannot be read: %w", err)
	}
	if len(a.Outputs) == 0 {
		return nil, 0, nil, errors.New("its answer has no outputs")
	}
	for i := range t.asked.Outputs {
		if name := t.asked.Outputs[i].Name; a.Output(name) == nil {
			return nil, 0, nil, fmt.Errorf("its answer lacks the output %q", name)
		}
	}
	rows := make([]any, n)
	cut := make([][][]byte, len(a.Outputs))
	for i := range a.Outputs {
		out := &a.Outputs[i]
		switch asked := t.asked.Outputs; {
		case len(asked) > 0 && !slices.ContainsFunc(asked, func(o inference.Output) bool { return o.Name == out.Name }):
			err = errors.New("was not asked for")
		case out.Rows() != n && len(out.Shape) > 0:
			err = fmt.Errorf("has %d rows for %d inputs", out.Shape[0], n)
		default:
			cut[i], err = out.Cut()
		}
		if err != nil {
			return nil, 0, nil, fmt.Errorf("its output %q %w", out.Name, err)
		}
	}
	for k := range rows {
		row := tensorRow{like: a.Outputs, data: make([][]byte, 0, len(cut))}
		for i := range cut {
			row.data = append(row.data, cut[i][k])
		}
		rows[k] = row
	}
	return rows, 0, a, nil
}

// weight is the memory that rows take in addition to the text of their answer.
func weight(rows []any) (bytes int64) {
	for _, row := range rows {
		if r, ok := row.(tensorRow); ok {
			bytes += 2 * rowMemory * int64(cap(r.data)) // as cut, too
		}
	}
	return bytes
}

// tensorRow is a request's part of each output.
type tensorRow struct {
	like []inference.Tensor
	data [][]byte
}

// fault implements form.
func (t *tensors) fault(status int, body []byte, rows []int) *Refused {
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil || said.Error == "" {
		return nil
	}
	r := bad("inputs", "invalid_tensor", "%s", said.Error)
	if r.Status = status; len(rows) < len(t.rows[0]) {
		r.Message = fmt.Sprintf("of the rows %s: %s", firstOf(rows), said.Error)
	}
	return r
}

// firstOf names some rows.
func firstOf(rows []int) string {
	var names []string
	for i, row := range rows {
		if i == 8 {
			names = append(names, "…")
			break
		}
		names = append(names, strconv.Itoa(row))
	}
	return strings.Join(names, ", ")
}

// Inference is the answer to a job of [Service.Infer]. It sets the fields of the header that say
// what it is.
func (r *Result) Inference(h http.Header) ([]byte, error) {
	first, ok := r.job.first.(*inference.Answer)
	if !ok {
		return nil, errors.New("there is no answer")
	}
	q := r.job.form.(*tensors).asked
	out := inference.Answer{Model: r.Model, Version: first.Version, ID: q.ID, Parameters: r.parameters()}
	for i := range first.Outputs {
		like := &first.Outputs[i]
		rows := make([][]byte, len(r.job.answered))
		for k, a := range r.job.answered {
			row, ok := a.row.(tensorRow)
			if !ok || len(row.like) != len(first.Outputs) || !same(&row.like[i], like) {
				return nil, fmt.Errorf("the outputs of row %d are of other names, types or shapes than those of row 0", k)
			}
			rows[k] = row.data[i]
		}
		out.Outputs = append(out.Outputs, like.With(rows))
	}
	return out.Write(h)
}

// same reports whether rows of the two tensors can be in one.
func same(a, b *inference.Tensor) bool {
	return a.Name == b.Name && a.Datatype == b.Datatype && a.Binary == b.Binary && slices.Equal(a.Shape[1:], b.Shape[1:])
}

// parameters are what is said of the job in the protocol's form, whose values are no objects.
func (r *Result) parameters() map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	for name, value := range map[string]any{
		"min_quality": r.MinQuality, "quality": r.Quality, "total_ms": r.TotalMS, "took_ms": r.TookMS, "kept": r.Kept, "strategy": r.Line(),
	} {
		if text, err := json.Marshal(value); err == nil {
			all[name] = text
		}
	}
	return all
}
