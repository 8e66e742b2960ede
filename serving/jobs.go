package serving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router/fleet"
	"gearshift/serving/access"
	"gearshift/serving/admin/overview"
	"gearshift/serving/config"
	"gearshift/serving/jobs"
	"gearshift/serving/openai/catalogue"
	"gearshift/serving/openai/inference"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// The headers of jobs: how many of its requests each variant has answered, and the lowest mean quality
// that the client takes.
const headerStrategy, headerMinQuality = "X-Gearshift-Strategy", "X-Gearshift-Min-Quality"

// serveJobs starts what plans jobs. The proxy sends their batches.
func (s *Server) serveJobs(o *Options) (err error) {
	ledger := s.router.Ledger()
	s.jobs, err = jobs.New(o.Modality, jobs.Options{
		Clock: s.clock, Memory: s.memory.Answers, Send: s.sendBatch,
		Takes: func(replica int) bool { return ledger.State(replica) == fleet.Up },
		Host:  func(replica int) string { return s.table.Hosts[s.table.Replicas[replica].Host].Name },
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrJobs, err)
	}
	if s.jobs.On() {
		err = s.metrics.Registry.Register(s.jobs)
	}
	return err
}

// sendBatch has a batch answered that is planned for the replica, where it takes a place.
func (s *Server) sendBatch(ctx context.Context, replica int, task string, b *proxy.Batch) (sent jobs.Sent, err error) {
	sent.Replica = replica
	w, ok := s.adapter.Place(fleet.Request{Task: max(0, s.table.TaskIndex(task))}, replica, planned)
	if !ok {
		return sent, jobs.ErrDown
	}
	outcome := work.Panicked
	defer func() {
		w.End(outcome, 0)
		if value := recover(); value != nil {
			s.log.Error("panic", "value", value, "replica", s.table.Replicas[sent.Replica].Name, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", value)
		}
	}()
	outcome, sent.Failed, err = s.proxy.Ask(ctx, b, w, s.clock()+s.settings().Timeouts.Total)
	sent.Replica = w.Replica
	return sent, err
}

// planned is the policy of batches, in place of one that routes requests.
const planned = "jobs"

// ErrJobs marks errors of [New] that are about how jobs are to be planned.
var ErrJobs = errors.New("jobs cannot be planned")

// jobModels are the models that take jobs, as the list of models has them.
func jobModels(c *jobs.Config) (list []catalogue.JobModel) {
	for i := range c.Models {
		m := catalogue.JobModel{Name: c.Models[i].Name}
		for _, o := range c.Models[i].Options {
			m.Variants = append(m.Variants, o.Variant)
		}
		list = append(list, m)
	}
	return list
}

// inferJob answers a request of the Open Inference Protocol.
func (s *Server) inferJob(c *gin.Context, _ *proxy.Endpoint) {
	until := s.clock() + s.settings().Timeouts.Total
	body, fault := s.read(c, taken{media: tensorType, inference: true})
	if fault != nil {
		s.refuse(c, fault)
		return
	}
	defer body.Release()
	asked, fault := s.askedFor(c, modelOfPath(c), "")
	if fault == nil && !s.jobs.Serves(asked.Model, asked.Task) {
		fault = s.noInference(asked.Model)
	}
	if fault != nil {
		s.refuse(c, fault)
		return
	}
	if a := accountOf(c.Request.Context()); a != nil {
		a.Asked = asked.Model
	}
	q, err := inference.ReadRequest(c.Request.Header, body.Bytes())
	if err != nil {
		s.refuse(c, wire.Bad(http.StatusBadRequest, "", "invalid_inference", err.Error()))
		return
	}
	job, refused := s.jobs.Infer(asked, q)
	if refused != nil {
		s.failJob(c, refused)
		return
	}
	s.answerJob(c, job, len(body.Bytes()), until, (*jobs.Result).Inference)
}

// planJob says which modalities would be sent for a job.
func (s *Server) planJob(c *gin.Context) {
	body, fault := s.read(c, taken{})
	if fault != nil {
		s.refuse(c, fault)
		return
	}
	defer body.Release()
	var in jobs.Draft
	fault = wire.RefusalOf(wire.Decode(body.Bytes(), &in, true))
	var asked jobs.Asked
	if fault == nil {
		asked, fault = s.askedFor(c, in.Model, in.Task)
	}
	if fault != nil {
		s.refuse(c, fault)
		return
	}
	plan, refused := s.jobs.Plan(asked, in)
	if refused != nil {
		s.refuse(c, &refused.Refusal)
		return
	}
	c.JSON(http.StatusOK, plan)
}

// askedFor is what the client asks for: by its header, and by the model and task that its body
// names.
func (s *Server) askedFor(c *gin.Context, model, task string) (a jobs.Asked, fault *wire.Refusal) {
	h := c.Request.Header
	a = jobs.Asked{Model: model, Explain: wire.Field(h, headerExplain) == "1"}
	index, fault := s.catalogue.Task(h, task, work.Auto)
	if fault != nil {
		return a, fault
	}
	if a.Task = s.table.Tasks[index].Name; wire.Field(h, "X-Gearshift-Task") == "" && s.table.TaskIndex(task) < 0 {
		a.Task = s.jobs.Task(model, a.Task)
	}
	if a.Total, fault = deadline(h, totalHeaders, "milliseconds until the end of the answer"); fault != nil {
		return a, fault
	}
	if text := strings.TrimSpace(wire.Field(h, headerMinQuality)); text != "" {
		var err error
		if a.MinQuality, err = strconv.ParseFloat(text, 64); err != nil {
			return a, wire.Bad(http.StatusBadRequest, strings.ToLower(headerMinQuality), "invalid_quality", fmt.Sprintf("quality %q; it must be a number of at least 0", text))
		}
	}
	if allowed := s.catalogue.Allowed(access.Granted(c)); allowed != 0 {
		a.May = func(variant string) bool {
			i := s.table.VariantIndex(variant)
			return i >= 0 && allowed>>i&1 == 1
		}
	}
	return a, nil
}

// answerJob has the job answered, and its answer written. It is charged for what is sent to engines
// and what comes back.
func (s *Server) answerJob(c *gin.Context, job *jobs.Job, size int, until time.Duration, write func(*jobs.Result, http.Header) ([]byte, error)) {
	defer job.Release()
	account := accountOf(c.Request.Context())
	key, fault := s.queue.Key(c.Request.Header, access.Tenant(c), access.Granted(c).Classes)
	var spend access.Spend
	if fault == nil {
		spend, fault = access.Reserve(c, int64(job.Size()))
	}
	if fault != nil {
		s.refuse(c, fault)
		return
	}
	account.queued(key.Tenant)
	job.Tenant, job.Header = key.Tenant, s.proxy.Forward(c)
	charged := int64(size + answerBuffer)
	if !s.memory.Answers.Take(charged) {
		spend.End(time.Now(), 0)
		s.memory.LogShortage("answers")
		s.refuse(c, s.noMemory(c, "for answers"))
		return
	}
	defer s.memory.Answers.Give(charged)
	ctx, cancel := context.WithTimeoutCause(c.Request.Context(), until-s.clock(), config.Overdue(config.PhaseTotal))
	defer cancel()
	r, err := s.jobs.Do(ctx, job)
	spend.End(time.Now(), int64(r.Tokens))
	s.countJob(r, job.Total)
	if account != nil {
		account.Job = r
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
			s.reply.Writable(c)
			c.Data(http.StatusOK, h.Get("Content-Type"), text)
			return
		}
		err = &jobs.Refused{Refusal: wire.Refusal{Status: http.StatusBadGateway, Error: wire.Error{Type: wire.ServerError, Code: "upstream_error", Message: err.Error()}}}
	}
	s.failJob(c, err)
}

