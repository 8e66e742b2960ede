package placements

import (
	"cmp"
	"context"
	"math/rand/v2"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"gearshift/router/placement/layouts"
	"gearshift/workloads"
)

const (
	// usualRequests and usualLength end an episode.
	usualRequests = 3000
	usualLength   = 20 * time.Minute
	// knownShare is the share of the episodes in which the rate is known, as in steady loads.
	knownShare  = 0.2
	knownStream = 0x6b6e6f776e // of random numbers
)

// judge plays episodes, each of which has the same requests for all that decide.
type judge struct {
	idle chan *players
	loads
}

// players hold a simulation for each law, and one with the rate known.
type players [][2]*simulation

// decider makes what decides in an episode.
type decider func() (layouts.Rule, error)

func newJudge(o Options) (*judge, error) {
	l, n := &o.Scenario.Training.Load, runtime.GOMAXPROCS(0)
	j := &judge{make(chan *players, n), loads{l.MinRate, l.MaxRate, usualRequests, cmp.Or(o.length, usualLength)}}
	for range n {
		var p players
		for _, law := range Laws() {
			var pair [2]*simulation
			for known := range pair {
				var err error
				if pair[known], err = newSimulation(law.On(o.Scenario), &j.loads, known == 1); err != nil {
					return nil, err
				}
			}
			p = append(p, pair)
		}
		j.idle <- &p
	}
	return j, nil
}

// play returns what a request earns in the mean, by decider, in each of n episodes. Laws take turns.
func (j *judge) play(ctx context.Context, domain workloads.Domain, first uint64, n int, deciders ...decider) ([][]float64, error) {
	earned := make([][]float64, len(deciders))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(cap(j.idle))
	for k, decide := range deciders {
		earned[k] = make([]float64, n)
		for i := range n {
			group.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				p := <-j.idle
				defer func() { j.idle <- p }()
				r, err := decide()
				if err != nil {
					return err
				}
				number := first + uint64(i)
				seed := workloads.Seed(domain, number)
				earned[k][i], err = p.of(seed, number).play(seed, r)
				return err
			})
		}
	}
	return earned, group.Wait()
}

// of returns the simulation of an episode.
func (p players) of(seed, number uint64) *simulation {
	pair := p[number%uint64(len(p))]
	if rand.New(rand.NewPCG(seed, knownStream)).Float64() < knownShare {
		return pair[1]
	}
	return pair[0]
}
