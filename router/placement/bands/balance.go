package bands

import (
	"slices"
	"time"

	"gearshift/router/control"
)

// balance measures, plans, and begins moves.
func (c *Controller) balance(now time.Duration) {
	c.periods++
	m := c.fleet.Measure()
	p := &m.Problem
	if c.status.Fault = p.Validate(&c.settings.Options); c.status.Fault != nil {
		return
	}
	c.leave(m)
	c.standIn(m)
	c.smooth(m)
	c.ahead(m)
	o := c.options(p)
	c.status.Beyond = p.Excess(&o, nil)
	o.Moves = c.settings.AtOnce - len(c.moves)
	if o.Moves <= 0 {
		return
	}
	for _, x := range p.Plan(&o) {
		r := &p.Items[x.Replica]
		young := c.fleet.Replica(r.Model, x.To)
		if !c.begin(&transfer{old: m.Numbers[x.Replica], young: young, model: r.Model, from: r.Host, to: x.To, use: r.Use, since: now}) {
			c.status.Failed++
			continue
		}
		c.seen[young] = &seen{use: append([]float64(nil), r.Use...), period: c.periods, until: c.periods + c.settings.Rest}
	}
}

// options are those of a plan: without bands where there is little to do.
func (c *Controller) options(p *Problem) Options {
	o := c.settings.Options
	x := p.planner(&o)
	for k, r := range o.Resources {
		if r.Even && x.mean[k] >= c.settings.Threshold {
			return o
		}
	}
	o.Band = 1 / c.settings.Threshold // so that the limits alone remain
	return o
}

// begin begins a move.
func (c *Controller) begin(m *transfer) bool {
	if !c.act(control.Load, m.young) {
		return false
	}
	c.moves = append(c.moves, m)
	return true
}

// leave has all replicas of a model stay of which another controller moves one. What that will
// use, once it answers, is not known yet.
func (c *Controller) leave(m *Measurement) {
	p := &m.Problem
	for i, is := range m.Moving {
		if !is || c.moving(m.Numbers[i]) {
			continue
		}
		for j := range p.Items {
			p.Items[j].Fixed = p.Items[j].Fixed || p.Items[j].Model == p.Items[i].Model
		}
		if m.Unknown == nil {
			m.Unknown = make([]bool, len(m.Numbers))
		}
		m.Unknown[i] = true
	}
}

// standIn gives replicas whose use is unknown the mean of their model's others.
func (c *Controller) standIn(m *Measurement) {
	p := &m.Problem
	for i, unknown := range m.Unknown {
		if !unknown {
			continue
		}
		sum, n := make([]float64, len(p.Items[i].Use)), 0.0
		for j := range p.Items {
			if p.Items[j].Model == p.Items[i].Model && !m.Unknown[j] {
				n++
				for k, u := range p.Items[j].Use {
					sum[k] += u
				}
			}
		}
		for k, r := range c.settings.Options.Resources {
			if n > 0 && !r.Held {
				p.Items[i].Use[k] = sum[k] / n
			}
		}
	}
}

// smooth takes earlier periods into account, and has replicas stay that have been moved
// lately.
func (c *Controller) smooth(m *Measurement) {
	p := &m.Problem
	for i, number := range m.Numbers {
		r, s := &p.Items[i], c.seen[number]
		if s == nil || s.period < c.periods-c.settings.Rest-1 {
			s = &seen{use: append([]float64(nil), r.Use...)}
			c.seen[number] = s
		}
		s.period = c.periods
		if r.Fixed = r.Fixed || c.periods < s.until; c.moving(number) {
			continue // what it will use is known from the plan
		}
		for k, x := range c.settings.Options.Resources {
			if !x.Held {
				s.use[k] += c.settings.Newest * (r.Use[k] - s.use[k])
				r.Use[k] = s.use[k]
			}
		}
	}
}

// moving reports whether the replica is part of a move under way.
func (c *Controller) moving(number int) bool {
	for _, m := range c.moves {
		if number == m.old || number == m.young {
			return true
		}
	}
	return false
}

// ahead has the problem be as it will be once the moves under way are done.
func (c *Controller) ahead(m *Measurement) {
	c.bar(m)
	for i, number := range m.Numbers {
		r := &m.Problem.Items[i]
		for _, x := range c.moves {
			if number != x.old && number != x.young {
				continue
			}
			r.Fixed = true
			for k, y := range c.settings.Options.Resources {
				if y.Held {
					continue
				}
				if r.Use[k] = 0; number == x.young {
					r.Use[k] = x.use[k]
				}
			}
		}
	}
}

// bar has nothing go where a replica of the model is being unloaded, or could not be loaded
// lately.
func (c *Controller) bar(m *Measurement) {
	kept := c.barred[:0]
	for _, b := range c.barred {
		if b.until > c.periods {
			kept = append(kept, b)
			c.hold(m, b.number, b.model, b.host)
		}
	}
	c.barred = kept
	for _, x := range c.moves {
		if x.phase == unloading {
			c.hold(m, x.old, x.model, x.from)
		}
	}
}

// hold has a replica be where there is none, so that no other goes there.
func (c *Controller) hold(m *Measurement, number, model, host int) {
	if !slices.Contains(m.Numbers, number) {
		m.Problem.Items = append(m.Problem.Items, Item{Model: model, Host: host, Use: make([]float64, len(c.settings.Options.Resources)), Fixed: true})
		m.Numbers = append(m.Numbers, number)
	}
}
