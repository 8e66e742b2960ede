package evaluation

import (
	"fmt"
	"time"

	"gearshift/env/streams"
)

// Streams reports on clients that stream frames to the fleet, in the mean of a run.
type Streams struct {
	// Clients counts those that were served at a time.
	Clients float64 `json:"clients"`
	// Seconds counts the whole seconds of clients that were served, and Above those of them in which a client lost
	// more than its SLA.
	Seconds     float64 `json:"seconds"`
	Above       float64 `json:"seconds_above_sla"`
	ResultsPerS float64 `json:"results_per_s"`
	// Late is the share of the batches that began later than planned.
	Late    float64 `json:"late"`
	Evicted float64 `json:"evicted"`
	// Moved counts clients that had results again after their host had failed, and Away has the longest wait for that of all
	// runs, in seconds since the failure was known.
	Moved float64 `json:"moved"`
	Away  float64 `json:"away_s"`
}

// String returns it in words.
func (s *Streams) String() string {
	text := fmt.Sprintf("%.4g clients served, %.4g of %.5g s above the SLA, %.4g results/s, %.2g %% of batches late, %.4g evicted", s.Clients, s.Above, s.Seconds, s.ResultsPerS, 100*s.Late, s.Evicted)
	if s.Moved > 0 {
		text += fmt.Sprintf(", %.4g had results again within %.2g s after their host had failed", s.Moved, s.Away)
	}
	return text
}

// streamer is a follower of an episode that has clients stream.
type streamer interface {
	Result(now time.Duration) *streams.Result
}

// streamsOf returns the mean over the runs.
func streamsOf(runs []tally) *Streams {
	var s Streams
	n := 0.0
	for i := range runs {
		if x := runs[i].streams; x != nil {
			n++
			s.Clients += x.Clients
			s.Seconds += float64(x.Seconds)
			s.Above += x.Broken * float64(x.Seconds)
			s.ResultsPerS += x.ResultsPerS
			s.Late += x.Late
			s.Evicted += float64(x.Evicted)
			s.Moved += float64(x.Moved.N)
			s.Away = max(s.Away, x.Moved.Most)
		}
	}
	if n == 0 {
		return nil
	}
	for _, x := range []*float64{&s.Clients, &s.Seconds, &s.Above, &s.ResultsPerS, &s.Late, &s.Evicted, &s.Moved} {
		*x /= n
	}
	return &s
}
