package modality

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"gearshift/serving/wire"
)

// ClassifyPath is the endpoint of lists of inputs.
const ClassifyPath = "/v1/gearshift/classify"

// list is the requests of a job as a list of inputs to classify.
type list struct {
	set    *set
	others []field   // members of the body that engines get too
	rows   [][]field // by request
}

// field is a member of a JSON object, as it came.
type field struct {
	name     string
	value    []byte
	modality int
}

// Classify makes a job of a body, which is known to be JSON. Of the members that say what is asked
// for, min_quality and total_ms are read from it.
func (s *Service) Classify(a Asked, body []byte) (*Job, *Refused) {
	m, _ := s.find(&a)
	if m == nil {
		_, refused := s.start(&a, nil, nil)
		return nil, refused
	}
	l := &list{set: m.set}
	var there []uint64
	var refused *Refused
	wire.Members(body, func(key []byte, start, end int) bool {
		name, value := string(key), body[start:end]
		switch name {
		case "model", "task":
		case "min_quality":
			refused = number(value, name, &a.MinQuality)
		case "total_ms":
			refused = span(value, name, &a.Total)
		case "inputs":
			if l.rows != nil {
				refused = bad(name, "invalid_value", `"inputs" is there twice`)
				break
			}
			there, refused = l.read(value)
		case "input", "text", "image", "audio", "video":
			refused = bad("inputs", "invalid_value", `there are "inputs" and %q next to them; want one or the other`, name)
		default:
			l.others = append(l.others, field{name: name, value: value})
		}
		return refused == nil
	})
	if refused != nil {
		return nil, refused
	}
	return s.start(&a, l, there)
}

// number reads a member that is a number.
func number(value []byte, name string, into *float64) *Refused {
	if json.Unmarshal(value, into) != nil || string(value) == "null" {
		return bad(name, "invalid_type", "%q must be a number", name)
	}
	return nil
}

// span reads a member that is a number of milliseconds above zero.
func span(value []byte, name string, into *time.Duration) *Refused {
	var ms float64
	if refused := number(value, name, &ms); refused != nil {
		return refused
	}
	if ns := ms * float64(time.Millisecond); !(ns >= 1 && ns < math.MaxInt64/4) {
		return bad(name, "invalid_deadline", "%q is %.40s; it must be a positive number of milliseconds", name, value)
	}
	*into = duration(ms)
	return nil
}

// mostInputs bounds those that a job is looked at for.
const mostInputs = 4096

// read reads the list, and returns which modalities each of its inputs has.
func (l *list) read(value []byte) (there []uint64, refused *Refused) {
	if !wire.Elements(value, func(input []byte) {
		if refused != nil || len(l.rows) >= mostInputs {
			l.rows = append(l.rows, nil)
			return
		}
		var mask uint64
		mask, refused = l.input(input)
		there = append(there, mask)
	}) {
		return nil, bad("inputs", "invalid_type", `"inputs" must be a list of objects`)
	}
	if len(l.rows) > mostInputs {
		return nil, bad("inputs", "job_too_large", "a list of %d inputs; at most %d are looked at", len(l.rows), mostInputs)
	}
	return there, refused
}

// input reads one input.
func (l *list) input(value []byte) (mask uint64, refused *Refused) {
	at := len(l.rows)
	var fields []field
	object := wire.Members(value, func(key []byte, start, end int) bool {
		f := field{name: string(key), value: value[start:end]}
		name := f.name
		if name == "input" {
			name = "text"
		}
		f.modality = slices.Index(l.set.Modalities, name)
		switch {
		case f.modality < 0:
			refused = bad(fmt.Sprintf("inputs[%d].%s", at, f.name), "unknown_modality", "input %d: %s takes no %q; it takes %s", at, l.set.Name, f.name, strings.Join(l.set.members(), ", "))
		case f.says():
			if mask>>f.modality&1 == 1 {
				refused = bad(fmt.Sprintf("inputs[%d].%s", at, f.name), "invalid_value", "input %d: its %s is there twice", at, name)
			}
			mask |= 1 << f.modality
			fields = append(fields, f)
		}
		return refused == nil
	})
	if refused == nil && !object {
		refused = bad(fmt.Sprintf("inputs[%d]", at), "invalid_type", "input %d must be an object with one or more of %s", at, strings.Join(l.set.members(), ", "))
	}
	l.rows = append(l.rows, fields)
	return mask, refused
}

