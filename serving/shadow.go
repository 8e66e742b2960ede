package serving

import (
	"context"
	"fmt"
	"net/http"

	"gearshift/router/fleet"
	"gearshift/serving/admission"
	"gearshift/serving/config"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/quality/shadow"
	"gearshift/serving/work"
)

// completionsPath completes texts.
const completionsPath = "/v1/completions"

// spare has the router ask for itself, in places that no client waits for.
type spare struct {
	settings func() *Config
	drain    *drain
	queue    *admission.Queue
	adapter  *work.Adapter
	proxy    *proxy.Proxy
	memory   *admission.Memory
}

// newShadows makes what has second answers asked for; nil where nothing would learn from them.
func newShadows(s *Server, o *Options) *shadow.Shadows {
	if o.Predictors == nil || o.Feedback == nil {
		return nil
	}
	own := spare{s.running.Config, s.drain, s.queue, s.adapter, s.proxy, s.memory}
	x := shadow.New(shadow.Options{
		Table: s.router.Table(), Settings: func() config.Shadow { return o.Predictors.Settings().Shadow },
		Sample: o.Predictors.Sample, Place: own.place, Ask: own.ask, Output: s.queue.Output, Learn: o.Feedback.Add, Clock: s.clock, Log: s.log,
	})
	s.metrics.Registry.MustRegister(x.Metrics()...)
	return x
}

// place takes a place on the variant, if no client's request waits for one.
func (x spare) place(r *fleet.Request, variant int) (replica int, end func(), ok bool) {
	if x.drain.draining.Load() || x.queue.Waits() {
		return -1, nil, false
	}
	p, ok := x.adapter.Spare(r, variant, r.PromptTokens+int(x.queue.Output()))
	if !ok {
		return -1, nil, false
	}
	return p.Replica, p.End, true
}

// ask returns a replica's answer. Neither its health nor the metrics of requests take note of it.
func (x spare) ask(ctx context.Context, replica int, path string, compose func(model string) ([]byte, error), most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, x.settings().Timeouts.Total, config.Overdue(config.PhaseTotal))
	defer cancel()
	text, status, err := x.proxy.Post(ctx, replica, path, compose, most)
	if err != nil {
		return nil, err
	}
	x.memory.Answers.Give(int64(cap(text))) // of what is read at once
	if status != http.StatusOK {
		return nil, fmt.Errorf("it answered %d", status)
	}
	return text, nil
}

// drawn returns a copy of the call if a second size is to answer it too. That is for texts whose size the
// policy has chosen among all of them.
func (x *completions) drawn(h http.Header, e *proxy.Endpoint, k *call, w *work.Work) *shadow.Copy {
	r := &w.Request
	if x.shadows == nil || !x.admitter.predictors.InUse() || e.Path != proxy.ChatPath && e.Path != completionsPath {
		return nil
	}
	if w.Ruled() || r.Only > 0 || r.Variants != 0 || k.Answers() > 1 {
		return nil
	}
	return x.shadows.Draw(e.Path, k.Request, r, x.interpreter.catalogue.Named(h, k.Request.Task))
}
