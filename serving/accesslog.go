package serving

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"gearshift/router/fleet"
	"gearshift/serving/admin/overview"
	"gearshift/serving/config"
	"gearshift/serving/jobs"
	"gearshift/serving/work"
)

// accessLog is the Observer that writes a line for each request.
type accessLog struct {
	settings func() *Config
	log      *slog.Logger
	clock    work.Clock
	done     atomic.Uint64 // completed requests
	lines    *config.LogLimiter
}

// Curious implements [Observer].
func (*accessLog) Curious() bool { return false }

// Routed implements [Observer].
func (*accessLog) Routed(*Account) {}

// Over implements [Observer].
func (l *accessLog) Over(a *Account) {
	level := slog.LevelInfo
	if a.Status >= http.StatusInternalServerError || a.Work != nil && !a.Result.Outcome.Fine() {
		level = slog.LevelWarn
	}
	if !l.log.Enabled(context.Background(), level) || !l.due(a) {
		return
	}
	line := a.line()
	if n := l.lines.Omitted(); n > 0 {
		line = append(line, slog.Uint64("lines_omitted", n))
	}
	l.log.LogAttrs(context.Background(), level, "request", line...)
}

// due says whether the request gets its line. One that is explained, as was asked, always
// does; asking alone is no way past the limit.
func (l *accessLog) due(a *Account) bool {
	c := &l.settings().Log
	switch {
	case c.Access == config.AccessOff:
		return false
	case a.asked && a.Explanation != nil:
		return true
	case a.Job != nil && a.Job.Answered(), a.Work != nil && a.Result.Outcome == work.Completed:
		return c.Access == config.AccessAll && sampled(l.done.Add(1), c.Sample)
	}
	return l.lines.Due(l.clock())
}

// sampled picks the share of the numbers from 1 on, evenly.
func sampled(n uint64, share float64) bool {
	return uint64(float64(n)*share) != uint64(float64(n-1)*share)
}

// line is what the log says of a request. Times are in milliseconds.
func (a *Account) line() []slog.Attr {
	line := make([]slog.Attr, 0, 28)
	text := func(key, value string) {
		if value != "" {
			line = append(line, slog.String(key, value))
		}
	}
	text("id", a.ID)
	text("tenant", a.Tenant)
	text("operation", a.Operation)
	text("asked", a.Asked)
	text("outcome", a.Outcome())
	line = append(line, slog.Int("status", a.Status))
	text("code", a.Code)
	if a.Work != nil {
		line = a.routeLine(line)
		line = a.resultLine(line)
	}
	if a.Job != nil {
		line = jobLine(line, a.Job)
	}
	text("client", a.Client())
	if a.asked && a.Explanation != nil {
		line = append(line, slog.Any("explain", explained{a.Explanation}))
	}
	return line
}

// routeLine appends where the request went, and which policy chose that.
func (a *Account) routeLine(line []slog.Attr) []slog.Attr {
	w, t := a.Work, a.accounts.table
	line = append(line, slog.String("task", t.Tasks[w.Request.Task].Name), slog.String("variant", t.Variants[w.Variant].Name),
		slog.String("replica", t.Replicas[w.Replica].Name), slog.String("policy", w.Policy))
	if w.Fallback {
		line = append(line, slog.String("fallback", w.Reason))
	}
	if q := &w.Request.Predicted; q.Known {
		line = append(line, slog.Float64("predicted_quality", overview.Short(float64(q.Quality[w.Variant]))), slog.Float64("predicted_sure", overview.Short(float64(q.Sure))))
	}
	if w.Waited > 0 {
		line = append(line, slog.Float64("waited_ms", overview.Short(fleet.Milliseconds(w.Waited))))
	}
	return append(line, slog.Int("attempts", a.Attempts), slog.Int("prompt_tokens", w.Request.PromptTokens),
		slog.Int64("overhead_us", a.Overhead.Microseconds()))
}

// resultLine appends how its work ended.
func (a *Account) resultLine(line []slog.Attr) []slog.Attr {
	w, r, t := a.Work, a.Result, a.accounts.table
	ms := func(key string, d time.Duration) {
		if d > 0 {
			line = append(line, slog.Float64(key, overview.Short(fleet.Milliseconds(d))))
		}
	}
	if r.Tokens > 0 {
		line = append(line, slog.Int("tokens", r.Tokens))
	}
	ms("ttft_ms", w.FirstToken)
	ms("latency_ms", r.Latency)
	ms("per_token_ms", r.PerToken)
	d := t.Tasks[w.Request.Task].Deadlines(&w.Request)
	ms("deadline_ms", d.PerToken)
	ms("first_token_deadline_ms", d.FirstToken)
	ms("total_deadline_ms", d.Total)
	if r.Judged {
		line = append(line, slog.Bool("met", r.Met), slog.Float64("utility", overview.Short(r.Utility)))
	}
	return line
}

// jobLine tells of a job: what it asked for, and what it got.
func jobLine(line []slog.Attr, r *jobs.Result) []slog.Attr {
	line = append(line, slog.String("task", r.Task), slog.String("model", r.Model), slog.String("job", r.Outcome), slog.Int("inputs", r.Inputs),
		slog.Float64("min_quality", r.MinQuality), slog.Float64("total_deadline_ms", r.TotalMS), slog.Float64("latency_ms", r.TookMS))
	if strategy := r.Line(); strategy != "" {
		line = append(line, slog.String("strategy", strategy), slog.Float64("quality", r.Quality))
	}
	if r.Worker != "" {
		line = append(line, slog.String("worker", r.Worker), slog.Int("batches", r.Batches))
	}
	if r.Failures > 0 {
		line = append(line, slog.Int("failures", r.Failures))
	}
	return line
}

// explained is an explanation in a log line: an object in JSON, in text the same
// on one line.
type explained struct{ *overview.Explanation }

// MarshalText implements [encoding.TextMarshaler].
func (e explained) MarshalText() ([]byte, error) { return []byte(e.Header()), nil }

// MarshalJSON implements [json.Marshaler].
func (e explained) MarshalJSON() ([]byte, error) { return json.Marshal(e.Explanation) }
