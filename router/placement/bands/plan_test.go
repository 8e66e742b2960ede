package bands

import (
	"reflect"
	"strings"
	"testing"
)

// small is three hosts of ten cores with plenty of memory.
func small() *Problem {
	p := &Problem{}
	for range 3 {
		p.Bins = append(p.Bins, Bin{Capacity: []float64{10, 100, 100}, Other: []float64{0, 0, 0}})
	}
	return p
}

func (p *Problem) put(model, host int, cpu, memory, bandwidth float64) {
	p.Items = append(p.Items, Item{Model: model, Host: host, Use: []float64{cpu, memory, bandwidth}})
}

func TestPlans(t *testing.T) {
	for _, x := range []struct {
		name string
		put  func(p *Problem, o *Options)
		want []Transfer
	}{
		{"within the band nothing moves", func(p *Problem, _ *Options) {
			p.put(0, 0, 5.4, 1, 0)
			p.put(1, 1, 5.0, 1, 0)
			p.put(2, 2, 4.6, 1, 0)
		}, nil},
		{"what is too much goes where there is least", func(p *Problem, _ *Options) {
			p.put(0, 0, 5, 1, 0)
			p.put(1, 0, 3, 1, 0)
			p.put(2, 1, 4, 1, 0)
			p.put(3, 2, 3, 1, 0)
		}, []Transfer{{1, 2}}},
		{"a fixed replica stays", func(p *Problem, _ *Options) {
			p.put(0, 0, 5, 1, 0)
			p.put(1, 0, 3, 1, 0)
			p.put(2, 1, 4, 1, 0)
			p.put(3, 2, 3, 1, 0)
			p.Items[1].Fixed, p.Items[0].Fixed = true, true
		}, nil},
		{"nothing goes where the model is", func(p *Problem, _ *Options) {
			p.put(0, 0, 5, 1, 0)
			p.put(1, 0, 3, 1, 0)
			p.put(2, 1, 4, 1, 0)
			p.put(1, 2, 3, 1, 0)
			p.Items[0].Fixed = true
		}, []Transfer{{1, 1}}},
		{"nothing goes where memory is short", func(p *Problem, _ *Options) {
			p.put(0, 0, 5, 1, 0)
			p.put(1, 0, 3, 30, 0)
			p.put(2, 1, 4, 80, 0)
			p.put(3, 2, 3, 80, 0)
			p.Items[0].Fixed = true
		}, nil},
		{"bandwidth above .65 of it goes elsewhere, though the processors are even", func(p *Problem, _ *Options) {
			p.put(0, 0, 2, 1, 40)
			p.put(1, 0, 2, 1, 30)
			p.put(2, 1, 2, 1, 5)
			p.put(3, 1, 2, 1, 5)
			p.put(4, 2, 4, 1, 20)
		}, []Transfer{{0, 1}, {2, 0}}},
		{"without bandwidth as a resource it stays", func(p *Problem, o *Options) {
			p.put(0, 0, 2, 1, 40)
			p.put(1, 0, 2, 1, 30)
			p.put(2, 1, 2, 1, 5)
			p.put(3, 1, 2, 1, 5)
			p.put(4, 2, 4, 1, 20)
			o.Resources[2].Limit = 1
		}, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			p, o := small(), DefaultOptions()
			x.put(p, &o)
			if err := p.Validate(&o); err != nil {
				t.Fatal(err)
			}
			got := p.Plan(&o)
			held(t, p, &o, got)
			if !reflect.DeepEqual(got, x.want) {
				t.Errorf("%v, leaves %v of %v beyond; want %v, which leaves %v", got, p.Excess(&o, got), p.Excess(&o, nil), x.want, p.Excess(&o, x.want))
			}
		})
	}
}

func TestBadProblems(t *testing.T) {
	for words, spoil := range map[string]func(p *Problem, o *Options){
		"resources: there are none":                      func(_ *Problem, o *Options) { o.Resources = nil },
		"cpu: the limit 2 must be above 0 and at most 1": func(_ *Problem, o *Options) { o.Resources[0].Limit = 2 },
		"band: -1 must be from 0 to 1":                   func(_ *Problem, o *Options) { o.Band = -1 },
		"moves: -1 must not be negative":                 func(_ *Problem, o *Options) { o.Moves = -1 },
		"gain: 1 must be from 0 to below 1":              func(_ *Problem, o *Options) { o.Gain = 1 },
		"host 0: 1 capacities and 3 other uses":          func(p *Problem, _ *Options) { p.Bins[0].Capacity = []float64{1} },
		"host 1: capacities [10 100 100] and other uses": func(p *Problem, _ *Options) { p.Bins[1].Other[0] = -1 },
		"replica 0: host 7 of 3":                         func(p *Problem, _ *Options) { p.Items[0].Host = 7 },
		"replica 1: model 0 is on host 0 twice":          func(p *Problem, _ *Options) { p.put(0, 0, 1, 1, 1) },
	} {
		p, o := small(), DefaultOptions()
		p.put(0, 0, 1, 1, 1)
		spoil(p, &o)
		if err := p.Validate(&o); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want %q", err, words)
		}
	}
}

// TestLargePlansHold: plans of a few hundred hosts may be made, and leave little beyond.
func TestLargePlansHold(t *testing.T) {
	for seed := range uint64(3) {
		p, o := drawn(seed, 200, 1200), DefaultOptions()
		plan := p.Plan(&o)
		held(t, p, &o, plan)
		if before, after := p.Excess(&o, nil), p.Excess(&o, plan); after > before/5 {
			t.Errorf("%.4f beyond after %d moves, %.4f before", after, len(plan), before)
		}
	}
}

// BenchmarkPlan plans up to 20 moves of replicas of 500 hosts.
//
//	go test -bench Plan ./router/placement/bands
func BenchmarkPlan(b *testing.B) {
	p, o := drawn(1, 500, 4000), DefaultOptions()
	o.Moves = 20
	for b.Loop() {
		p.Plan(&o)
	}
}
