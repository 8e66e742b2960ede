//go:build !serveonly

package measure

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/cmd/gearshift/validation"
)

// evenSpeed is how many times as slow, or as quick, as the others of its repetition the
// machine may be just before and after a turn. Volleys at one speed differ by half of that.
const evenSpeed = 1.15

// probed measures how slow the engines are before and after f, for a turn, if turns may be
// taken again for it.
func (c *calibration) probed(ctx context.Context, url string, t *turn, f func() error) error {
	if c.replayTries <= 1 {
		return f()
	}
	engines := url
	if c.scenario.Serving.Backend == scenario.Upstream {
		engines = "" // the scenario's own
	}
	p, err := validation.NewProbe(ctx, c.at("scenario.yaml"), engines, c.seed)
	if err != nil {
		return err
	}
	defer p.Close()
	before, err := p.Slowness(ctx)
	if err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	after, err := p.Slowness(ctx)
	t.Slowness = []float64{before, after}
	return err
}

// uneven are the turns of a repetition in which the machine was at another speed than in
// most of them. What they came to does not count in that.
func uneven(turns []turn) []int {
	var logs []float64
	for i := range turns {
		for _, slow := range turns[i].Slowness {
			if slow > 0 {
				logs = append(logs, math.Log(slow))
			}
		}
	}
	if len(logs) == 0 {
		return nil
	}
	slices.Sort(logs)
	usual := logs[len(logs)/2]
	var off []int
	for i := range turns {
		if slices.ContainsFunc(turns[i].Slowness, func(slow float64) bool {
			return slow > 0 && math.Abs(math.Log(slow)-usual) > math.Log(evenSpeed)
		}) {
			off = append(off, i)
		}
	}
	return off
}

// level takes the uneven turns of a repetition again, in their order, while there are any
// and tries are left.
func (c *calibration) level(turns []turn, again func(i int) error) error {
	for range c.replayTries - 1 {
		off := uneven(turns)
		if len(off) == 0 {
			return nil
		}
		for _, i := range off {
			fmt.Fprintf(c.stdout, "  %s again: the machine was at another speed than in most turns of repetition %d\n", turns[i].Policy, turns[i].Repetition)
			if err := again(i); err != nil {
				return err
			}
		}
	}
	return nil
}
