package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	rm "gearshift/router/modality"
	"gearshift/serving/openai/inference"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/openai/wire"
)

// Draft is a job before its inputs are there: the body of a request for a plan.
type Draft struct {
	Model string `json:"model"`
	Task  string `json:"task"`
	// Size is how many inputs it has, each with all of the model's modalities; or else Inputs
	// has the modalities of each.
	Size       int      `json:"size"`
	Inputs     drafted  `json:"inputs"`
	MinQuality *float64 `json:"min_quality"`
	TotalMS    *float64 `json:"total_ms"`
}

// drafted are the modalities of each input. A body of the largest size could name millions: of more than
// mostInputs the number alone is kept, and of an input's no more than show that some are unknown.
type drafted struct {
	count int
	names [][]string
}

// mostNames is more than a model has modalities.
const mostNames = 65

// UnmarshalJSON implements [json.Unmarshaler].
func (d *drafted) UnmarshalJSON(text []byte) (fault error) {
	*d = drafted{}
	fine := string(text) == "null" || wire.Elements(text, func(value []byte) {
		if d.count++; d.count > mostInputs || fault != nil {
			return
		}
		var names []string
		names, fault = namesIn(value)
		d.names = append(d.names, names)
	})
	if !fine || fault != nil {
		return &json.UnmarshalTypeError{Value: "value", Type: reflect.TypeFor[[][]string]()}
	}
	return nil
}

// namesIn are the different names of a list, mostNames at most.
func namesIn(value []byte) (names []string, fault error) {
	var seen [][]byte
	fine := wire.Elements(value, func(text []byte) {
		if fault != nil || len(names) == mostNames || slices.ContainsFunc(seen, func(s []byte) bool { return bytes.Equal(s, text) }) {
			return
		}
		var name string
		if fault = json.Unmarshal(text, &name); fault == nil {
			seen, names = append(seen, text), append(names, name)
		}
	})
	if !fine {
		fault = errors.New("no list")
	}
	return names, fault
}

// Plan is what would be done with a job that came now.
type Plan struct {
	Model string `json:"model"`
	Task  string `json:"task"`
	// Inputs says of each input which modalities are worth sending, and which variant would answer
	// it. They are empty where the job would be dropped.
	Inputs   []PlannedInput `json:"inputs"`
	Strategy map[string]int `json:"strategy"`
	Quality  float64        `json:"quality"`
	// FinishMS is when its last answer is expected, from now on.
	FinishMS   float64 `json:"finish_ms"`
	MinQuality float64 `json:"min_quality"`
	TotalMS    float64 `json:"total_ms"`
	// Kept says that it would be answered in time with the quality asked for; Why is why not.
	Kept   bool   `json:"kept"`
	Why    string `json:"why,omitempty"`
	Worker string `json:"worker,omitempty"`
}

// PlannedInput is what a plan does with an input.
type PlannedInput struct {
	Index      int      `json:"index"`
	Variant    string   `json:"variant"`
	Modalities []string `json:"modalities"`
}

// Plan plans a job whose inputs are yet to come. It changes nothing: by the time that they are
// there, the plan may be another.
func (s *Service) Plan(a Asked, d Draft) (*Plan, *Refused) {
	if d.MinQuality != nil {
		a.MinQuality = *d.MinQuality
	}
	if d.TotalMS != nil {
		if ns := *d.TotalMS * float64(time.Millisecond); !(ns >= 1 && ns < math.MaxInt64/4) {
			return nil, bad("total_ms", "invalid_deadline", `"total_ms" is %v; it must be a positive number of milliseconds`, *d.TotalMS)
		}
		a.Total = duration(*d.TotalMS)
	}
	m, _ := s.find(&a)
	var there []uint64
	switch {
	case m == nil:
	case d.Inputs.count > 0 && d.Size != 0 && d.Size != d.Inputs.count:
		return nil, bad("size", "invalid_value", `"size" is %d, and "inputs" has %d; want one of them`, d.Size, d.Inputs.count)
	case d.Inputs.count > mostInputs || d.Size > mostInputs:
		return nil, bad("size", "job_too_large", "a job of %d inputs; at most %d are looked at", max(d.Size, d.Inputs.count), mostInputs)
	case d.Size < 0:
		return nil, bad("size", "invalid_value", `"size" is %d; a job has at least one input`, d.Size)
	}
	for i, names := range d.Inputs.names {
		if m == nil {
			break
		}
		mask, unknown := m.mask(names)
		if unknown != "" {
			return nil, bad(fmt.Sprintf("inputs[%d]", i), "unknown_modality", "input %d: %s takes no %q; it takes %s", i, m.Name, unknown, strings.Join(m.Modalities, ", "))
		}
		there = append(there, mask)
	}
	for i := 0; m != nil && d.Inputs.count == 0 && i < d.Size; i++ {
		there = append(there, 1<<len(m.Modalities)-1)
	}
	j, refused := s.start(&a, nil, there)
	if refused != nil {
		return nil, refused
	}
	return s.plan(j), nil
}

