package applications

import (
	"slices"
	"time"

	"gearshift/router/fleet"
)

// Summary is what several runs come to. Means over applications leave out those that were not
// recovered, which Recovered counts.
type Summary struct {
	Runs      int `json:"runs"`
	Failovers int `json:"failovers"`
	Affected  int `json:"affected"` // applications, once for each loss
	Recovered int `json:"recovered"`
	// Recovery is the share of the affected that was recovered, and Worst the least of any failover.
	Recovery float64 `json:"recovery"`
	Worst    float64 `json:"recovery_worst"`
	// MTTR is from the detection until clients know of the assignment that took over, in the mean, and
	// Detection from the loss to its detection.
	MTTR      float64 `json:"mttr_ms"`
	Detection float64 `json:"detection_ms"`
	// AccuracyLost is the share of the accuracy on their primaries that those recovered lose, and
	// AccuracyFirst that which they lose until a better variant replaces the first.
	AccuracyLost  float64 `json:"accuracy_lost"`
	AccuracyFirst float64 `json:"accuracy_lost_at_first"`
	// Outage is what clients saw: from the first request that failed to the next answer.
	Outage OutageSummary `json:"outage"`
	// Unprotected is how many applications had fewer backups than they should before the first loss, in the mean.
	Unprotected float64  `json:"unprotected"`
	Requests    Requests `json:"requests"`
	FalseAlarms int      `json:"false_alarms"`
	Gaps        int      `json:"gaps"` // in which a smaller variant made room for a better one
}

// OutageSummary is of the outages that clients saw, in ms. Open counts those that had not ended when a
// run did, which the times leave out.
type OutageSummary struct {
	Seen   int     `json:"seen"`
	Open   int     `json:"open"`
	Median float64 `json:"median_ms"`
	P95    float64 `json:"p95_ms"`
	Worst  float64 `json:"worst_ms"`
}

// Summarize puts the results of runs together.
func Summarize(results []*Result) Summary {
	s := Summary{Runs: len(results), Worst: 1}
	var outages []time.Duration
	var after time.Duration
	for _, r := range results {
		s.Unprotected += float64(r.Exposed) / float64(len(results))
		s.FalseAlarms += r.Counts.FalseAlarms
		s.Gaps += r.Counts.Gaps
		s.Requests.add(r.Requests)
		s.Outage.Open += r.Dark
		for _, o := range r.Outages {
			outages = append(outages, o.Length)
		}
		for i := range r.Failovers {
			f := &r.Failovers[i]
			after += f.After
			s.Failovers++
			recovered := s.failover(f)
			if n := len(f.Affected); n > 0 {
				s.Worst = min(s.Worst, float64(recovered)/float64(n))
			}
		}
	}
	s.Recovery = 1
	if s.Affected > 0 {
		s.Recovery = float64(s.Recovered) / float64(s.Affected)
	}
	if n := float64(s.Recovered); n > 0 {
		s.MTTR, s.AccuracyLost, s.AccuracyFirst = s.MTTR/n, s.AccuracyLost/n, s.AccuracyFirst/n
	}
	if s.Failovers > 0 {
		s.Detection = fleet.Milliseconds(after) / float64(s.Failovers)
	}
	slices.Sort(outages)
	if n := len(outages); n > 0 {
		s.Outage = OutageSummary{n, s.Outage.Open, fleet.Milliseconds(outages[n/2]), fleet.Milliseconds(outages[(95*n+99)/100-1]), fleet.Milliseconds(outages[n-1])}
	}
	return s
}

// failover adds up those of a failover, and returns how many were recovered.
func (s *Summary) failover(f *Failover) (recovered int) {
	for i := range f.Affected {
		a := &f.Affected[i]
		s.Affected++
		if a.Recovered {
			recovered++
			s.MTTR += fleet.Milliseconds(a.Took)
			s.AccuracyLost += a.Lost
			s.AccuracyFirst += a.First
		}
	}
	s.Recovered += recovered
	return recovered
}

func (r *Requests) add(x Requests) {
	r.Sent += x.Sent
	r.Answered += x.Answered
	r.Lost += x.Lost
	r.Open += x.Open
	r.Again += x.Again
}
