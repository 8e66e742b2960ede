// Package league draws fleets at random, and compares policies over many of them. It measures rules and
// policies that were tuned or trained elsewhere on fleets that they have not seen.
package league

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gearshift/internal/scenario"
)

// FirstTraining is the first seed of the fleets that policies may be trained on. Those below it are for
// evaluation.
const FirstTraining = 1 << 20

// tries bounds the attempts to draw a fleet of a seed: a fleet is drawn again where its sizes do not fit, its
// scenario is refused, or no size answers in time.
const tries = 200

// Draw returns the text of the scenario of a seed: 2 to 6 sizes of a model by roofline laws of 1 to 3
// kinds of cards, 1 to 16 hosts with some of the sizes each, 1 to 6 tasks with deadlines, decays, weights,
// lengths and qualities of their own. The rates of its workloads follow from the fleet, as in any file that
// leaves them out. Equal seeds give equal texts.
func Draw(seed uint64) ([]byte, error) {
	rng := rand.New(rand.NewPCG(seed, 0x6c6561677565))
	var last error
	for range tries {
		d := drawing{Rand: rng, name: fmt.Sprintf("drawn-%d", seed)}
		if last = d.draw(); last != nil {
			continue
		}
		text := d.text()
		s, err := scenario.Parse(d.name+".yaml", text)
		if last = err; err != nil {
			continue
		}
		if s.AnyInTime() {
			return text, nil
		}
		last = errors.New("no size answers in time")
	}
	return nil, fmt.Errorf("cannot draw the fleet of seed %d: %w", seed, last)
}

// Fleet returns the scenario of a seed; see [Draw].
func Fleet(seed uint64) (*scenario.Scenario, error) {
	text, err := Draw(seed)
	if err != nil {
		return nil, err
	}
	return scenario.Parse(fmt.Sprintf("drawn-%d.yaml", seed), text)
}

// card is a kind of GPU, by its data sheet.
type card struct {
	name      string
	memory    float64 // GiB
	compute   float64 // TFLOP/s at 16 bits
	bandwidth float64 // GB/s
}

var cards = []card{
	{"l4", 24, 121, 300}, {"a10", 24, 125, 600}, {"titan-rtx", 24, 130, 672}, {"l40s", 48, 362, 864},
	{"a100-40", 40, 312, 1555}, {"a100-80", 80, 312, 2039}, {"h100", 80, 989, 3350},
}

// Shares of the data sheet's speed that engines reach, as fitted for the titan-rtx-opt profile.
const (
	computeShare = 0.55
	weightShare  = 0.585 // of the bandwidth, for weights
	kvShare      = 0.45  // of the bandwidth, for the KV cache
)

// size is one size of the model.
type size struct {
	name       string
	parameters float64
	layers     float64
	kv         float64 // bytes per token of context
	activation float64 // bytes
}

func (s *size) weights() float64 { return 2 * s.parameters }

// task is one class of requests.
type task struct {
	name             string
	deadline, weight float64
	soft             bool
	quality          []float64
	prompt, output   float64 // means
}

// longest returns the most tokens that a request of the task holds.
func (t *task) longest() float64 { return math.Round(2*t.prompt) + math.Round(4*t.output) }

// host is a machine and, by size, the bytes that a replica there takes; 0 where there is none.
type host struct {
	card   int // of those drawn
	memory []float64
}

// drawing holds a fleet while it is drawn.
type drawing struct {
	*rand.Rand
	name  string
	cards []card
	sizes []size
	tasks []task
	hosts []host
	// launch is the time of a layer's kernels, overhead that of a step, sequence that of each of its
	// sequences, in ms; contention is the slowdown by a busy neighbour.
	launch, overhead, sequence, contention float64
}

func (d *drawing) uniform(low, high float64) float64 { return low + (high-low)*d.Float64() }

// spread draws evenly by the logarithm.
func (d *drawing) spread(low, high float64) float64 { return low * math.Pow(high/low, d.Float64()) }

// count draws a whole number from 1 to most, small ones more often.
func (d *drawing) count(most float64) int { return int(d.spread(1, most+0.999)) }

func (d *drawing) draw() error {
	for _, i := range d.Perm(len(cards))[:1+d.IntN(3)] {
		d.cards = append(d.cards, cards[i])
	}
	d.launch, d.overhead = d.spread(0.03, 0.3), d.spread(0.5, 3)
	d.sequence, d.contention = d.spread(0.02, 0.2), d.uniform(0.1, 0.4)
	if err := d.drawSizes(); err != nil {
		return err
	}
	for i := range 1 + d.IntN(6) {
		d.tasks = append(d.tasks, d.drawTask(i))
	}
	return d.drawHosts()
}

