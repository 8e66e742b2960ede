package tail

import (
	"context"
	"math"
	"runtime"

	"golang.org/x/sync/errgroup"

	"gearshift/env/clients"
)

// play runs one tier at a load: 1 is all that its cores can do.
func (s *study) play(c rule, n int, load float64, seed uint64) (*clients.Result, error) {
	config, err := drawn(seed).Draw()
	if err != nil {
		return nil, err
	}
	config.Clients, config.Chooser, config.Rate = n, c.chooser, load*config.Capacity()
	config.Length, config.Warmup, config.Timeout, config.PollTakes, config.PollWork, config.Seed = s.length, s.length/4, timeout, pollTakes, pollWork, seed
	return clients.Run(config)
}

// carried is the highest load, in hundredths, at which few enough requests time out. More load
// times out more, so that a search finds it between one that is carried and one that is not.
func (s *study) carried(ctx context.Context, c rule, clients int, seed uint64) (float64, error) {
	low, high := bound{load: 20}, bound{load: 110}
	for n := 0; high.load-low.load > 1; n++ {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		load := between(low, high, n)
		r, err := s.play(c, clients, float64(load)/100, seed)
		if err != nil {
			return 0, err
		}
		share := r.TimeoutShare()
		at := bound{load: load, excess: math.Log(max(share, 0.3/float64(max(1, r.Requests))) / most), played: true}
		if share <= most {
			low = at
		} else {
			high = at
		}
	}
	return float64(low.load) / 100, nil
}

// bound is a load between which and another the highest that is carried lies.
type bound struct {
	load   int     // in hundredths
	excess float64 // logarithm of the share of timeouts, above that which a load may have
	played bool
}

// between is the load to try next, the n-th: where the logarithm of the share of timeouts is
// expected to be what a load may have. Every third is in the middle, so that the search ends.
func between(low, high bound, n int) int {
	const slope, first = 0.3, 80 // by how much the logarithm rises with a hundredth
	next := first
	switch {
	case low.played && high.played && n%3 == 2:
		next = (low.load + high.load) / 2
	case low.played && high.played:
		part := -low.excess / (high.excess - low.excess)
		next = low.load + int(math.Round(part*float64(high.load-low.load)))
	case low.played:
		next = low.load + 1 + int(-low.excess/slope)
	case high.played:
		next = high.load - 1 - int(high.excess/slope)
	}
	return min(high.load-1, max(low.load+1, next))
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
	for i := range len(jobs) + 1 {
		if i > 0 {
			<-done
		}
		if count != nil {
			count(i, len(jobs))
		}
	}
	return group.Wait()
}
