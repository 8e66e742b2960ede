package placements

import (
	"context"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"gearshift/workloads"
)

// judge plays validation episodes, each under a law of its own, and keeps what they earn with layouts that stay.
type judge struct {
	players sync.Pool // of *environment
	loads   *loads
	base    []float64
	first   int // number of the first seed
}

func newJudge(o Options) (*judge, error) {
	e, err := o.environment()
	if err != nil {
		return nil, err
	}
	j := &judge{loads: e.loads, base: make([]float64, o.validation())}
	j.players.New = func() any {
		e, err := o.environment()
		if err != nil {
			panic(err) // the first could be made
		}
		return e
	}
	j.players.Put(e)
	return j, nil
}

// score returns what is gained per second by choosers over layouts that stay, in the mean over the episodes.
func (j *judge) score(ctx context.Context, with maker) (float64, error) {
	gains, err := j.gains(ctx, with)
	sum := 0.0
	for _, x := range gains {
		sum += x
	}
	return sum / float64(len(j.base)), err
}

// gains returns what is gained in each episode.
func (j *judge) gains(ctx context.Context, with maker) ([]float64, error) {
	gains := make([]float64, len(j.base))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range gains {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			e := j.players.Get().(*environment)
			defer j.players.Put(e)
			seed := workloads.Seed(workloads.Validation, uint64(j.first+i))
			w := e.choose(seed)
			if j.base[i] == 0 {
				if err := w.play(seed, fixed, e.base.fresh()); err != nil {
					return err
				}
				j.base[i] = e.base.weighed(j.loads.draw(seed))
			}
			r, err := with()
			if err != nil {
				return err
			}
			if err := w.play(seed, r, e.base.fresh()); err != nil {
				return err
			}
			gains[i] = (e.base.weighed(j.loads.draw(seed)) - j.base[i]) / j.loads.length.Seconds()
			return nil
		})
	}
	return gains, group.Wait()
}
