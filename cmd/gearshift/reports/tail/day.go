package tail

import (
	"context"
	"math/rand/v2"
	"time"

	"gearshift/env/tier"
	"gearshift/router/balance"
	"gearshift/router/signals"
)

// measure is what a tier does against its tail: how clients choose, and what placement knows.
type measure struct {
	id, name string
	chooser  balance.Chooser
	places   places
}

// places is how replicas are placed once a tier runs.
type places uint8

const (
	asExpected   places = iota // where they were put beforehand
	byProcessors               // within bands of processors
	byBandwidth                // and below a limit of memory bandwidth
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
	return []measure{
		{"use", "polled, by how busy cores were of late", byUse{balance.Sampled{K: 2, Poll: true}}, asExpected},
		{"three", "three choices, polled, by host", polled(3, signals.ByHost), asExpected},
		{"hardware", "weights by hardware, polled, by host", balance.Hardware{Sampled: balance.Sampled{K: 2, Counter: signals.ByHost, Poll: true}}, asExpected},
		{"header_placed", "as last said, by host, with placement", balance.Sampled{K: 2, Counter: signals.ByHost}, byBandwidth},
		{"host_placed", "polled, by host, with placement", polled(2, signals.ByHost), byBandwidth},
		{"model_placed", "polled, by model, with placement", polled(2, signals.ByModel), byBandwidth},
		{"probing", "probes by their worth, one a request, with placement", balance.Probing{Budget: 1, Look: 4, Relax: 100 * time.Millisecond, Rounds: 4, Counter: signals.ByWork}, byBandwidth},
		{"prequal", "Prequal, three probes a request, with placement", balance.Prequal{Probes: 3, Pool: 16, Least: 2, Age: time.Second, Reuse: 3, Remove: 1, Quantile: 0.84, Requests: signals.ByHost, Drain: true}, byBandwidth},
		{"ewma", "peak-EWMA, with placement", balance.PeakEWMA{K: 2, Decay: 10 * time.Second, Start: 20 * time.Millisecond}, byBandwidth},
		{"weighted", "weighted round robin, with placement", balance.Weighted{Blackout: 10 * time.Second, Expiry: 3 * time.Minute, Update: time.Second, Penalty: 1}, byBandwidth},
	}
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
func (s *study) uneven(seed uint64) tier.Drawing {
	return tier.Drawing{
		Hosts: 42, Kinds: []float64{2, 4, 8}, Models: 24, Skew: 0.8, Replicas: 110, Error: 0.3,
		Fastest: 5 * time.Millisecond, Slowest: 40 * time.Millisecond, Spread: 0.5,
		Memory: 6 << 30, Smallest: 1 << 30, Largest: 8 << 30,
		Bandwidth: 10, Lightest: 2, Heaviest: 13,
		LoadTime: s.dayTakes() / 200, LoadWork: s.dayTakes() / 1000, Seed: seed,
	}
}

// dayTakes is how long a simulated day takes.
func (s *study) dayTakes() time.Duration { return 3 * s.length }

// playDay runs a day: a load of 1 is as many requests at the peak as all cores can do.
func (s *study) playDay(m measure, load float64, seed uint64) (*tier.Result, error) {
	c, err := s.uneven(seed).Draw()
	if err != nil {
		return nil, err
	}
	length := s.dayTakes()
	c.Clients, c.Chooser, c.PollTakes, c.Timeout, c.Seed = 1000, m.chooser, pollTakes, timeout, seed
	c.Length, c.Warmup, c.Period = length, length/8, length/perDay
	tier.Day{Length: length, Peak: load * c.Capacity(), Floor: 0.4, Swing: 0.25, Hogs: 6, Hogged: 0.4, Seed: seed}.Apply(c)
	if m.places != asExpected {
		balanced(c, m.places == byBandwidth)
	}
	return tier.Run(c)
}

// dayCarried is the highest load of a day, in hundredths, at which few enough of its requests
// time out.
func (s *study) dayCarried(ctx context.Context, m measure, seed uint64) (float64, error) {
	low, high := 20, 110
	for high-low > 1 {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		load := (low + high) / 2
		r, err := s.playDay(m, float64(load)/100, seed)
		if err != nil {
			return 0, err
		}
		if r.TimeoutShare() <= most {
			low = load
		} else {
			high = load
		}
	}
	return float64(low) / 100, nil
}
