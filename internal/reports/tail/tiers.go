package tail

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/env/fluid"
	"gearshift/internal/reports"
	"gearshift/router/control"
	"gearshift/router/tiers"
	"gearshift/workloads"
)

// division is one way to divide traffic among tiers.
type division struct {
	name    string
	routers []divider
}

// divider is a router that sends a part of the load to tiers, by its shares at first, or always. It is the
// [tiers.Meter] and the [tiers.Weigher] of what corrects them.
type divider struct {
	part      float64
	shares    []float64
	corrected bool

	pools *pools
	all   []divider
	last  []fluid.Total
}

// divisions are those of the report. The tiers have equally many hosts.
func divisions() []division {
	byHosts := []float64{0.5, 0.5}
	byCompute := tiers.Shares(twoTiers)
	return []division{
		{"by hosts", []divider{{part: 1, shares: byHosts}}},
		{"by compute", []divider{{part: 1, shares: byCompute}}},
		{"by compute, corrected", []divider{{part: 1, shares: byCompute, corrected: true}}},
		{"corrected by two routers, one of which begins by hosts", []divider{{part: 0.5, shares: byCompute, corrected: true}, {part: 0.5, shares: byHosts, corrected: true}}},
	}
}

// Utilisation implements [tiers.Meter]: by what the tier was asked for since the call before.
func (d *divider) Utilisation(tier int) (float64, bool) {
	now := d.pools.sim.Now()
	total := d.pools.list[tier].Count(now)
	asked := total.Less(d.last[tier]).Asked / tiers.Defaults.Period.Seconds()
	d.last[tier] = total
	return asked, now > 0
}

// Weigh implements [tiers.Weigher].
func (d *divider) Weigh(shares []float64) {
	copy(d.shares, shares)
	for i, x := range d.pools.list {
		x.Weigh(shareOf(d.all, i), d.pools.sim.Now())
	}
}

// shareOf returns the share of a tier in the traffic of all routers.
func shareOf(routers []divider, tier int) (share float64) {
	for i := range routers {
		share += routers[i].part * routers[i].shares[tier]
	}
	return share
}

// twoTiers are the tiers by their specification.
var twoTiers = []tiers.Tier{{Name: "new", Compute: 2}, {Name: "old", Compute: 1}}

// away is the number of old replicas that there are: half of them are gone for three hours.
type away struct{ all int }

// Desired implements [replicas.Scaler].
func (a away) Desired(now time.Duration, _ float64, _ int) int {
	if now >= 36*time.Hour && now < 39*time.Hour {
		return a.all / 2
	}
	return a.all
}

// divide plays a division under a series, and returns the share of the first tier by router and minute. The old
// hosts answer less than they compute.
func divide(series *workloads.Series, by division) (p *pools, shares [][]float64, err error) {
	const fast, slow = 54, 22
	routers := slices.Clone(by.routers)
	for i := range routers {
		routers[i].shares = slices.Clone(routers[i].shares)
	}
	var groups []group
	for i, n := range []int{fast, slow} {
		groups = append(groups, group{replicas: n, up: n, capacity: 25, share: shareOf(routers, i)})
	}
	var fault error
	p, err = playPools(series, 0, groups, func(p *pools, a control.Actuator) []control.Controller {
		shares = make([][]float64, len(routers))
		p.note = func() {
			for i := range routers {
				shares[i] = append(shares[i], routers[i].shares[0])
			}
		}
		old := &pooled{Actuator: a, pool: p.list[1], first: fast}
		list := []control.Controller{old.counts(away{slow}, time.Hour, slow)}
		for i := range routers {
			d := &routers[i]
			if d.pools, d.all, d.last = p, routers, make([]fluid.Total, len(groups)); !d.corrected {
				continue
			}
			c, err := tiers.New(twoTiers, tiers.Defaults, d, d)
			if err == nil {
				err = c.Start(d.shares)
			}
			fault = errors.Join(fault, err)
			list = append(list, c)
		}
		return list
	})
	return p, shares, errors.Join(fault, err)
}

// spread returns by how much the busiest tier was busier than the idlest, in the mean of all minutes.
func (p *pools) spread() (mean float64) {
	n := len(p.minutes[0])
	for i := range n {
		low, high := math.Inf(1), 0.0
		for k := range p.list {
			used := p.minute(k, i).Used / 60
			low, high = min(low, used), max(high, used)
		}
		mean += (high - low) / float64(n)
	}
	return mean
}

// tiers compares divisions of traffic among tiers.
func (s *study) tiers(ctx context.Context, p *reports.Part) error {
	list := divisions()
	refused, spread := make([][]float64, len(list)), make([][]float64, len(list))
	shares := make([][][]float64, len(list)) // on the first series
	series, err := growth{single: 1. / 3}.draw(workloads.Evaluation, s.series)
	if err != nil {
		return err
	}
	for i, d := range list {
		for k, x := range series {
			p, by, err := divide(x, d)
			if err = errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			if k == 0 {
				shares[i] = by
			}
			refused[i], spread[i] = append(refused[i], 100*p.refused()), append(spread[i], p.spread())
		}
	}
	t := report.Table{ID: "tier-divisions", Title: "Traffic divided among two tiers", Columns: []report.Column{
		report.TextColumn("division", "Division"), report.IntervalColumn("refused", "Refused", "%", 3),
		report.IntervalColumn("spread", "Busiest less idlest tier", "", 3),
	}, Note: "Utilisation of tiers is by minute. With 95 % bootstrap intervals over the series."}
	for i, d := range list {
		t.Rows = append(t.Rows, []report.Cell{report.Text(d.name), reports.Mean(refused[i]), reports.Mean(spread[i])})
	}
	p.Say("Simulated, with the load of the %d series above: two tiers of equally many hosts, of which those of one compute twice as much by their specification; the slower ones answer a fifth less than that, and half of them are away for three hours of the second day. A controller corrects a tenth of the distance between utilisations each 10 s.", len(series))
	p.Tables, p.Figures = []report.Table{t}, []report.Figure{sharesFigure(list, shares)}
	mean := func(list []float64) float64 { return evaluation.Bootstrap(list).Mean }
	p.Head("Two tiers that get traffic by hosts refuse %s %%, by compute %s %%, corrected by what they report %s %%, also by two routers (%s %%).",
		percent(mean(refused[0])/100), percent(mean(refused[1])/100), percent(mean(refused[2])/100), percent(mean(refused[3])/100))
	return nil
}

// sharesFigure is the share of the faster tier around the loss.
func sharesFigure(list []division, shares [][][]float64) report.Figure {
	f := report.Figure{ID: "tier-shares", Title: "Share of the faster tier, first series", X: report.Axis{Label: "time", Unit: "h"}, Y: report.Axis{Label: "share"}}
	for i, d := range list {
		for k := range d.routers {
			x := report.Series{Name: d.name, Style: report.Line}
			if k > 0 {
				x.Name += ": the other"
			}
			for minute := 0; minute < len(shares[i][k]); minute += 10 {
				x.X, x.Y = append(x.X, float64(minute)/60), append(x.Y, shares[i][k][minute])
			}
			f.Series = append(f.Series, x)
		}
	}
	return f
}
