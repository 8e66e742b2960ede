package tail

import (
	"context"
	"fmt"
	"math"

	"gearshift/env/clients"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
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

// carrying is a rule that so many clients choose by.
type carrying struct {
	rule
	clients int
}

// probed is the load that is carried on a tier, and what is asked for each request at it.
type probed struct{ carried, asked float64 }

// carry returns what plays a rule on each of the tiers.
func (s *study) carry(c carrying) (int, func(context.Context, int) (probed, error), error) {
	return len(s.seeds), func(ctx context.Context, i int) (x probed, err error) {
		if x.carried, err = s.carried(ctx, c.rule, c.clients, s.seeds[i]); err != nil {
			return x, err
		}
		result, err := s.play(c.rule, c.clients, x.carried, s.seeds[i])
		if err == nil {
			x.asked = asked(result)
		}
		return x, err
	}, nil
}

// curves are the runs of rules, with each number of clients.
type curves struct {
	rules   []rule
	clients []int
	runs    [][]probed // by rule and number of clients, and by seed
}

// curves plays rules that have not been played yet.
func (s *study) curves(ctx context.Context, rules []rule) (c *curves, err error) {
	c = &curves{rules: rules, clients: s.clients}
	var settings []carrying
	for _, r := range rules {
		for _, n := range s.clients {
			settings = append(settings, carrying{r, n})
		}
	}
	if s.carries == nil {
		s.carries = &reports.Sweep[carrying, probed]{Run: s.Run, Open: s.carry}
	}
	c.runs, err = s.carries.Play(ctx, settings...)
	return c, err
}

// carried is the load that a rule carries with the k-th number of clients, by seed.
func (c *curves) carried(rule, k int) []float64 {
	return reports.Values(c.runs[rule*len(c.clients)+k], func(x probed) float64 { return x.carried })
}

// table lays the load that is carried out.
func (c *curves) table(id, title string) report.Table {
	t := report.Table{
		ID: id, Title: title, Columns: []report.Column{report.TextColumn("rule", "Choice")},
		Note: "A share of all cores, with 95 % bootstrap intervals over the tiers.",
	}
	for _, n := range c.clients {
		t.Columns = append(t.Columns, report.IntervalColumn(fmt.Sprintf("clients_%d", n), fmt.Sprintf("%d clients", n), "", 3))
	}
	for i, r := range c.rules {
		row := []report.Cell{report.Text(r.name)}
		for k := range c.clients {
			row = append(row, reports.Mean(c.carried(i, k)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
