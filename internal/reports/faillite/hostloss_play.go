package faillite

import (
	"context"
	"fmt"
	"time"

	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/workloads"
)

// loss is when a host is lost, for good, and which requests are looked at: those that arrive so
// long after it.
type loss struct {
	host     int
	at       time.Duration
	from, to time.Duration // after the loss
}

// lossSetting is what is played.
type lossSetting struct {
	policy   int // index of the contestants
	backups  int // one more than the index of the assignment; 0 is none
	rate     float64
	never    bool // the host never was there, so that its requests come to the others
	training bool // on the training seeds of the screening, in place of evaluation seeds
}

// workload returns the name of a steady load during which the host is lost, as evidence shows.
func (l loss) workload(s *scenario.Scenario, perSecond float64, never bool) string {
	host := s.Table().Hosts[l.host].Name
	if never {
		return fmt.Sprintf("stable:%g+lost:%s@0-", perSecond, host)
	}
	return fmt.Sprintf("stable:%g+lost:%s@%g-+evidence", perSecond, host, l.at.Seconds())
}

// open prepares a setting. A run comes to the mean utility of the requests in the window.
func (p *study) open(s lossSetting) (int, func(context.Context, int) (float64, error), error) {
	workload := p.loss.workload(p.scenario, s.rate, s.never)
	work, err := p.scenario.Evaluated([]string{workload}, p.scenario.Evaluation.Requests)
	if err != nil {
		return 0, nil, err
	}
	c := p.contestants[s.policy]
	if s.backups > 0 {
		balancer, err := p.scenario.Balancer()
		if err != nil {
			return 0, nil, err
		}
		c = withBackups(c, balancer, p.assignments[s.backups-1], p.loss)
	}
	seeds := workloads.Seeds(workloads.Evaluation, p.Seeds)
	if s.training {
		seeds = workloads.Seeds(workloads.Training, p.screened)
	}
	return len(seeds), func(ctx context.Context, i int) (float64, error) {
		samples, err := evaluation.Samples(ctx, &c, &work[0], seeds[i])
		if err != nil {
			return 0, fmt.Errorf("cannot play %s on %s: %w", c.Name, workload, err)
		}
		return p.loss.mean(samples), nil
	}, nil
}

// mean is the mean utility of the requests in the window; without any it is nothing.
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