// plan is what the best worker would do with the job.
func (s *Service) plan(j *Job) *Plan {
	m := j.model
	m.mu.Lock()
	defer m.mu.Unlock()
	now := s.now()
	parts := j.split(now + milliseconds(j.Total))
	out := &Plan{Model: m.Name, Task: m.Tasks[j.task].Name, MinQuality: j.MinQuality, TotalMS: short(milliseconds(j.Total)), Inputs: []PlannedInput{}, Strategy: map[string]int{}}
	jobs := make([]rm.Job, len(parts))
	for i, x := range parts {
		jobs[i] = x.Job
	}
	worker, list, err := m.pool.Preview(now, jobs...)
	if err != nil {
		if out.Why = err.Error(); err == rm.ErrLate {
			out.Why = "no worker can answer it in time with that quality"
		}
		return out
	}
	out.Worker = m.Workers[worker].Name
	out.Inputs = make([]PlannedInput, len(j.there))
	var sum float64
	for k, x := range parts {
		rows := x.rows
		sum += list[k].Quality * float64(len(rows))
		out.FinishMS = max(out.FinishMS, short(list[k].Finish-now))
		for option, n := range list[k].Batches {
			o := &m.Options[m.entries[option].Option]
			for _, row := range rows[:n] {
				out.Inputs[row] = PlannedInput{row, o.Variant, o.Modalities}
				out.Strategy[o.Variant]++
			}
			rows = rows[n:]
		}
	}
	out.Quality = short(sum / float64(len(j.there)))
	out.Kept = out.FinishMS <= out.TotalMS
	return out
}

// Names are those of the models.
func (s *Service) Names() string { return s.names() }

// Ready reports whether a worker of the model is up.
func (s *Service) Ready(name string) bool {
	m, _ := s.find(&Asked{Model: name})
	if m == nil {
		return false
	}
	for i := range m.Workers {
		if m.pool.Up(i) {
			return true
		}
	}
	return false
}

// The bounds of an engine's metadata: of their time, and of their bytes.
const (
	describing    = 5 * time.Second
	wholeMetadata = 1 << 20
)

// Metadata writes the metadata of the model in the form of the Open Inference Protocol, as an engine
// that is up has them. Their memory is charged to the budget of answers until they are written.
func (s *Service) Metadata(ctx context.Context, name string, write func(text []byte)) error {
	m, _ := s.find(&Asked{Model: name})
	if m == nil {
		return fmt.Errorf("there is no model %q", name)
	}
	err := rm.ErrNoneUp
	for i := range m.Workers {
		if !m.pool.Up(i) {
			continue
		}
		if err = s.describe(ctx, m, m.Workers[i].Replicas[0], write); err == nil {
			return nil
		}
		if errors.Is(err, proxy.ErrMemory) {
			return refusal(refusedMemory)
		}
	}
	return err
}

// describe writes the metadata that the replica's engine has, with the name that clients know.
func (s *Service) describe(ctx context.Context, m *model, replica int, write func(text []byte)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, describing, errSlow)
	defer cancel()
	var path string
	text, status, err := s.Get(ctx, replica, func(model string) string {
		path = inference.PathPrefix + url.PathEscape(model)
		return path
	}, wholeMetadata)
	if err != nil {
		return fmt.Errorf("the engine on %s: %w", s.Host(replica), err)
	}
	held := int64(cap(text))
	defer func() { s.Memory.Give(held) }()
	if status != http.StatusOK || !json.Valid(text) || !wire.Members(text, func([]byte, int, int) bool { return true }) {
		return fmt.Errorf("the engine on %s has no metadata at %s: it answered %d", s.Host(replica), path, status)
	}
	own, err := json.Marshal(m.Name)
	if err != nil {
		return err
	}
	if !s.Memory.Take(int64(len(text) + len(own))) {
		return proxy.ErrMemory
	}
	held += int64(len(text) + len(own))
	write(renamed(text, own))
	return nil
}

// errSlow is why an engine that takes too long is not waited for.
var errSlow = errors.New("it did not answer in time")

// renamed is the object with another name.
func renamed(object, name []byte) []byte {
	var out bytes.Buffer
	out.Grow(len(object) + len(name) + len(`{"name":}`))
	out.WriteString(`{"name":`)
	out.Write(name)
	wire.Members(object, func(key []byte, start, end int) bool {
		if string(key) != "name" {
			writeField(&out, ',', field{name: string(key), value: object[start:end]})
		}
		return true
	})
	out.WriteByte('}')
	return out.Bytes()
}

// IsList reports whether the body, which may be no JSON, has a list of inputs.
func IsList(body []byte) (list bool) {
	wire.Members(body, func(key []byte, start, _ int) bool {
		list = string(key) == "inputs" && body[start] == '['
		return !list
	})
	return list
}