// countJob counts the requests of a job that engines have answered, as those that came alone are counted.
func (s *Server) countJob(r *jobs.Result, total time.Duration) {
	took := time.Duration(r.TookMS * float64(time.Millisecond))
	task, outcome := s.table.TaskIndex(r.Task), work.Cancelled
	switch {
	case r.Answered():
		outcome = work.Completed
	case !r.Left():
		outcome = work.Failed
	}
	for name, n := range r.Strategy {
		variant := s.table.VariantIndex(name)
		if task < 0 || variant < 0 {
			continue
		}
		one := work.Result{Outcome: outcome, Latency: took, Judged: outcome != work.Cancelled}
		if outcome == work.Completed {
			one.Met = took <= total
			one.Utility = s.table.Tasks[task].Utility(variant, fleet.Times{Total: took}, fleet.Deadlines{Total: total})
			r.Utility += float64(n) * one.Utility
		}
		s.metrics.Answered(task, variant, n, one)
	}
}

// failJob answers for a job that has no answer.
func (s *Server) failJob(c *gin.Context, err error) {
	var refused *jobs.Refused
	var late config.Overdue
	switch {
	case errors.As(err, &refused) && refused.Load:
		if refused.Code == "out_of_memory" {
			s.memory.LogShortage("answers")
		}
		h := c.Writer.Header()
		h.Set(access.HeaderReason, string(refused.Code))
		h.Set("Retry-After", strconv.Itoa(int((s.settings().RetryAfter+time.Second-1)/time.Second)))
		s.fail(c, refused.Status, refused.Refusal.Error)
	case errors.As(err, &refused):
		s.refuse(c, &refused.Refusal)
	case errors.As(err, &late):
		s.fail(c, http.StatusGatewayTimeout, wire.Error{Type: wire.Timeout, Code: "timeout", Message: fmt.Sprintf("the job was not answered within %v (serving.timeouts.total)", s.settings().Timeouts.Total)})
	default:
		c.Status(statusClientLeft) // nobody reads it
	}
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
