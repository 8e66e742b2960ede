package jobs

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	rm "gearshift/router/modality"
	"gearshift/serving/openai/proxy"
)

// Job is several requests to a model, which are answered together.
type Job struct {
	model *model
	task  int
	// MinQuality is the least mean quality of the answers, and Total the time for all of them.
	MinQuality float64
	Total      time.Duration
	// Explain says that the answer is to say why it is what it is.
	Explain bool
	// Tenant is whose it is: as many jobs of each may wait, where more come than may wait in all.
	Tenant string
	// Header is that of the client's request, which goes to engines with its batches.
	Header http.Header

	service *Service
	form    form
	there   []uint64 // by request: its modalities
	allowed []uint64 // by request: the planner's options
	held    int64    // bytes of the budget of answers: its requests besides their text, and their answers

	// All below is of the time from [Service.Do] on.
	arrived  time.Duration
	parts    []*part
	open     int           // parts that are not answered yet
	done     chan struct{} // closed once all are, or one has failed
	cancel   context.CancelFunc
	ctx      context.Context // of its batches
	err      error
	answered []answered // by request
	promised float64    // sum of the qualities planned for it
	worked   *rm.Commit // the last that was committed of it, for the explanation
	at       float64    // when that was
	host     string     // that answered last
	batches  int
	failures int
	busy     []Busy
	usage    int   // tokens that engines have counted
	first    any   // what the first answer of an engine has beyond its rows
	size     int64 // bytes of the answers
}

// Release gives back the memory of the requests and their answers, which the job does not have any more.
func (j *Job) Release() {
	j.service.Memory.Give(j.held)
	j.held, j.answered, j.first = 0, nil, nil
}

// form is how a job's requests are written: each may be sent with some of its modalities.
type form interface {
	// endpoint is that of engines which answer them.
	endpoint() *proxy.Endpoint
	// request is one for some of the job's requests, by a model of the name.
	request(model string, rows []int, modalities uint64) (path string, h http.Header, body []byte, err error)
	// answer reads the answers to n requests from an engine's answer.
	answer(h http.Header, body []byte, n int) (rows []any, tokens int, rest any, err error)
	// fault is an engine's error of that status in the words of the job; nil where the requests
	// are not at fault.
	fault(status int, body []byte, rows []int) *Refused
}

// Asked is what a client asks for, whichever form its requests have.
type Asked struct {
	// Model is the name of a model or of one of its options; empty or "auto" is the model that
	// answers the task.
	Model, Task string
	MinQuality  float64
	Total       time.Duration // zero is the task's
	Explain     bool
	// May reports whether the client may use the variant; nil is any.
	May func(variant string) bool
}

// auto is the name that stands for the model of the task.
const auto = "auto"

// Find returns the model of the name, or of an option of the name, whose index is −1 else. Without
// a name it is that of the task.
func (s *Service) find(a *Asked) (m *model, option int) {
	if s == nil {
		return nil, -1
	}
	for _, m := range s.models {
		if a.Model == m.Name {
			return m, -1
		}
	}
	for _, m := range s.models {
		if i := slices.IndexFunc(m.Options, func(o Option) bool { return o.Variant == a.Model }); i >= 0 {
			return m, i
		}
	}
	if a.Model != "" && a.Model != auto {
		return nil, -1
	}
	for _, m := range s.models {
		if slices.ContainsFunc(m.Tasks, func(t Task) bool { return t.Name == a.Task }) {
			return m, -1
		}
	}
	return nil, -1
}

// Serves reports whether the model, or the task where the model is left to the router, is one
// whose inputs are chosen here.
func (s *Service) Serves(name, task string) bool {
	m, _ := s.find(&Asked{Model: name, Task: task})
	return m != nil
}

// VariantsOf names the options of the model of the name, if it is one of these.
func (s *Service) VariantsOf(name string) (variants []string) {
	for _, m := range s.models {
		if m.Name == name {
			for i := range m.Options {
				variants = append(variants, m.Options[i].Variant)
			}
		}
	}
	return variants
}

// Task is the task that a request means which names this one: itself, if the model that it names
// answers it, or else the model's first.
func (s *Service) Task(name, task string) string {
	m, _ := s.find(&Asked{Model: name, Task: task})
	if m == nil || slices.ContainsFunc(m.Tasks, func(t Task) bool { return t.Name == task }) {
		return task
	}
	return m.Tasks[0].Name
}

// Lacks reports whether the variant is one of a model's options and needs a modality that is not among
// these.
func (s *Service) Lacks(variant string, has []string) bool {
	for _, m := range s.models {
		for i := range m.Options {
			if o := &m.Options[i]; o.Variant == variant {
				return slices.ContainsFunc(o.Modalities, func(name string) bool { return !slices.Contains(has, name) })
			}
		}
	}
	return false
}

