package serving

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router/fleet"
	"gearshift/serving/wire"
)

// parked holds the work that callers of the route endpoint do themselves,
// until they report its end or their time is over.
type parked struct {
	settle func(*Work, Outcome, int) (Result, bool)

	mu     sync.Mutex // protects all below
	leases map[string]parkedWork
	closed bool
}

type parkedWork struct {
	*Work
	timer *time.Timer
}

func newParked(settle func(*Work, Outcome, int) (Result, bool)) *parked {
	return &parked{settle: settle, leases: map[string]parkedWork{}}
}

// park returns the ID by which the caller may end the work, within the timeout. It is
// random, so that nobody ends another's by accident.
func (p *parked) park(w *Work, timeout time.Duration) (id string, ok bool) {
	id = randomID()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return "", false
	}
	timer := time.AfterFunc(timeout, func() { p.end(id, Expired, 0) })
	p.leases[id] = parkedWork{w, timer}
	return id, true
}

// end settles the work, which it returns as well; false if there is none by that ID
// (any more).
func (p *parked) end(id string, outcome Outcome, tokens int) (*Work, Result, bool) {
	p.mu.Lock()
	w, ok := p.leases[id]
	delete(p.leases, id)
	p.mu.Unlock()
	if !ok {
		return nil, Result{}, false
	}
	w.timer.Stop()
	r, ok := p.settle(w.Work, outcome, tokens)
	return w.Work, r, ok
}

// count adds the parked work to the replicas' counts.
func (p *parked) count(to []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.leases {
		to[w.Replica]++
	}
}

func (p *parked) close() {
	p.mu.Lock()
	p.closed = true
	left := p.leases
	p.leases = nil
	p.mu.Unlock()
	for _, w := range left {
		w.timer.Stop()
		p.settle(w.Work, Expired, 0)
	}
}

// routeRequest is the body of POST /v1/gearshift/route.
type routeRequest struct {
	Task         string   `json:"task"`
	PromptTokens int      `json:"prompt_tokens"`
	DeadlineMS   *float64 `json:"deadline_ms"`
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

// route decides alone: the caller dispatches the request itself, and should
// end the lease when its answer has come.
func (s *Server) route(c *gin.Context) {
	var in routeRequest
	k := call{variant: Auto}
	fault := s.decode(c, &in)
	if fault == nil {
		k.fleet, fault = s.understandRoute(in)
	}
	if fault == nil {
		k.fleet.MinQuality, fault = s.minQuality(c.Request.Header, k.fleet.Task, Auto)
	}
	if fault != nil {
		s.refuse(c, fault)
		return
	}
	k.account = accountOf(c.Request.Context())
	k.fleet.Session = s.config.Affinity.session(c.Request.Header)
	work, fault := s.begin(k, c.Writer.Header())
	if fault != nil {
		s.fail(c, fault.status, fault.Error)
		return
	}
	if c.Request.Context().Err() != nil { // nobody would end the lease
		c.Status(statusClientLeft)
		s.settle(work, Cancelled, 0)
		return
	}
	timeout := s.settings().LeaseTimeout
	id, ok := s.parked.park(work, timeout)
	if !ok {
		s.settle(work, Cancelled, 0)
		s.notReady(c, "shutting down")
		return
	}
	replica := s.table.Replicas[work.Replica]
	c.JSON(http.StatusOK, routeAnswer{
		Lease: id, Variant: s.table.Variants[work.Variant].Name,
		Replica: replica.Name, Host: s.table.Hosts[replica.Host].Name,
		Policy: work.Policy, Fallback: work.Reason, ExpiresS: timeout.Seconds(),
	})
}

// mostPromptTokens is beyond any model's context, and can be summed.
const mostPromptTokens = 1 << 24

func (s *Server) understandRoute(in routeRequest) (r fleet.Request, fault *refusal) {
	if r.Task, fault = s.taskNamed(in.Task, "task"); fault != nil {
		return r, fault
	}
	if r.PromptTokens = in.PromptTokens; r.PromptTokens < 0 || r.PromptTokens > mostPromptTokens {
		return r, bad(http.StatusBadRequest, "prompt_tokens", "invalid_value", fmt.Sprintf(`"prompt_tokens" must not be negative, nor above %d`, mostPromptTokens))
	}
	if in.DeadlineMS != nil {
		var ok bool
		if r.Deadline, ok = fromMilliseconds(*in.DeadlineMS); !ok {
			return r, badDeadline("deadline_ms", fmt.Sprint(*in.DeadlineMS), "milliseconds per output token")
		}
	}
	return r, nil
}

// endRoute ends a lease of the route endpoint. With "output_tokens" its
// latency counts against the deadline.
func (s *Server) endRoute(c *gin.Context) {
	var in struct {
		OutputTokens int `json:"output_tokens"`
	}
	fault := s.decode(c, &in)
	if fault == nil && in.OutputTokens < 0 {
		fault = bad(http.StatusBadRequest, "output_tokens", "invalid_value", `"output_tokens" must not be negative`)
	}
	if fault != nil {
		s.refuse(c, fault)
		return
	}
	w, r, ok := s.parked.end(c.Param("lease"), Completed, in.OutputTokens)
	if !ok {
		s.refuse(c, bad(http.StatusNotFound, "lease", "lease_not_found", "there is no such lease; it may have ended or expired"))
		return
	}
	if in.OutputTokens > 0 { // the caller has seen the replica answer
		s.health.succeeded(w.Replica, w.Request.Arrival+w.Waited)
	}
	out := gin.H{"latency_ms": milliseconds(r.Latency)}
	if r.Judged {
		out["per_token_ms"], out["deadline_met"], out["utility"] = milliseconds(r.PerToken), r.Met, r.Utility
	}
	c.JSON(http.StatusOK, out)
}

// decode reads a small body strictly. An empty one is an empty object.
func (s *Server) decode(c *gin.Context, into any) *refusal {
	body, fault := s.read(c)
	if fault != nil {
		return fault
	}
	defer body.Release()
	if len(bytes.TrimSpace(body.Bytes())) == 0 {
		return nil
	}
	return refusalOf(wire.Decode(body.Bytes(), into, true))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
