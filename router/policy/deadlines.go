package policy

import (
	"gearshift/router/fleet"
	"gearshift/router/profile"
)

// pressed is the time per token of a request that joins the replica's batch b, or one that
// fills as large a share of the deadline per token as the first token or the end of the
// answer is forecast to fill of its own, if that is more. So a rule that holds times per
// token against a deadline holds all deadlines.
func (p *predictor) pressed(v *fleet.View, r *fleet.Request, replica int, b batch, time, neighbours float64) float64 {
	if share := p.others(v, r, replica, b, time, neighbours); share > 0 {
		return max(time, share*allowed(v, r))
	}
	return time
}

// others is the largest share of a deadline to the first token or to the end that the
// request is forecast to fill, at that time per token; 0 where it has neither.
func (p *predictor) others(v *fleet.View, r *fleet.Request, replica int, b batch, time, neighbours float64) (share float64) {
	d := v.Table.Tasks[r.Task].Deadlines(r)
	if !d.More() {
		return 0
	}
	first := p.first(v, r, replica, b, neighbours)
	if d.FirstToken > 0 {
		share = first / fleet.Milliseconds(d.FirstToken)
	}
	if d.Total > 0 {
		total := first // of an answer in one piece
		if p.profiles[replica].Batches == nil {
			total = profile.Total(first, time, p.lengths.Output)
		}
		share = max(share, total/fleet.Milliseconds(d.Total))
	}
	return share
}

// first is the time to the first token of a request that joins the replica's batch b, its
// wait so far included.
func (p *predictor) first(v *fleet.View, r *fleet.Request, replica int, b batch, neighbours float64) float64 {
	ms := p.profiles[replica].First(profile.Joining{
		Prompt: r.PromptTokens, Sequences: b.requests, Held: b.held,
		KVTokens: v.Table.Replicas[replica].KVTokens, Output: p.lengths.Output, Neighbours: neighbours,
	})
	return fleet.Milliseconds(max(0, v.Now-r.Arrival)) + ms*v.Slowdown(replica)
}

// strain is the largest share of a deadline to its first token or to its end that the
// request is forecast to fill on the replica; 0 where it has neither.
func (p *predictor) strain(v *fleet.View, r *fleet.Request, replica int, neighbours float64) float64 {
	if d := v.Table.Tasks[r.Task].Deadlines(r); !d.More() {
		return 0
	}
	b := running(v, replica)
	time := p.tokenTime(v, replica, b.joinedBy(r), r.PromptTokens, neighbours)
	return p.others(v, r, replica, b, time, neighbours)
}
