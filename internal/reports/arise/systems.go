package arise

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gearshift/env/streams"
	"gearshift/router/offload"
)

// setting holds what a run is played under: conditions, and how clients are managed there.
type setting struct {
	conditions
	streams.System
	training bool
}

// open returns what plays the setting on its seeds.
func (s *study) open(x setting) (int, func(context.Context, int) (*streams.Result, error), error) {
	c, err := x.config(s.length)
	if c.System = x.System; x.Policy == offload.Gearshift && !x.still {
		c.Grace, c.Weight = 0.02, offload.Learning
	}
	seeds := s.seeds
	if x.training {
		seeds = s.training
	}
	return len(seeds), func(_ context.Context, i int) (*streams.Result, error) {
		c := c
		c.Seed = seeds[i]
		return streams.Run(c)
	}, err
}

// The systems of which nothing is tuned.
var (
	arise     = streams.System{Name: "ARISE", Policy: offload.Arise}
	waiting   = streams.System{Name: "ARISE-α by waiting requests", Policy: offload.Alpha}
	verified  = streams.System{Name: "ARISE-α verified", Policy: offload.Alpha, Verified: true}
	deadlines = streams.System{Name: "Gearshift", Policy: offload.Gearshift}
	chameleon = streams.System{Name: "Chameleon-like", Policy: offload.Alpha, Fixed: offload.Setting{Batch: 1}}
)

// contest returns ARISE and all that it is compared with under some conditions, tuned there.
func (s *study) contest(ctx context.Context, w conditions) ([]row, error) {
	clipper, err := s.clipper(ctx, w, whole)
	if err != nil {
		return nil, err
	}
	static, err := s.static(ctx, w)
	if err != nil {
		return nil, err
	}
	theirs := streams.System{Name: "Static, as the paper's", Policy: offload.Alpha, Fixed: w.paper.static}
	if theirs.Clients, err = s.most(ctx, w, theirs, 0); err == nil && (theirs.Clients == 0 || static.Clients == 0) {
		err = fmt.Errorf("cannot compare with Static: %s: no number of clients keeps the SLA", w.name)
	}
	list := reacting(w)
	if w == strict {
		list[1].states.idle, list[2].states.idle = 24.7, 24.7
	}
	return append(list,
		row{setting{w, w.clipper(), false}, w.paper.clipper, figures{}, nil},
		row{setting{w, clipper, false}, w.paper.clipper, figures{}, nil}, row{setting{w, chameleon, false}, w.paper.ratios, figures{}, nil},
		row{setting{w, theirs, false}, w.paper.ratios, figures{}, nil}, row{setting{w, static, false}, w.paper.ratios, figures{}, nil}), err
}

// trained returns a mean over training seeds.
func (s *study) trained(ctx context.Context, w conditions, x streams.System, of func(*streams.Result) float64) (float64, error) {
	all, err := s.sweep.Play(ctx, setting{w, x, true})
	if err != nil {
		return 0, err
	}
	return mean(all[0], of), nil
}

// clipper returns the Clipper-like with the paper's interval.
func (w conditions) clipper() streams.System {
	return streams.System{Name: "Clipper-like, as the paper's", Policy: offload.Alpha, Fixed: offload.Setting{Interval: w.paper.interval}}
}

// clipper returns the Clipper-like with the interval that serves most clients as planned.
func (s *study) clipper(ctx context.Context, w conditions, plan func(context.Context, conditions, streams.System) (conditions, error)) (best streams.System, err error) {
	server, client := w.planner()
	client.SLA, client.Rate, client.Given.Batch = w.sla[1], w.rate*(1-w.apart), 1 // the longest that any keeps
	most := -1.0
	for interval := 1; interval <= server.Best(client).Interval; interval++ {
		x := streams.System{Name: "Clipper-like, tuned", Policy: offload.Alpha, Fixed: offload.Setting{Interval: interval}}
		n, err := s.trained(ctx, w, x, clients)
		if err == nil && n > most { // what is planned stricter serves no more
			var planned conditions
			if planned, err = plan(ctx, w, x); err == nil {
				n, err = s.trained(ctx, planned, x, clients)
			}
		}
		if err != nil {
			return best, err
		}
		if n > most {
			best, most = x, n
		}
	}
	return best, nil
}

// whole plans for the whole SLA.
func whole(_ context.Context, w conditions, _ streams.System) (conditions, error) { return w, nil }

// static returns the interval, the batch and the number of clients with the most clients that keep the SLA.
func (s *study) static(ctx context.Context, w conditions) (best streams.System, err error) {
	server, client := w.planner()
	client.Rate, client.Given.Batch = w.rate*(1+w.apart), 1 // even the hardest, and nothing waits
	var list []offload.Setting
	for interval := range server.Best(client).Interval + 1 {
		for _, n := range []int{1, 2, 3, 4, 5, 6, 8, 12, 16} {
			list = append(list, offload.Setting{Interval: interval + 1, Batch: n})
		}
	}
	slices.SortStableFunc(list, func(a, b offload.Setting) int { return cmp.Compare(server.Capacity(b), server.Capacity(a)) })
	for _, fixed := range list {
		if x := (streams.System{Name: "Static, tuned", Policy: offload.Alpha, Fixed: fixed}); server.Capacity(fixed) > float64(best.Clients) {
			if x.Clients, err = s.most(ctx, w, x, best.Clients); err != nil {
				return best, err
			}
			if x.Clients > best.Clients {
				best = x
			}
		}
	}
	return best, nil
}

// most returns the largest number of clients of Static, above one that is known, of which each keeps the strictest SLA
// in the mean; 0 if there is none. Static's batches do not depend on drop rates: the hardest clients lose as much more
// than the others as their rate is higher.
func (s *study) most(ctx context.Context, w conditions, x streams.System, known int) (int, error) {
	server, _ := w.planner()
	low, high := known, int(server.Capacity(x.Fixed))+1 // the queue of as many grows
	for low+1 < high {
		if x.Clients = (low + high) / 2; low == known {
			x.Clients = low + 1 // where most settings fail
		}
		drop, err := s.trained(ctx, w, x, dropped)
		if err != nil {
			return 0, err
		}
		if drop*(1+w.apart) <= w.sla[0] {
			low = x.Clients
		} else {
			high = x.Clients
		}
	}
	if low == known {
		return 0, nil
	}
	return low, nil
}

// stricter returns the conditions in which clients are planned for the largest part of the SLA, in steps of 5 %, with
// which no client loses more than the whole in any second of the training seeds.
func (s *study) stricter(ctx context.Context, w conditions, x streams.System) (planned conditions, err error) {
	for percent := 100; percent > 0; percent -= 5 {
		planned = w.part(percent)
		all, err := s.sweep.Play(ctx, setting{planned, x, true})
		if err != nil || worst(all[0]) <= w.sla[0]+offload.Same {
			return planned, err
		}
	}
	return planned, nil
}
