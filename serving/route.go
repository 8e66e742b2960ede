package serving

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router/fleet"
	"gearshift/serving/access"
	"gearshift/serving/admission"
	"gearshift/serving/admission/limits"
	"gearshift/serving/engines"
	"gearshift/serving/openai/catalogue"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// leaseEndpoint decides alone: its callers dispatch their requests themselves.
type leaseEndpoint struct {
	*receiver
	table       *fleet.Table
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
		x.reply.Refuse(c, x.leases.Refusal(c.Writer.Header(), why))
		return
	}
	x.take(c, taken{}, func(body *wire.Buffer) *wire.Refusal {
		in, k, fault := x.understand(c, body.Bytes())
		if fault != nil {
			return fault
		}
		spend, fault := access.Reserve(c, x.queue.Expected(k.fleet.PromptTokens, 1, in.MaxTokens))
		if fault != nil {
			return fault
		}
		if w := x.admitter.begin(c, k, x.leases.Unseen(in.MaxTokens), spend); w != nil {
			x.lease(c, key, w, in.MaxTokens)
		}
		return nil
	})
}

// lease gives the caller a lease of the work.
func (x *leaseEndpoint) lease(c *gin.Context, key string, w *work.Work, maxTokens int) {
	if c.Request.Context().Err() != nil { // its caller would not end the lease
		c.Status(statusClientLeft)
		x.settler.settle(w, work.Cancelled, 0)
		return
	}
	timeout := x.leases.Lifetime(w, maxTokens)
	id, why := x.leases.Add(key, w, maxTokens, timeout, access.Of(c))
	if why != limits.None {
		x.settler.settle(w, work.Cancelled, 0)
		fault := x.leases.Refusal(c.Writer.Header(), why)
		x.reply.Fail(c, fault.Status, fault.Error)
		return
	}
	replica := x.table.Replicas[w.Replica]
	c.JSON(http.StatusOK, routeAnswer{
		Lease: id, Variant: x.table.Variants[w.Variant].Name,
		Replica: replica.Name, Host: x.table.Hosts[replica.Host].Name,
		Policy: w.Policy, Fallback: w.Reason, ExpiresS: timeout.Seconds(),
	})
}

// understand reads the body of a request for a lease.
func (x *leaseEndpoint) understand(c *gin.Context, body []byte) (in routeRequest, k call, fault *wire.Refusal) {
	if len(bytes.TrimSpace(body)) == 0 {
		return in, k, wire.Bad(http.StatusBadRequest, "", "missing_body", `the body is empty; it must be a JSON object that says what is to be routed, such as {"task": NAME, "prompt_tokens": 120, "max_tokens": 300}`)
	}
	if fault = wire.RefusalOf(wire.Decode(body, &in, true)); fault != nil {
		return in, k, fault
	}
	k.variant, k.account = work.Auto, accountOf(c.Request.Context())
	if k.fleet, fault = in.request(x.interpreter.catalogue); fault != nil {
		return in, k, fault
	}
	k.fleet.Session = session(x.interpreter.affinity, c.Request.Header)
	if fault = x.interpreter.catalogue.SetMinQuality(c.Request.Header, &k.fleet, work.Auto); fault == nil {
		fault = x.interpreter.catalogue.Permit(access.Granted(c), &k.fleet, k.variant)
	}
	return in, k, fault
}

// mostPromptTokens is beyond any model's context, and can be summed.
const mostPromptTokens = 1 << 24

// request is what the body asks for, without what headers do.
func (in routeRequest) request(k *catalogue.Catalogue) (r fleet.Request, fault *wire.Refusal) {
	if r.Task, fault = k.TaskNamed(in.Task, "task"); fault != nil {
		return r, fault
	}
	if r.PromptTokens = in.PromptTokens; r.PromptTokens < 0 || r.PromptTokens > mostPromptTokens {
		return r, wire.Bad(http.StatusBadRequest, "prompt_tokens", "invalid_value", fmt.Sprintf(`"prompt_tokens" must not be negative, nor above %d`, mostPromptTokens))
	}
	if in.MaxTokens < 0 || in.MaxTokens > mostPromptTokens {
		return r, wire.Bad(http.StatusBadRequest, "max_tokens", "invalid_value", fmt.Sprintf(`"max_tokens" must not be negative, nor above %d`, mostPromptTokens))
	}
	into := [...]*time.Duration{&r.Deadline, &r.FirstToken, &r.Total}
	for i, ms := range []*float64{in.DeadlineMS, in.FirstTokenMS, in.TotalMS} {
		if ms == nil {
			continue
		}
		var ok bool
		if *into[i], ok = fromMilliseconds(*ms); !ok {
			return r, deadlines[i].bad(deadlines[i].key, fmt.Sprint(*ms))
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
	x.take(c, taken{}, func(body *wire.Buffer) (fault *wire.Refusal) {
		var in leaseReport
		if len(bytes.TrimSpace(body.Bytes())) > 0 { // an empty body is an empty object
			fault = wire.RefusalOf(wire.Decode(body.Bytes(), &in, true))
		}
		if fault == nil {
			fault = in.fault()
		}
		if fault != nil {
			return fault
		}
		w, r, ok := x.leases.End(c.Param("lease"), access.Tenant(c), in.apply)
		if !ok {
			return wire.Bad(http.StatusNotFound, "lease", "lease_not_found", "there is no such lease; it may have ended or expired")
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
		return nil
	})
}
