package serving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router/fleet"
	"gearshift/serving/access"
	"gearshift/serving/admin/metrics"
	"gearshift/serving/admin/overview"
	"gearshift/serving/admission"
	"gearshift/serving/admission/limits"
	"gearshift/serving/config"
	"gearshift/serving/jobs"
	"gearshift/serving/openai/catalogue"
	"gearshift/serving/openai/inference"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// headerStrategy is how many requests of a job each variant has answered.
const headerStrategy = "X-Gearshift-Strategy"

// Batches has engines answer batches that modules have planned, and counts them.
type Batches struct {
	adapter   *work.Adapter
	proxy     *proxy.Proxy
	metrics   *metrics.Requests
	catalogue *catalogue.Catalogue
	memory    *limits.Answers
}

// Batches returns what has batches answered.
func (s *Server) Batches() *Batches {
	return &Batches{s.adapter, s.proxy, s.metrics, s.catalogue, s.memory.Answers}
}

// Ask has a batch of the task answered by the replica that it is planned for, where it takes a place, or by another of
// its variant. Plan is the name of the plan. The error is [jobs.ErrDown], or one of [proxy.Proxy.Ask].
func (x *Batches) Ask(ctx context.Context, replica, task int, plan string, until time.Duration, b *proxy.Batch) (sent jobs.Sent, err error) {
	sent.Replica = replica
	w, ok := x.adapter.Place(fleet.Request{Task: max(0, task)}, replica, plan)
	if !ok {
		return sent, jobs.ErrDown
	}
	outcome := work.Panicked
	defer func() {
		w.End(outcome, 0)
		if value := recover(); value != nil {
			x.proxy.Log.Error("panic", "value", value, "replica", x.proxy.Table.Replicas[sent.Replica].Name, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", value)
		}
	}()
	outcome, sent.Failed, err = x.proxy.Ask(ctx, b, w, until)
	sent.Replica = w.Replica
	return sent, err
}

// Answered counts so many requests of the task that the replica has answered as one batch, as those that come alone are
// counted.
func (x *Batches) Answered(task, replica, n int, took time.Duration) {
	t, variant := &x.proxy.Table.Tasks[task], x.proxy.Table.Replicas[replica].Variant
	r := work.Result{Outcome: work.Completed, Latency: took, Judged: true, Met: t.Total == 0 || took <= t.Total}
	r.Utility = t.Utility(variant, fleet.Times{Total: took}, fleet.Deadlines{Total: t.Total})
	x.metrics.Answered(task, variant, n, r)
}

// Buffers returns the budget of what is buffered of answers, and of what modules have received.
func (x *Batches) Buffers() *limits.Answers { return x.memory }

// Allowed returns the variants that the client of a request to a module's endpoint may use, as bits; 0 is all.
func (x *Batches) Allowed(r *http.Request) uint64 {
	if by, ok := r.Context().Value(askedKey{}).(asked); ok {
		return x.catalogue.Allowed(access.Granted(by.context))
	}
	return 0
}

// Tenant returns the name of the API key of a request to a module's endpoint; empty without one.
func Tenant(r *http.Request) string {
	if by, ok := r.Context().Value(askedKey{}).(asked); ok {
		return access.Tenant(by.context)
	}
	return ""
}

// planned is the policy of batches of jobs, in place of one that routes requests.
const planned = "jobs"

// ErrJobs marks errors of [New] that are about how jobs are to be planned.
var ErrJobs = errors.New("jobs cannot be planned")

// jobEndpoints answers jobs, and describes the models that take them.
type jobEndpoints struct {
	*receiver
	table     *fleet.Table
	metrics   *metrics.Requests
	catalogue *catalogue.Catalogue
	queue     *admission.Queue
	proxy     *proxy.Proxy
	service   *jobs.Service
}

// infer answers a request of the Open Inference Protocol.
func (x *jobEndpoints) infer(c *gin.Context, _ *proxy.Endpoint) {
	until := x.clock() + x.settings().Timeouts.Total
	x.take(c, taken{media: tensorType, inference: true}, func(body *wire.Buffer) *wire.Refusal {
		asked, fault := x.askedFor(c, modelOfPath(c), "")
		if fault == nil && !x.service.Serves(asked.Model, asked.Task) {
			fault = x.noInference(asked.Model)
		}
		if fault != nil {
			return fault
		}
		if a := accountOf(c.Request.Context()); a != nil {
			a.understood(asked.Model)
		}
		q, err := inference.ReadRequest(c.Request.Header, body.Bytes())
		if err != nil {
			return wire.Bad(http.StatusBadRequest, "", "invalid_inference", err.Error())
		}
		job, refused := x.service.Infer(asked, q)
		if refused != nil {
			return x.unanswered(c, refused)
		}
		return x.answer(c, job, len(body.Bytes()), until, (*jobs.Result).Inference)
	})
}

// plan says which modalities would be sent for a job.
func (x *jobEndpoints) plan(c *gin.Context) {
	x.take(c, taken{}, func(body *wire.Buffer) *wire.Refusal {
		var in jobs.Draft
		if fault := wire.RefusalOf(wire.Decode(body.Bytes(), &in, true)); fault != nil {
			return fault
		}
		asked, fault := x.askedFor(c, in.Model, in.Task)
		if fault != nil {
			return fault
		}
		plan, refused := x.service.Plan(asked, in)
		if refused != nil {
			return &refused.Refusal
		}
		c.JSON(http.StatusOK, plan)
		return nil
	})
}

// askedFor is what the client asks for: by its header, and by the model and task that its body
// names.
func (x *jobEndpoints) askedFor(c *gin.Context, model, task string) (a jobs.Asked, fault *wire.Refusal) {
	h := c.Request.Header
	a = jobs.Asked{Model: model, Explain: wire.Field(h, headerExplain) == "1"}
	index, fault := x.catalogue.Task(h, task, work.Auto)
	if fault != nil {
		return a, fault
	}
	if a.Task = x.table.Tasks[index].Name; wire.Field(h, "X-Gearshift-Task") == "" && x.table.TaskIndex(task) < 0 {
		a.Task = x.service.Task(model, a.Task)
	}
	if a.Total, fault = deadlines[2].read(h); fault != nil {
		return a, fault
	}
	if a.MinQuality, fault = catalogue.Floor(h); fault != nil {
		return a, fault
	}
	if allowed := x.catalogue.Allowed(access.Granted(c)); allowed != 0 {
		a.May = func(variant string) bool {
			i := x.table.VariantIndex(variant)
			return i >= 0 && allowed>>i&1 == 1
		}
	}
	return a, nil
}

// answer has the job answered, and its answer written. It is charged for what is sent to engines
// and what comes back.
func (x *jobEndpoints) answer(c *gin.Context, job *jobs.Job, size int, until time.Duration, write func(*jobs.Result, http.Header) ([]byte, error)) *wire.Refusal {
	defer job.Release()
	key, spend, fault := claim(c, x.queue, x.catalogue.DefaultTask(), int64(job.Size()))
	if fault != nil {
		return fault
	}
	job.Tenant, job.Header = key.Tenant, x.proxy.Forward(c)
	charged := int64(size + answerBuffer)
	if !x.memory.Answers.Take(charged) {
		spend.End(time.Now(), 0)
		return x.memory.Short(c.Writer.Header())
	}
	defer x.memory.Answers.Give(charged)
	ctx, cancel := context.WithTimeoutCause(c.Request.Context(), until-x.clock(), config.Overdue(config.PhaseTotal))
	defer cancel()
	r, err := x.service.Do(ctx, job)
	spend.End(time.Now(), int64(r.Tokens))
	x.count(r, job.Total)
	if a := accountOf(c.Request.Context()); a != nil {
		a.Job = r
	}
	h := c.Writer.Header()
	if r.Explain != nil {
		if text, err := json.Marshal(r.Explain); err == nil {
			h.Set(headerExplain, overview.ASCII(text))
		}
	}
	if err == nil {
		h.Set(headerStrategy, r.Line())
		var text []byte
		if text, err = write(r, h); err == nil {
			x.reply.Writable(c)
			c.Data(http.StatusOK, h.Get("Content-Type"), text)
			return nil
		}
		return upstreamError(err)
	}
	return x.unanswered(c, err)
}

// count counts the requests of a job that engines have answered, as those that came alone are counted.
func (x *jobEndpoints) count(r *jobs.Result, total time.Duration) {
	took := time.Duration(r.TookMS * float64(time.Millisecond))
	task, outcome := x.table.TaskIndex(r.Task), work.Cancelled
	switch {
	case r.Answered():
		outcome = work.Completed
	case !r.Left():
		outcome = work.Failed
	}
	for name, n := range r.Strategy {
		variant := x.table.VariantIndex(name)
		if task < 0 || variant < 0 {
			continue
		}
		one := work.Result{Outcome: outcome, Latency: took, Judged: outcome != work.Cancelled}
		if outcome == work.Completed {
			one.Met = took <= total
			one.Utility = x.table.Tasks[task].Utility(variant, fleet.Times{Total: took}, fleet.Deadlines{Total: total})
			r.Utility += float64(n) * one.Utility
		}
		x.metrics.Answered(task, variant, n, one)
	}
}

// unanswered answers for a job that has no answer, unless that is its own fault.
func (x *jobEndpoints) unanswered(c *gin.Context, err error) *wire.Refusal {
	var refused *jobs.Refused
	var late config.Overdue
	switch {
	case errors.As(err, &refused) && refused.Load:
		if refused.Code == "out_of_memory" {
			x.memory.LogShortage("answers")
		}
		h := c.Writer.Header()
		h.Set(access.HeaderReason, string(refused.Code))
		h.Set("Retry-After", strconv.Itoa(int((x.settings().RetryAfter+time.Second-1)/time.Second)))
		x.reply.Fail(c, refused.Status, refused.Refusal.Error)
	case errors.As(err, &refused):
		return &refused.Refusal
	case errors.As(err, &late):
		x.reply.Fail(c, http.StatusGatewayTimeout, wire.Error{Type: wire.Timeout, Code: "timeout", Message: fmt.Sprintf("the job was not answered within %v (serving.timeouts.total)", x.settings().Timeouts.Total)})
	default:
		c.Status(statusClientLeft) // nobody reads it
	}
	return nil
}

// outcome is how the request ended that was a job; empty if that is to be seen by its status.
func jobOutcome(r *jobs.Result) string {
	switch {
	case r.Answered():
		return work.Completed.String()
	case r.Failed():
		return work.Failed.String()
	case r.Left():
		return work.Cancelled.String()
	}
	return ""
}
