package serving

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router/fleet"
	"gearshift/serving/access"
	"gearshift/serving/admin/metrics"
	"gearshift/serving/admission"
	"gearshift/serving/admission/limits"
	"gearshift/serving/engines"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// leaseEndpoint decides alone: its callers dispatch their requests themselves.
type leaseEndpoint struct {
	table       *fleet.Table
	reply       *proxy.Writer
	metrics     *metrics.Requests
	receiver    *receiver
	interpreter *interpreter
	queue       *admission.Queue
	admitter    *admitter
	settler     *settler
	leases      *admission.LeaseManager
	health      *engines.Controller
}

// routeRequest is the body of POST /v1/gearshift/route.
type routeRequest struct {
	Task         string `json:"task"`
	PromptTokens int    `json:"prompt_tokens"`
	// The deadlines: per output token, from arrival to the first token, and to the end.
	DeadlineMS   *float64 `json:"deadline_ms"`
	FirstTokenMS *float64 `json:"first_token_ms"`
	TotalMS      *float64 `json:"total_ms"`
	MaxTokens    int      `json:"max_tokens"`
}

// routeAnswer is the answer to it.
type routeAnswer struct {
	Lease   string `json:"lease"`
	Variant string `json:"variant"`
	Replica string `json:"replica"`
	Host    string `json:"host"`
	Policy  string `json:"policy"`
	// Fallback is the reason for one, if there was one.
	Fallback string  `json:"fallback,omitempty"`
	ExpiresS float64 `json:"expires_s"`
}

// begin routes a request, and gives its caller a lease, which should end when the answer has come.
func (x *leaseEndpoint) begin(c *gin.Context) {
	key := access.Tenant(c)
	if why := x.leases.Fits(key); why != limits.None {
		status := x.leases.Refuse(c, why)
		x.metrics.Refused(status)
		if status < http.StatusInternalServerError {
			accountOf(c.Request.Context()).refused()
		}
		return
	}
	in, k, fault := x.readBody(c)
	if fault != nil {
		x.reply.Refuse(c, fault)
		return
	}
	k.account = accountOf(c.Request.Context())
	k.fleet.Session = session(x.interpreter.affinity, c.Request.Header)
	spend, fault := access.Reserve(c, x.queue.Expected(k.fleet.PromptTokens, 1, in.MaxTokens))
	if fault != nil {
		x.reply.Refuse(c, fault)
		return
	}
	w := x.admitter.begin(c, k, x.leases.Unseen(in.MaxTokens), spend)
	if w == nil {
		return
	}
	if c.Request.Context().Err() != nil { // its caller would not end the lease
		c.Status(statusClientLeft)
		x.settler.settle(w, work.Cancelled, 0)
		return
	}
	timeout := x.leases.Lifetime(w, in.MaxTokens)
	id, why := x.leases.Add(key, w, in.MaxTokens, timeout, access.Of(c))
	if why != limits.None {
		x.settler.settle(w, work.Cancelled, 0)
		x.leases.Refuse(c, why)
		return
	}
	replica := x.table.Replicas[w.Replica]
	c.JSON(http.StatusOK, routeAnswer{
		Lease: id, Variant: x.table.Variants[w.Variant].Name,
		Replica: replica.Name, Host: x.table.Hosts[replica.Host].Name,
		Policy: w.Policy, Fallback: w.Reason, ExpiresS: timeout.Seconds(),
	})
}

// readBody reads the body of a request for a lease.
func (x *leaseEndpoint) readBody(c *gin.Context) (in routeRequest, k call, fault *wire.Refusal) {
	k.variant = work.Auto
	body, fault := x.receiver.read(c, taken{})
	if fault != nil {
		return in, k, fault
	}
	defer body.Release()
	if len(bytes.TrimSpace(body.Bytes())) == 0 {
		return in, k, wire.Bad(http.StatusBadRequest, "", "missing_body", `the body is empty; it must be a JSON object that says what is to be routed, such as {"task": NAME, "prompt_tokens": 120, "max_tokens": 300}`)
	}
	if fault = wire.RefusalOf(wire.Decode(body.Bytes(), &in, true)); fault != nil {
		return in, k, fault
	}
	if k.fleet, fault = x.understand(in); fault != nil {
		return in, k, fault
	}
	if k.fleet.MinQuality, fault = x.interpreter.catalogue.MinQuality(c.Request.Header, k.fleet.Task, work.Auto); fault == nil {
		fault = x.interpreter.catalogue.Permit(access.Granted(c), &k.fleet, k.variant)
	}
	return in, k, fault
}

