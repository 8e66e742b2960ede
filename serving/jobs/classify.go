package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"gearshift/serving/openai/proxy"
	"gearshift/serving/openai/wire"
)

// list is the requests of a job as a list of inputs to classify.
type list struct {
	set    *model
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
	l := &list{set: m}
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
			if l.others = append(l.others, field{name: name, value: value}); len(l.others) > mostOthers {
				refused = bad(name, "invalid_value", "the body has more than %d members besides its inputs", mostOthers)
			}
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

// mostInputs bounds those that a job is looked at for, and mostOthers the members of a body besides them.
const (
	mostInputs = 4096
	mostOthers = 256
)

// read reads the list, and returns which modalities each of its inputs has.
func (l *list) read(value []byte) (there []uint64, refused *Refused) {
	count := 0
	if !wire.Elements(value, func(input []byte) {
		if count++; refused != nil || count > mostInputs {
			return
		}
		var mask uint64
		mask, refused = l.input(input)
		there = append(there, mask)
	}) {
		return nil, bad("inputs", "invalid_type", `"inputs" must be a list of objects`)
	}
	if count > mostInputs {
		return nil, bad("inputs", "job_too_large", "a list of %d inputs; at most %d are looked at", count, mostInputs)
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
func (s *model) members() []string {
	names := slices.Clone(s.Modalities)
	if i := slices.Index(names, "text"); i >= 0 {
		names[i] = "input"
	}
	return names
}

// endpoint implements form.
func (l *list) endpoint() *proxy.Endpoint { return proxy.EndpointAt(proxy.ClassifyPath) }

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
	return proxy.ClassifyPath, h, b.Bytes(), nil
}

func writeField(b *bytes.Buffer, before byte, f field) {
	name, _ := json.Marshal(f.name) // strings always encode
	b.WriteByte(before)
	b.Write(name)
	b.WriteByte(':')
	b.Write(f.value)
}

// usage holds what engines and the router say of tokens.
type usage struct {
	Prompt int `json:"prompt_tokens"`
	Total  int `json:"total_tokens"`
}

// answer implements form. A row is the text of an object, which shares the body's memory.
func (l *list) answer(_ http.Header, body []byte, n int) (rows []any, tokens int, rest any, err error) {
	var used usage
	count := 0
	if !json.Valid(body) || !wire.Members(body, func(key []byte, start, end int) bool {
		switch value := body[start:end]; string(key) {
		case "data":
			rows, count = nil, 0
			wire.Elements(value, func(row []byte) {
				if count++; count <= n && row[0] == '{' {
					rows = append(rows, row)
				}
			})
		case "usage":
			err = json.Unmarshal(value, &used)
		}
		return true
	}) {
		err = errors.New("it is no JSON object")
	}
	switch {
	case err != nil:
		return nil, 0, nil, fmt.Errorf("its answer is no JSON of a classification: %w", err)
	case count != n:
		return nil, 0, nil, fmt.Errorf("its answer has %d elements of data for %d inputs", count, n)
	case len(rows) != n:
		return nil, 0, nil, errors.New("its answer has elements of data that are no objects")
	}
	return rows, max(0, used.Prompt), struct{}{}, nil
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
	head, err := json.Marshal(struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		Model   string `json:"model"`
	}{"classify-" + id, "list", time.Now().Unix(), r.Model})
	if err != nil {
		return nil, err
	}
	tail, err := json.Marshal(struct {
		Usage usage   `json:"usage"`
		Job   *Result `json:"job"`
	}{usage{r.Tokens, r.Tokens}, r})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.Grow(int(r.job.size) + 512*len(r.job.answered) + len(head) + len(tail))
	out.Write(head[:len(head)-1])
	out.WriteString(`,"data":`)
	before := byte('[')
	for i, a := range r.job.answered {
		row, ok := a.row.([]byte)
		if !ok {
			return nil, fmt.Errorf("input %d has no answer", i)
		}
		out.WriteByte(before)
		if err := writeRow(&out, row, i, &r.job.model.Options[r.job.model.entries[a.option].Option]); err != nil {
			return nil, err
		}
		before = ','
	}
	out.WriteString("],")
	out.Write(tail[1:])
	return out.Bytes(), nil
}

// writeRow writes an engine's answer to an input with what the router says of it.
func writeRow(b *bytes.Buffer, row []byte, index int, by *Option) error {
	own, err := json.Marshal(struct {
		Index      int      `json:"index"`
		Modalities []string `json:"modalities"`
		Variant    string   `json:"variant"`
	}{index, by.Modalities, by.Variant})
	if err != nil {
		return err
	}
	b.Write(own[:len(own)-1])
	wire.Members(row, func(key []byte, start, end int) bool {
		switch name := string(key); name {
		case "index", "modalities", "variant":
		default:
			writeField(b, ',', field{name: name, value: row[start:end]})
		}
		return true
	})
	b.WriteByte('}')
	return nil
}