// start makes a job of requests that have these modalities, and checks it.
func (s *Service) start(a *Asked, f form, there []uint64) (*Job, *Refused) {
	m, option := s.find(a)
	if m == nil {
		return nil, bad("model", "model_not_found", "there is no model %q whose inputs are chosen; there are %s", a.Model, s.Names())
	}
	task := slices.IndexFunc(m.Tasks, func(t Task) bool { return t.Name == a.Task })
	if task < 0 {
		return nil, bad("task", "unknown_task", "%q does not answer task %q", m.Name, a.Task)
	}
	if len(there) == 0 {
		return nil, bad("inputs", "invalid_value", `"inputs" is empty; a job has at least one`)
	}
	j := &Job{service: s, model: m, task: task, MinQuality: a.MinQuality, Total: cmp.Or(a.Total, m.Tasks[task].Total, defaultTotal), Explain: a.Explain, form: f, there: there}
	for i := range there {
		bits := m.allowed(task, there[i], a.May)
		if option >= 0 {
			bits &= m.only(option)
		}
		if bits == 0 {
			return nil, j.lacks(i, option, a.May)
		}
		j.allowed = append(j.allowed, bits)
	}
	return j, j.check()
}

// only has the bits of the option.
func (s *model) only(option int) (bits uint64) {
	for i, e := range s.entries {
		if e.Option == option {
			bits |= 1 << i
		}
	}
	return bits
}

// Names are those of the models.
func (s *Service) Names() string {
	var all []string
	for _, m := range s.models {
		all = append(all, m.Name)
	}
	return strings.Join(all, ", ")
}

// Size is how many requests it has.
func (j *Job) Size() int { return len(j.there) }

// lacks refuses a job of whose requests one is answered by no option.
func (j *Job) lacks(row, option int, may func(string) bool) *Refused {
	has := strings.Join(j.model.named(j.there[row]), ", ")
	if has == "" {
		return bad("inputs", "invalid_value", "input %d is empty; %s takes %s", row, j.model.Name, strings.Join(j.model.Modalities, ", "))
	}
	var want []string
	for i, e := range j.model.entries {
		o := &j.model.Options[e.Option]
		if e.Task == j.task && (option < 0 || e.Option == option) && (may == nil || may(o.Variant)) && !slices.Contains(want, o.Variant) {
			want = append(want, o.Variant+" ("+strings.Join(j.model.named(j.model.masks[j.model.entries[i].Option]), ", ")+")")
		}
	}
	if len(want) == 0 {
		r := bad("model", "model_not_allowed", "this API key may use no variant of %s that answers task %q", j.model.Name, j.model.Tasks[j.task].Name)
		r.Status = http.StatusForbidden
		return r
	}
	return bad("inputs", "input_missing", "input %d has %s, which is not enough for any of %s", row, has, strings.Join(want, ", "))
}

// check refuses what no strategy can do, at any load.
func (j *Job) check() *Refused {
	if !(j.MinQuality >= 0) || math.IsInf(j.MinQuality, 0) {
		return bad("min_quality", "invalid_quality", "quality %v; it must be a number of at least 0", j.MinQuality)
	}
	parts := j.split(0)
	var sum float64
	var names []string
	for _, x := range parts {
		best, name := j.model.best(x.Allowed)
		sum += best * float64(len(x.rows))
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		if most := j.model.longest(x.Allowed); len(x.rows) > most {
			return tooMany(len(x.rows), most)
		}
	}
	if best := sum / float64(len(j.there)); best+1e-9 < j.MinQuality {
		return bad("min_quality", "quality_not_found", "no strategy reaches a mean quality of %v; the best for these inputs is %s with %.4g", j.MinQuality, strings.Join(names, " and "), best)
	}
	return nil
}

// split makes parts of the requests that may use the same options. The floor of the whole is that
// of each part, where that is possible; where it is not, the other parts make up for it.
func (j *Job) split(deadline float64) []*part {
	var parts []*part
	for i, bits := range j.allowed {
		at := slices.IndexFunc(parts, func(x *part) bool { return x.Allowed == bits })
		if at < 0 {
			at = len(parts)
			x := &part{Entry: rm.Entry{Job: rm.Job{Allowed: bits, Deadline: deadline}}}
			x.Of = x
			parts = append(parts, x)
		}
		x := parts[at]
		x.rows = append(x.rows, i)
		x.Size = len(x.rows)
	}
	// Those with the lowest ceilings first: what they lack is spread over the rest.
	byCeiling := slices.Clone(parts)
	ceiling := func(x *part) float64 { best, _ := j.model.best(x.Allowed); return best }
	slices.SortStableFunc(byCeiling, func(a, b *part) int { return cmp.Compare(ceiling(a), ceiling(b)) })
	left, wanted := len(j.allowed), j.MinQuality*float64(len(j.allowed))
	for _, x := range byCeiling {
		n := float64(len(x.rows))
		x.MinQuality = max(0, min(wanted/float64(left), ceiling(x)))
		left, wanted = left-len(x.rows), wanted-x.MinQuality*n
	}
	return parts
}

// Do has the job answered. The error is a [Refused], or why the context ended. The caller releases the
// job.
func (s *Service) Do(ctx context.Context, j *Job) (*Result, error) {
	err := s.do(ctx, j)
	if copies := writing * j.size; err == nil && s.Memory.Take(copies) {
		j.held += copies
	} else if err == nil {
		err = refusal(refusedMemory)
	}
	r := j.result(err)
	s.metrics.ended(r)
	return r, err
}
