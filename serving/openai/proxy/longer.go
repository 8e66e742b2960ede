package proxy

import (
	"gearshift/serving/openai/complaint"
	"gearshift/serving/work"
)

// longer moves the work to a replica with a longer context than the one whose answer says
// that its own is too short, once and only if the policy had chosen that. The longest that
// is known comes first; where nothing is known, a larger size before a smaller one.
func (d *dispatch) longer(a *answer) bool {
	if a.complaint != complaint.Context || d.carrier != nil || d.stretched || d.Variant != work.Auto || !d.Endpoint.Alike || d.Settings().Retries.Max == 0 || d.over(a) {
		return false
	}
	short := d.Context(a.replica)
	skip := append([]int(nil), d.tried...)
	best, longest := -1, -1
	for step := range 2 * len(d.Table.Variants) {
		v := d.Work.Variant + step
		if step >= len(d.Table.Variants) {
			v = d.Work.Variant - (step - len(d.Table.Variants))
		}
		if v < 0 || v >= len(d.Table.Variants) || step == len(d.Table.Variants) {
			continue
		}
		for _, i := range d.Table.ReplicasOf(v) {
			n := d.Context(i)
			if v == d.Work.Variant && n <= short || n > 0 && short > 0 && n <= short {
				skip = append(skip, i) // its context is no longer
			} else if n > longest {
				best, longest = v, n
			}
		}
	}
	if best < 0 {
		return false
	}
	variant := d.Work.Variant
	d.decided = d.Clock()
	d.Work.Request.Holding = 0 // the estimate was wrong
	if !d.Work.MoveTo(best, skip) && !d.Work.Move(skip, true) {
		return false
	}
	d.stretched = true
	d.Health.Succeeded(a.replica, a.sent) // it did answer
	d.Metrics.Retried(string(failedContext), d.Work.Variant == variant)
	return true
}
