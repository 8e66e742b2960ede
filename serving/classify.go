package serving

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router/fleet"
	"gearshift/serving/jobs"
	"gearshift/serving/openai/catalogue"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// classifier answers requests to classify inputs of models whose inputs are chosen.
type classifier struct {
	*completions
	table *fleet.Table
	jobs  *jobEndpoints
}

// classify answers a request to classify: a job, if it is a list of inputs for a model whose inputs are
// chosen, or a request for one input, which is routed as others are.
func (x *classifier) classify(c *gin.Context, e *proxy.Endpoint) {
	until := x.clock() + x.settings().Timeouts.Total
	x.take(c, taken{}, func(body *wire.Buffer) *wire.Refusal {
		received := x.clock()
		k, fault := parsed(c, body)
		if fault != nil {
			return fault
		}
		if jobs.IsList(body.Bytes()) {
			asked, fault := x.jobs.askedFor(c, k.Model, k.Task)
			if fault != nil {
				return fault
			}
			if x.jobs.service.Serves(asked.Model, asked.Task) {
				return x.classifyJob(c, asked, body, until)
			}
		}
		name := k.Model
		x.standFor(c, &k)
		if fault = x.routable(c, e, &k); fault == nil {
			fault = x.reached(&k, name)
		}
		if fault == nil {
			fault = x.fitInputs(&k)
		}
		if fault == nil {
			fault = x.finish(c, e, k, received, until)
		}
		return fault
	})
}

// classifyJob answers a list of inputs to classify.
func (x *classifier) classifyJob(c *gin.Context, asked jobs.Asked, body *wire.Buffer, until time.Duration) *wire.Refusal {
	job, refused := x.jobs.service.Classify(asked, body.Bytes())
	if refused != nil {
		return &refused.Refusal
	}
	return x.jobs.answer(c, job, len(body.Bytes()), until, func(r *jobs.Result, h http.Header) ([]byte, error) {
		h.Set("Content-Type", "application/json")
		return r.Classification(wire.Field(h, proxy.RequestID))
	})
}

// standFor has the name of a model whose inputs are chosen stand for its variants, and its task for the
// request'x. A variant may have that name itself, and is meant then.
func (x *classifier) standFor(c *gin.Context, k *call) {
	if len(x.table.Variants) > catalogue.MostVariants || x.table.VariantIndex(k.Model) >= 0 {
		return
	}
	for _, name := range x.jobs.service.VariantsOf(k.Model) {
		if i := x.table.VariantIndex(name); i >= 0 {
			k.fleet.Variants |= 1 << i
		}
	}
	if k.fleet.Variants == 0 {
		return
	}
	if index, fault := x.interpreter.catalogue.Task(c.Request.Header, k.Task, work.Auto); fault == nil && wire.Field(c.Request.Header, "X-Gearshift-Task") == "" && x.table.TaskIndex(k.Task) < 0 {
		k.Task = x.jobs.service.Task(k.Model, x.table.Tasks[index].Name)
	}
	k.Model = AutoModel
}

// reached refuses a request that names a model of which no variant answers the task with the
// quality that is asked for.
func (x *classifier) reached(k *call, model string) *wire.Refusal {
	if k.fleet.Variants == 0 {
		return nil
	}
	answered := false
	for v := range x.table.Variants {
		if x.table.Reaches(&k.fleet, v) {
			return nil
		}
		answered = answered || k.fleet.Variants>>v&1 == 1 && x.table.Answers(k.fleet.Task, v)
	}
	task := x.table.Tasks[k.fleet.Task].Name
	if !answered {
		return wire.Bad(http.StatusBadRequest, "model", "model_not_for_task", fmt.Sprintf("%q does not answer task %q", model, task))
	}
	return wire.Bad(http.StatusBadRequest, strings.ToLower(catalogue.HeaderQuality), "quality_not_found", fmt.Sprintf("no variant of %q has quality %v for task %q", model, k.fleet.MinQuality, task))
}

// fitInputs leaves one input to classify the variants that need nothing that it lacks.
func (x *classifier) fitInputs(k *call) *wire.Refusal {
	if len(x.table.Variants) > catalogue.MostVariants {
		return nil
	}
	has := k.Inputs().Names()
	var lacking, some uint64
	for v := range x.table.Variants {
		if x.jobs.service.Lacks(x.table.Variants[v].Name, has) {
			lacking |= 1 << v
		} else {
			some |= 1 << v
		}
	}
	if lacking == 0 {
		return nil
	}
	if k.fleet.Variants != 0 {
		some &= k.fleet.Variants
	}
	k.fleet.Variants = some
	for v := range x.table.Variants {
		if some>>v&1 == 1 && x.table.Reaches(&k.fleet, v) && (k.variant == work.Auto || k.variant == v) {
			return nil
		}
	}
	message := "the input has no text, image, audio or video; want one that the model takes"
	if len(has) > 0 {
		message = fmt.Sprintf("the input has %s, which is not enough for the model", strings.Join(has, ", "))
	}
	return wire.Bad(http.StatusBadRequest, "input", "input_missing", message)
}