// mostPromptTokens is beyond any model's context, and can be summed.
const mostPromptTokens = 1 << 24

func (x *leaseEndpoint) understand(in routeRequest) (r fleet.Request, fault *wire.Refusal) {
	if r.Task, fault = x.interpreter.catalogue.TaskNamed(in.Task, "task"); fault != nil {
		return r, fault
	}
	if r.PromptTokens = in.PromptTokens; r.PromptTokens < 0 || r.PromptTokens > mostPromptTokens {
		return r, wire.Bad(http.StatusBadRequest, "prompt_tokens", "invalid_value", fmt.Sprintf(`"prompt_tokens" must not be negative, nor above %d`, mostPromptTokens))
	}
	if in.MaxTokens < 0 || in.MaxTokens > mostPromptTokens {
		return r, wire.Bad(http.StatusBadRequest, "max_tokens", "invalid_value", fmt.Sprintf(`"max_tokens" must not be negative, nor above %d`, mostPromptTokens))
	}
	for _, d := range []struct {
		key, unit string
		ms        *float64
		into      *time.Duration
	}{
		{"deadline_ms", "milliseconds per output token", in.DeadlineMS, &r.Deadline},
		{"first_token_ms", "milliseconds until the first token", in.FirstTokenMS, &r.FirstToken},
		{"total_ms", "milliseconds until the end of the answer", in.TotalMS, &r.Total},
	} {
		if d.ms == nil {
			continue
		}
		var ok bool
		if *d.into, ok = fromMilliseconds(*d.ms); !ok {
			return r, badDeadline(d.key, fmt.Sprint(*d.ms), d.unit)
		}
	}
	return r, nil
}

// leaseReport is the body of the end of a lease: what its caller says of the answer.
type leaseReport struct {
	// OutputTokens is its length. Null is not known; zero is an answer that has none, such as
	// an embedding.
	OutputTokens *int `json:"output_tokens"`
	// FirstTokenMS is the time from the lease to its first token. Null is not known.
	FirstTokenMS *float64 `json:"first_token_ms"`
}

func (in leaseReport) fault() *wire.Refusal {
	if in.OutputTokens != nil && *in.OutputTokens < 0 {
		return wire.Bad(http.StatusBadRequest, "output_tokens", "invalid_value", `"output_tokens" must not be negative`)
	}
	if in.FirstTokenMS != nil {
		if _, ok := fromMilliseconds(*in.FirstTokenMS); !ok {
			return wire.Bad(http.StatusBadRequest, "first_token_ms", "invalid_value", fmt.Sprintf(`"first_token_ms" is %v; it must be a positive number of milliseconds from the lease to the first token`, *in.FirstTokenMS))
		}
	}
	return nil
}

// apply notes on the work of the lease what is said of it, and returns its length; zero is
// not known, or none.
func (in leaseReport) apply(w *work.Work) (tokens int) {
	if in.FirstTokenMS != nil {
		w.FirstToken, _ = fromMilliseconds(*in.FirstTokenMS)
	}
	if in.OutputTokens == nil {
		return 0
	}
	w.Tokenless = *in.OutputTokens == 0
	return *in.OutputTokens
}

// end ends a lease of the route endpoint. With "output_tokens" its
// latency is judged by the deadlines. A key ends its own leases alone.
func (x *leaseEndpoint) end(c *gin.Context) {
	var in leaseReport
	fault := x.receiver.decode(c, &in)
	if fault == nil {
		fault = in.fault()
	}
	if fault != nil {
		x.reply.Refuse(c, fault)
		return
	}
	w, r, ok := x.leases.End(c.Param("lease"), access.Tenant(c), in.apply)
	if !ok {
		x.reply.Refuse(c, wire.Bad(http.StatusNotFound, "lease", "lease_not_found", "there is no such lease; it may have ended or expired"))
		return
	}
	if r.Tokens > 0 { // the caller has seen the replica answer
		x.health.Succeeded(w.Replica, w.Request.Arrival+w.Waited)
	}
	out := gin.H{"latency_ms": fleet.Milliseconds(r.Latency)}
	if r.Judged {
		out["deadline_met"], out["utility"] = r.Met, r.Utility
		if r.Tokens > 0 {
			out["per_token_ms"] = fleet.Milliseconds(r.PerToken)
		}
	}
	c.JSON(http.StatusOK, out)
}
