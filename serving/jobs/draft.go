package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"gearshift/router/fleet"
	rm "gearshift/router/modality"
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
	parts := j.split(now + fleet.Milliseconds(j.Total))
	out := &Plan{Model: m.Name, Task: m.Tasks[j.task].Name, MinQuality: j.MinQuality, TotalMS: short(fleet.Milliseconds(j.Total)), Inputs: []PlannedInput{}, Strategy: map[string]int{}}
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

// Up lists a replica of each worker of the model that is up.
func (s *Service) Up(name string) (replicas []int) {
	if m, _ := s.find(&Asked{Model: name}); m != nil {
		for i := range m.Workers {
			if m.pool.Up(i) {
				replicas = append(replicas, m.Workers[i].Replicas[0])
			}
		}
	}
	return replicas
}

// IsList reports whether the body, which may be no JSON, has a list of inputs.
func IsList(body []byte) (list bool) {
	wire.Members(body, func(key []byte, start, _ int) bool {
		list = string(key) == "inputs" && body[start] == '['
		return !list
	})
	return list
}
