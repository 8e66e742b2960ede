package experience

import (
	"time"

	"gearshift/router/fleet"
)

// Completed is the outcome of a request whose answer went out whole.
const Completed = "completed"

// Row is one routed request.
type Row struct {
	// Decision numbers the routed requests of the run from 1 on, about in the order in
	// which they were decided: of two at the same moment either may come first.
	Decision uint64
	// Wall is when it was decided.
	Wall time.Time
	// Request as the policy saw it. Its ID numbers the run's requests from 1 on;
	// its arrival counts from the run's beginning, as the view's Now does.
	Request fleet.Request
	// View is what was known at the decision, except the forecasts, which follow
	// from the rest and the profiles. Read rows have no table; see [Log.On].
	View fleet.View
	// Variant and Replica are what was chosen.
	Variant, Replica int
	// Policy names the policy that chose, or its stand-in for the reason Fallback. Pinned reports that no policy was
	// free to choose: the client asked for the variant, or for a quality that not all have, or its class gets it first.
	Policy, Fallback string
	Pinned           bool
	// Propensity is how likely this variant was to be chosen: 1 by a policy without
	// chance. Zero is unknown, as where Pinned.
	Propensity float64
	// EndVariant and EndReplica are where the work ended: other ones than chosen
	// if it was moved.
	EndVariant, EndReplica int
	// Outcome is how; see work.Outcome.
	Outcome string
	// OutputTokens is the length of the answer as far as it came, 0 if unknown.
	OutputTokens int
	// FirstToken and Latency are since arrival, PerToken is latency divided by
	// tokens; zero without one.
	FirstToken, Latency, PerToken time.Duration
	// Judged says that the deadline was met or missed.
	Judged, Met bool
	Utility     float64
	// Reported says that the outcome and the length are what the holder of a lease said
	// of them. They are evidence of nothing: see [Row.Known].
	Reported bool

	hosts []int // of a sample, until the row has a table
	line  int
}

// writtenRow is a row as it is written. Times are whole nanoseconds, so that none is
// rounded; the names are the header's.
type writtenRow struct {
	ID           uint64    `json:"id"`
	Decision     uint64    `json:"decision"`
	Time         time.Time `json:"time"`
	At           int64     `json:"at_ns"`
	Arrival      int64     `json:"arrival_ns"`
	Task         string    `json:"task"`
	PromptTokens int       `json:"prompt_tokens"`
	Deadline     int64     `json:"deadline_ns,omitempty"`             // none: the task's own
	FirstWithin  int64     `json:"first_token_deadline_ns,omitempty"` // none: the task's own, if it has one
	TotalWithin  int64     `json:"total_deadline_ns,omitempty"`       // none: the task's own, if it has one
	MinQuality   float64   `json:"min_quality,omitempty"`             // none: any will do
	Session      uint64    `json:"session,string,omitempty"`          // a hash, where sessions are kept together
	Answers      int       `json:"answers,omitempty"`                 // made at once, where it is not one
	Without      []int     `json:"without,omitempty"`                 // replicas that cannot answer it, by index
	Holding      uint64    `json:"holding,omitempty"`                 // variants whose context holds the prompt, by bit; none: all
	Allowed      uint64    `json:"allowed,omitempty"`                 // variants that its key may use, by bit; none: all

	Predicted *writtenPrediction `json:"predicted,omitempty"` // none: the task's row

	InFlight []int32   `json:"in_flight"`
	ByTask   []int32   `json:"in_flight_by_task,omitempty"` // the router's own, of each replica by task
	Held     []int32   `json:"held_tokens"`
	Others   []int32   `json:"of_others,omitempty"`   // of those in flight
	Caps     []int32   `json:"caps,omitempty"`        // on those of the router's own; 0 is none, -1 lets in none
	Excess   []float32 `json:"excess_time,omitempty"` // beyond that of their profiles, as a multiple of it
	Down     []int     `json:"down,omitempty"`        // replicas, by index
	States   []string  `json:"states,omitempty"`      // of the replicas, where not all are up
	Ready    []int64   `json:"ready_at_ns,omitempty"` // when those that load are expected up; 0: not known
	Newer    []bool    `json:"newer,omitempty"`       // whether their versions replace others
	Busy     []float32 `json:"busy_hosts,omitempty"`  // the share of each host that was in use lately
	Hosts    []int     `json:"hosts,omitempty"`       // by index, where the view was of a sample
	Rate     float64   `json:"rate"`
	Smoothed []float64 `json:"smoothed_rates"`
	Recent   []float32 `json:"recent_shortfalls,omitempty"` // of the latest requests, the latest first, up to the last that is not 0

	Variant    string  `json:"variant"`
	Replica    string  `json:"replica"`
	Policy     string  `json:"policy"`
	Fallback   string  `json:"fallback,omitempty"`
	Pinned     bool    `json:"pinned,omitempty"`
	Only       bool    `json:"only,omitempty"` // no other replica could have answered
	Propensity float64 `json:"propensity,omitempty"`
	MovedTo    string  `json:"moved_to,omitempty"` // the replica that it ended on, if another

	Outcome      string  `json:"outcome"`
	OutputTokens int     `json:"output_tokens,omitempty"`
	FirstToken   int64   `json:"first_token_ns,omitempty"`
	Latency      int64   `json:"latency_ns,omitempty"`
	PerToken     int64   `json:"per_token_ns,omitempty"`
	Met          *bool   `json:"deadline_met,omitempty"` // none: not judged
	Utility      float64 `json:"utility"`
	Reported     bool    `json:"told_by_client,omitempty"`
}

