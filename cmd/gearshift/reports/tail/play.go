package tail

import (
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"

	"gearshift/env/tier"
)

// play runs one tier at a load: 1 is all that its cores can do.
func (s *study) play(c rule, clients int, load float64, seed uint64) (*tier.Result, error) {
	config, err := drawn(seed).Draw()
	if err != nil {
		return nil, err
	}
	config.Clients, config.Chooser, config.Rate = clients, c.chooser, load*config.Capacity()
	config.Length, config.Warmup, config.Timeout, config.PollTakes, config.Seed = s.length, s.length/4, timeout, pollTakes, seed
	return tier.Run(config)
}

// carried is the highest load, in hundredths, at which few enough requests time out. More load
// times out more, so that halving finds it.
func (s *study) carried(ctx context.Context, c rule, clients int, seed uint64) (float64, error) {
	low, high := 20, 110 // one that is carried, and one that is not
	for high-low > 1 {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		load := (low + high) / 2
		r, err := s.play(c, clients, float64(load)/100, seed)
		if err != nil {
			return 0, err
		}
		if r.TimeoutShare() <= most {
			low = load
		} else {
			high = load
		}
	}
	return float64(low) / 100, nil
}

// job is a part of the report that is computed by itself.
type job func(ctx context.Context) error

// all does the jobs, as many at a time as there are processors.
func (s *study) all(ctx context.Context, what string, jobs []job) error {
	count := s.count(what)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	done := make(chan struct{}, len(jobs))
	for _, j := range jobs {
		group.Go(func() error {
			defer func() { done <- struct{}{} }()
			return j(ctx)
		})
	}
	for i := range jobs {
		<-done
		if count != nil {
			count(i+1, len(jobs))
		}
	}
	return group.Wait()
}
