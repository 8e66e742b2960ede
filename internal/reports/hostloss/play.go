package hostloss

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
)

// loss is when a host is lost, for good, and which requests are looked at: those that arrive so
// long after it.
type loss struct {
	host     int
	at       time.Duration
	from, to time.Duration // after the loss
}

// workload returns the name of a steady load during which the host is lost, as evidence shows. If
// the host never was there, the same requests come to the others.
func (l loss) workload(s *scenario.Scenario, perSecond float64, never bool) string {
	host := s.Table().Hosts[l.host].Name
	if never {
		return fmt.Sprintf("stable:%g+lost:%s@0-", perSecond, host)
	}
	return fmt.Sprintf("stable:%g+lost:%s@%g-+evidence", perSecond, host, l.at.Seconds())
}

// play returns the mean utility of the requests in the window of each run, by seed. A run without
// such a request counts as nothing.
func (p *study) play(ctx context.Context, c evaluation.Contestant, workload string, seeds []uint64) ([]float64, error) {
	work, err := p.scenario.Evaluated([]string{workload}, p.scenario.Evaluation.Requests)
	if err != nil {
		return nil, err
	}
	means, errs := make([]float64, len(seeds)), make([]error, len(seeds))
	var next atomic.Int64
	var each sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(seeds)) {
		each.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(seeds); i = int(next.Add(1)) - 1 {
				var samples []evaluation.Sample
				if samples, errs[i] = evaluation.Samples(ctx, &c, &work[0], seeds[i]); errs[i] == nil {
					means[i] = p.loss.mean(samples)
				}
			}
		})
	}
	each.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("cannot play %s on %s: %w", c.Name, workload, err)
		}
	}
	if p.played != nil {
		p.played()
	}
	return means, nil
}

// mean is the mean utility of the requests in the window.
func (l loss) mean(samples []evaluation.Sample) float64 {
	var sum, n float64
	for _, s := range samples {
		if s.Arrival >= l.at+l.from && s.Arrival < l.at+l.to {
			sum += s.Utility
			n++
		}
	}
	return sum / max(1, n)
}