// Known reports whether the router itself saw that the deadline was met or missed.
func (r *Row) Known() bool { return r.Judged && !r.Reported }

// written returns the row as it is written, sharing memory with it.
func (h *Header) written(r *Row) writtenRow {
	l := writtenRow{
		ID: r.Request.ID, Decision: r.Decision, Time: r.Wall, At: int64(r.View.Now), Arrival: int64(r.Request.Arrival),
		Task: h.Tasks[r.Request.Task], PromptTokens: r.Request.PromptTokens, Deadline: int64(r.Request.Deadline), FirstWithin: int64(r.Request.FirstToken), TotalWithin: int64(r.Request.Total), MinQuality: r.Request.MinQuality, Session: r.Request.Session, Answers: r.Request.Answers, Allowed: r.Request.Variants, Holding: r.Request.Holding, Without: r.Request.Without,
		InFlight: r.View.InFlight, ByTask: r.View.ByTask, Held: r.View.Held, Others: r.View.Elsewhere, Caps: r.View.Caps, Excess: r.View.Excess, Rate: r.View.Rate, Smoothed: r.View.Smoothed[:], Recent: r.View.Recent.Known(),
		Variant: h.Variants[r.Variant], Replica: h.Replicas[r.Replica].Name,
		Policy: r.Policy, Fallback: r.Fallback, Pinned: r.Pinned, Only: r.Request.Only > 0, Propensity: r.Propensity,
		Outcome: r.Outcome, OutputTokens: r.OutputTokens, FirstToken: int64(r.FirstToken),
		Latency: int64(r.Latency), PerToken: int64(r.PerToken), Utility: r.Utility, Reported: r.Reported,
	}
	l.Predicted = writePrediction(&r.Request.Predicted, len(h.Variants))
	l.Newer, l.Busy = r.View.Newer, r.View.Facts.Busy
	for _, s := range r.View.States {
		l.States = append(l.States, s.String())
	}
	for _, at := range r.View.Ready {
		l.Ready = append(l.Ready, int64(at))
	}
	for i, down := range r.View.Down {
		if down {
			l.Down = append(l.Down, i)
		}
	}
	if r.View.Sampled() {
		l.Hosts = r.View.Hosts()
	}
	if r.EndReplica != r.Replica {
		l.MovedTo = h.Replicas[r.EndReplica].Name
	}
	if r.Judged {
		l.Met = &r.Met
	}
	return l
}
