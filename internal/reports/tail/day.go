package tail

import (
	"context"
	"math/rand/v2"
	"time"

	"gearshift/env/clients"
	"gearshift/router/balance"
	"gearshift/router/placement/bands"
	"gearshift/router/signals"
)

// measure is what a tier does against its tail: how clients choose, and what placement knows.
type measure struct {
	id, name string
	chooser  balance.Chooser
	places   places
}

// places is how replicas are placed once a tier runs: within bands of processors, if hosts are used
// above a threshold in the mean, so many moves at once. The zero value leaves them where they were put.
type places struct {
	threshold float64
	atOnce    int
	bandwidth bool // kept below a limit
}

var (
	asExpected   = places{}
	byProcessors = places{threshold: bands.DefaultThreshold, atOnce: 8} // a fifth of the hosts
	byBandwidth  = places{threshold: bands.DefaultThreshold, atOnce: 8, bandwidth: true}
	byDefaults   = places{threshold: bands.DefaultThreshold, atOnce: bands.DefaultAtOnce, bandwidth: true}
)

// steps are the measures, each in addition to those before it.
func steps() []measure {
	return []measure{
		{"header", "two choices, as last said, by host", balance.Sampled{K: 2, Counter: signals.ByHost}, asExpected},
		{"fresh", "+ fresh: polled", polled(2, signals.ByHost), asExpected},
		{"model", "+ the model's own counter", polled(2, signals.ByModel), asExpected},
		{"work", "+ outstanding work for each core", polled(2, signals.ByWork), asExpected},
		{"placement", "+ placement within bands", polled(2, signals.ByWork), byProcessors},
		{"bandwidth", "+ bandwidth as a resource", polled(2, signals.ByWork), byBandwidth},
	}
}

// others are what the steps are held against, to see in which order measures help, and how the
// choices of others do where replicas are placed alike.
func others() []measure {
	list := []measure{
		{"use", "polled, by how busy cores were of late", byUse{balance.Sampled{K: 2, Poll: true}}, asExpected},
		{"three", "three choices, polled, by host", polled(3, signals.ByHost), asExpected},
		{"header_placed", "as last said, by host, with placement", balance.Sampled{K: 2, Counter: signals.ByHost}, byBandwidth},
		{"host_placed", "polled, by host, with placement", polled(2, signals.ByHost), byBandwidth},
		{"model_placed", "polled, by model, with placement", polled(2, signals.ByModel), byBandwidth},
		{"header_default", "as last said, by host, with placement, one move at a time", balance.Sampled{K: 2, Counter: signals.ByHost}, byDefaults},
		{"all_default", "all steps, one move at a time", polled(2, signals.ByWork), byDefaults},
	}
	for _, x := range peers() {
		list = append(list, measure{x.name, x.name + ", with placement", x.chooser, byBandwidth})
	}
	return list
}

func polled(k int, c signals.Counter) balance.Chooser {
	return balance.Sampled{K: k, Counter: c, Poll: true}
}

// byUse compares two hosts by how busy their cores were in the last second or so (META-6).
type byUse struct{ balance.Sampled }

// Choose implements [balance.Chooser].
func (byUse) Choose(k *balance.Knowledge, polled []int, _ time.Duration, random *rand.Rand) int {
	best := polled[0]
	for _, i := range polled[1:] {
		if a, b := k.Said[i].Use, k.Said[best].Use; a < b || a == b && random.IntN(2) == 0 {
			best = i
		}
	}
	return best
}

// perDay is how often placement runs in a day. It would be 1,440 times at each minute; a
// simulated day is shorter, and so are loads.
const perDay = 48

// uneven is a tier of three kinds of hosts, whose models are more or less than was expected of
// them when they were placed, and ask for more or less of their memory's bandwidth.
func (s *study) uneven(seed uint64) clients.Drawing {
	return clients.Drawing{
		Hosts: 42, Kinds: []float64{2, 4, 8}, Models: 24, Skew: 0.8, Replicas: 110, Error: 0.3,
		Fastest: 5 * time.Millisecond, Slowest: 40 * time.Millisecond, Spread: 0.5,
		Memory: 6 << 30, Smallest: 1 << 30, Largest: 8 << 30,
		Bandwidth: 10, Lightest: 2, Heaviest: 13,
		LoadTime: s.dayTakes() / 200, LoadWork: s.dayTakes() / 1000, Seed: seed,
	}
}

// dayTakes is how long a simulated day takes.
func (s *study) dayTakes() time.Duration { return 2 * s.length }

// playDay runs a day: a load of 1 is as many requests at the peak as all cores can do. It ends
// early, if wanted, where too many requests time out for the load to be carried.
func (s *study) playDay(m measure, load float64, seed uint64, early bool) (*clients.Result, error) {
	c, err := s.uneven(seed).Draw()
	if err != nil {
		return nil, err
	}
	length := s.dayTakes()
	c.Clients, c.Chooser, c.PollTakes, c.PollWork, c.Timeout, c.Seed = 1000, m.chooser, pollTakes, pollWork, timeout, seed
	c.Length, c.Warmup, c.Period = length, length/8, length/perDay
	clients.Day{Length: length, Peak: load * c.Capacity(), Floor: 0.4, Swing: 0.25, Hogs: 6, Hogged: 0.4, Seed: seed}.Apply(c)
	if m.places != asExpected {
		balanced(c, m.places)
	}
	if early {
		requests, step := 0.0, length/200
		for at := c.Warmup; at < length; at += step {
			requests += c.RateAt(at) * step.Seconds()
		}
		c.Most = 1 + int(1.05*most*requests)
	}
	return clients.Run(c)
}

// dayCarried is the highest load of a day, in steps of two hundredths, at which few enough of
// its requests time out.
func (s *study) dayCarried(ctx context.Context, m measure, seed uint64) (float64, error) {
	low, high := 10, 56
	for high-low > 1 {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		middle := (low + high) / 2
		r, err := s.playDay(m, float64(middle)/50, seed, true)
		if err != nil {
			return 0, err
		}
		if r.TimeoutShare() <= most {
			low = middle
		} else {
			high = middle
		}
	}
	return float64(low) / 50, nil
}
