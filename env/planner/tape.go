package planner

import "gearshift/workloads"

// tape is a workload's requests by decision, read from its stream as needed.
type tape struct {
	stream   workloads.Stream // nil once all are read
	first    int              // the decision of the first arrival here
	arrivals []workloads.Arrival
}

// reader is the tape as a stream, from the request of decision next on.
type reader struct {
	tape *tape
	next int
}

// Next implements [workloads.Stream].
func (r *reader) Next() (workloads.Arrival, bool) {
	t := r.tape
	for t.stream != nil && t.first+len(t.arrivals) <= r.next {
		a, ok := t.stream.Next()
		if !ok {
			t.stream = nil
			break
		}
		t.arrivals = append(t.arrivals, a)
	}
	if r.next >= t.first+len(t.arrivals) {
		return workloads.Arrival{}, false
	}
	r.next++
	return t.arrivals[r.next-1-t.first], true
}