// drawSizes draws 2 to 6 sizes, each at least half as large again as the one before, of which the largest
// fits the largest card.
func (d *drawing) drawSizes() error {
	var most float64
	for _, c := range d.cards {
		most = max(most, c.memory*(1<<30))
	}
	n := 2 + d.IntN(5)
	low, high := d.spread(0.1e9, 2e9), 0.35*most*d.spread(0.25, 1)
	if high/low < math.Pow(1.5, float64(n-1)) {
		return fmt.Errorf("%d sizes do not fit between %.2g and %.2g parameters", n, low, high)
	}
	heads := []float64{1, 0.25, 0.125}[d.IntN(3)] // of the keys and values, as a share of all heads
	for i := range n {
		p := low * math.Pow(high/low, (float64(i)+d.uniform(-0.2, 0.2))/float64(n-1))
		layers := math.Round(12 * math.Pow(p/0.125e9, 0.25))
		hidden := math.Sqrt(p / (12 * layers))
		d.sizes = append(d.sizes, size{
			name: fmt.Sprintf("m%d", i+1), parameters: p, layers: layers,
			kv: 4 * layers * hidden * heads, activation: d.spread(0.1e9, 0.5e9),
		})
	}
	slices.SortFunc(d.sizes, func(a, b size) int { return int(math.Copysign(1, a.parameters-b.parameters)) })
	for i := range d.sizes {
		d.sizes[i].name = fmt.Sprintf("m%d", i+1)
	}
	return nil
}

// drawTask draws a task whose deadline suits one of the sizes on one of the cards: alone it takes from a
// third of the deadline to almost all of it.
func (d *drawing) drawTask(i int) task {
	t := task{
		name: fmt.Sprintf("t%d", i+1), weight: d.spread(0.5, 2), soft: d.IntN(2) == 0,
		prompt: d.spread(40, 1500), output: d.spread(40, 400),
	}
	suits, on := &d.sizes[d.IntN(len(d.sizes))], d.cards[d.IntN(len(d.cards))]
	alone := max(d.launch*suits.layers, weightsMS(suits, on)) + d.overhead + d.sequence
	alone += 2 * suits.parameters / (computeShare * on.compute * 1e12) * 1e3 * t.prompt / t.output
	t.deadline = alone * d.spread(1.15, 3)
	loss, bend := d.uniform(0.05, 0.6), d.uniform(0.7, 2.5)
	least, most := d.sizes[0].parameters, d.sizes[len(d.sizes)-1].parameters
	for _, s := range d.sizes {
		below := math.Log(most/s.parameters) / math.Log(most/least)
		t.quality = append(t.quality, 1-loss*math.Pow(below, bend))
	}
	return t
}

func weightsMS(s *size, c card) float64 { return s.weights() / (weightShare * c.bandwidth * 1e9) * 1e3 }

// drawHosts draws hosts with some of the sizes each. What replicas leave of a host is divided among them.
func (d *drawing) drawHosts() error {
	var longest float64
	for i := range d.tasks {
		longest = max(longest, d.tasks[i].longest())
	}
	there := make([]bool, len(d.sizes))
	for range d.count(16) {
		h := host{card: d.IntN(len(d.cards)), memory: make([]float64, len(d.sizes))}
		room := 0.95 * d.cards[h.card].memory * (1 << 30)
		var on []int
		for _, k := range d.Perm(len(d.sizes)) {
			s := &d.sizes[k]
			least := s.weights() + s.activation + 1.1*s.kv*longest + 1<<24
			if least > room || len(on) > 0 && d.Float64() > 0.75 {
				continue
			}
			h.memory[k], there[k] = least, true
			room -= least
			on = append(on, k)
		}
		var parts []float64
		var sum float64
		for range on {
			parts = append(parts, d.ExpFloat64())
			sum += parts[len(parts)-1]
		}
		for j, k := range on {
			h.memory[k] += room * parts[j] / sum
		}
		if len(on) > 0 {
			d.hosts = append(d.hosts, h)
		}
	}
	if i := slices.Index(there, false); i >= 0 {
		return fmt.Errorf("size %s is on no host", d.sizes[i].name)
	}
	return nil
}
