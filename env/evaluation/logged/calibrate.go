package logged

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"gearshift/env/evaluation"
	"gearshift/router/profile"
)

// paceRatios are, by variant, the median of measured over simulated times per
// token, and 0 for a variant of too few requests. What a request takes on its way is
// no slowness of the engine, and is added to what is simulated.
func (p *Replayer) paceRatios(runs [][]evaluation.Sample) []float64 {
	found := make([][]float64, len(p.Fleet.Table.Variants))
	for i := range runs {
		for k, x := range runs[i] {
			if d := &p.Log.Runs[i].Decisions[k]; d.PerToken > 0 && x.PerToken > 0 && !d.Moved {
				way := profile.Duration(p.Fleet.Profiles[d.Replica].Request) / time.Duration(max(1, d.OutputTokens))
				found[d.Variant] = append(found[d.Variant], float64(d.PerToken)/float64(x.PerToken+way))
			}
		}
	}
	ratios := make([]float64, len(found))
	for v, list := range found {
		if len(list) >= fewestErrors {
			slices.Sort(list)
			ratios[v] = list[len(list)/2]
		}
	}
	return ratios
}

const (
	calibrationRounds = 8
	// calibrationPower damps the rounds: where queues form, a slower engine is slower
	// still.
	calibrationPower = 0.7
	// mostSlow bounds the factors: what is further off is no matter of speed.
	mostSlow = 4
)

// Calibrate finds by which factor each variant's engines are slower than the
// simulator has them, so that the logged choices, simulated, take as long per token
// as was measured. A variant of too few requests gets the mean of the others. See
// [env.Config.SlowVariants].
func (p *Replayer) Calibrate(ctx context.Context) ([]float64, error) {
	factors := make([]float64, len(p.Fleet.Table.Variants))
	for v := range factors {
		factors[v] = 1
	}
	for range calibrationRounds {
		at := *p
		at.Fleet.SlowVariants(factors)
		runs, err := at.play(ctx, func(run int) evaluation.Decider { return asLogged(p.Log.Runs[run].Decisions) })
		if err != nil {
			return nil, fmt.Errorf("cannot calibrate by the log: %w", err)
		}
		ratios := at.paceRatios(runs)
		var known ratio
		for v, r := range ratios {
			if r > 0 {
				factors[v] = min(mostSlow, max(1/float64(mostSlow), factors[v]*math.Pow(r, calibrationPower)))
				known.add(factors[v], 1)
			}
		}
		for v, r := range ratios {
			if r == 0 && known.weight > 0 {
				factors[v] = known.mean()
			}
		}
	}
	return factors, nil
}
