package planner

import "gearshift/workloads"

// recording is a workload's requests by decision, read from its stream as needed.
type recording struct {
	stream   workloads.Stream // nil once all are read
	arrivals []workloads.Arrival
}

// reader is a recording as a stream, from the request of decision next on.
type reader struct {
	*recording
	next int
}

// Next implements [workloads.Stream].
func (r *reader) Next() (workloads.Arrival, bool) {
	for r.stream != nil && len(r.arrivals) <= r.next {
		a, ok := r.stream.Next()
		if !ok {
			r.stream = nil
			break
		}
		r.arrivals = append(r.arrivals, a)
	}
	if r.next >= len(r.arrivals) {
		return workloads.Arrival{}, false
	}
	r.next++
	return r.arrivals[r.next-1], true
}
