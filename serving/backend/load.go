package backend

import "time"

// Load is what a simulated engine says of itself at one moment.
type Load struct {
	// Running sequences are in the batch, those in prefill among them.
	Running, Waiting int
	// CacheUsage is the share of the KV cache in use, 0 to 1.
	CacheUsage float64
	// Preemptions and Tokens (generated) count from the start.
	Preemptions, Tokens uint64
}

// Load is the present load of the table's i-th replica.
func (s *Simulated) Load(i int) Load {
	r := &s.replicas[i]
	h := r.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.catchUp(time.Since(h.start))
	}
	e := h.host.Engine(r.engine)
	return Load{
		Running: e.Load() - e.Waiting(), Waiting: e.Waiting(), CacheUsage: e.CacheUsage(),
		Preemptions: e.Preemptions(), Tokens: e.Produced(),
	}
}

// Span is the life of one answer in its engine.
type Span struct {
	Replica int // index of the table
	// PromptTokens were asked, OutputTokens generated.
	PromptTokens, OutputTokens int
	// First is the time from the request to the first token, zero if none
	// came; Total is the time to the end.
	First, Total time.Duration
	// Cut says that the client's limit ended the answer.
	Cut bool
	// Err is why the answer ended short, or nil.
	Err error
}

// span is the job's life up to the moment at which it ends.
func (j *job) span(at time.Duration) Span {
	s := Span{
		Replica: j.replica, PromptTokens: j.prompt, OutputTokens: j.tokens,
		Total: at - j.began, Cut: j.cut, Err: j.err,
	}
	if j.first > 0 {
		s.First = j.first - j.began
	}
	return s
}