// says reports whether the member says anything.
func (f *field) says() bool {
	switch string(f.value) {
	case "null", `""`, "[]", "{}":
		return false
	}
	return true
}

// members are the modalities by the names of their members.
func (s *set) members() []string {
	names := slices.Clone(s.Modalities)
	if i := slices.Index(names, "text"); i >= 0 {
		names[i] = "input"
	}
	return names
}

// request implements form.
func (l *list) request(model string, rows []int, modalities uint64) (string, http.Header, []byte, error) {
	var b bytes.Buffer
	name, err := json.Marshal(model)
	if err != nil {
		return "", nil, nil, err
	}
	b.WriteString(`{"model":`)
	b.Write(name)
	for _, f := range l.others {
		writeField(&b, ',', f)
	}
	b.WriteString(`,"inputs":[`)
	for i, row := range rows {
		before := byte('{')
		if i > 0 {
			b.WriteByte(',')
		}
		for _, f := range l.rows[row] {
			if modalities>>f.modality&1 == 1 {
				writeField(&b, before, f)
				before = ','
			}
		}
		b.WriteByte('}')
	}
	b.WriteString("]}")
	h := http.Header{"Content-Type": {"application/json"}}
	return ClassifyPath, h, b.Bytes(), nil
}

func writeField(b *bytes.Buffer, before byte, f field) {
	name, _ := json.Marshal(f.name) // strings always encode
	b.WriteByte(before)
	b.Write(name)
	b.WriteByte(':')
	b.Write(f.value)
}

// classified is an engine's answer to a list.
type classified struct {
	Data  []map[string]json.RawMessage `json:"data"`
	Usage struct {
		Prompt int `json:"prompt_tokens"`
	} `json:"usage"`
}

// answer implements form.
func (l *list) answer(_ http.Header, body []byte, n int) ([]any, int, any, error) {
	var a classified
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, 0, nil, fmt.Errorf("its answer is no JSON of a classification: %w", err)
	}
	if len(a.Data) != n {
		return nil, 0, nil, fmt.Errorf("its answer has %d elements of data for %d inputs", len(a.Data), n)
	}
	rows := make([]any, n)
	for i, d := range a.Data {
		rows[i] = d
	}
	return rows, max(0, a.Usage.Prompt), struct{}{}, nil
}

// fault implements form.
func (l *list) fault(status int, body []byte, rows []int) *Refused {
	var said struct {
		Error struct {
			Message string `json:"message"`
			Param   string `json:"param"`
			Code    string `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil || said.Error.Message == "" {
		return nil
	}
	e := said.Error
	if rest, ok := strings.CutPrefix(e.Param, "inputs["); ok {
		index, member, _ := strings.Cut(rest, "]")
		if i, err := strconv.Atoi(index); err == nil && i >= 0 && i < len(rows) { // of the batch
			e.Param = fmt.Sprintf("inputs[%d]%s", rows[i], member)
			e.Message = fmt.Sprintf("input %d: %s", rows[i], strings.ReplaceAll(e.Message, "inputs["+index+"].", ""))
		}
	}
	r := bad(e.Param, e.Code, "%s", e.Message)
	r.Status = status
	return r
}

// Classification is the answer to a job of [Service.Classify], as JSON.
func (r *Result) Classification(id string) ([]byte, error) {
	out := struct {
		ID      string                       `json:"id"`
		Object  string                       `json:"object"`
		Created int64                        `json:"created"`
		Model   string                       `json:"model"`
		Data    []map[string]json.RawMessage `json:"data"`
		Usage   struct {
			Prompt int `json:"prompt_tokens"`
			Total  int `json:"total_tokens"`
		} `json:"usage"`
		Job *Result `json:"job"`
	}{ID: "classify-" + id, Object: "list", Created: time.Now().Unix(), Model: r.Model, Job: r}
	out.Usage.Prompt, out.Usage.Total = r.Tokens, r.Tokens
	for i, a := range r.work.answered {
		data, ok := a.row.(map[string]json.RawMessage)
		if !ok {
			return nil, fmt.Errorf("input %d has no answer", i)
		}
		option := r.work.model.entries[a.option].option
		for name, value := range map[string]any{"index": i, "modalities": r.work.model.Options[option].Modalities, "variant": r.work.model.Options[option].Variant} {
			text, err := json.Marshal(value)
			if err != nil {
				return nil, err
			}
			data[name] = text
		}
		out.Data = append(out.Data, data)
	}
	return json.Marshal(out)
}
