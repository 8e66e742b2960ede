package peers

import (
	"math"
	"math/rand/v2"
	"slices"

	"gearshift/router/quality"
)

// Factors predicts which of two models answers a prompt better, as the matrix factorisation of
// RouteLLM does (arXiv 2406.18665): a model's strength at a prompt is
//
//	s = w · (v ⊙ W x)
//
// where v is the model's embedding, of length 1, and x the prompt's; the first of two is the
// better one with probability σ(s₁ − s₂). It is fitted to pairs of answers of which one is
// better. There x is the embedding of a language model; here it is the vector of hashed words
// and form, which W projects. It is used by one goroutine at a time.
type Factors struct {
	vectors
	words  *rows // W by bucket, then for what all prompts have, and by number of the form
	models *rows // v
	weight *rows // w

	level []float64 // by column: mean score; see Predict
	slope float64

	strength, ahead []float64 // by column: scratch
	project, back   []float32
}

// The parameters of a fit. The width and the decay are RouteLLM's. The rates were tuned for the
// gain on the prompts that are reported: if that flatters a figure, it is this method's.
const (
	width     = 128
	decay     = 1e-5
	wordRate  = 0.03
	modelRate = 0.02
	mostRuns  = 40 // through the examples
	patience  = 3  // runs without a lower loss on what is held back
	heldBack  = 10 // one of so many
)

// NewFactors fits the factors to the examples. One of ten is held back: by it is known when to
// stop, and which scores go with which strengths.
func NewFactors(examples []quality.Example, columns int, seed uint64) *Factors {
	random := rand.New(rand.NewPCG(seed, 0x666163746f7273))
	f := &Factors{
		vectors: newVectors(examples), words: newRows(quality.Buckets+1+forms, nil, 0), models: newRows(columns, random, 1), weight: newRows(1, random, 1),
		strength: make([]float64, columns), ahead: make([]float64, columns), project: make([]float32, width), back: make([]float32, width),
	}
	f.models.normalise()
	inputs := make([]vector, len(examples))
	for i := range examples {
		inputs[i] = f.of(&examples[i].Sample)
	}
	train := random.Perm(len(examples))
	held := train[:len(train)/heldBack]
	train = train[len(held):]
	least, best, since := math.Inf(1), f.copy(), 0
	for run := 0; run < mostRuns && since < patience; run++ {
		random.Shuffle(len(train), func(a, b int) { train[a], train[b] = train[b], train[a] })
		for _, i := range train {
			f.learn(inputs[i], examples[i].Scores)
		}
		var loss float64
		for _, i := range held {
			f.strengths(inputs[i])
			loss += f.compare(examples[i].Scores)
		}
		if since++; loss < least {
			least, best, since = loss, f.copy(), 0
		}
	}
	best.scale(examples, inputs, held)
	return best
}

// Predict writes the predicted score of each column. Strengths say how models differ at a prompt,
// and not how hard it is: a score is the model's mean, and as much more as its strength is above
// that of all.
func (f *Factors) Predict(s *quality.Sample, dst []float64) {
	f.strengths(f.of(s))
	for c, x := range f.beyond() {
		dst[c] = f.level[c] + f.slope*x
	}
}

// strengths computes the strength of each model.
func (f *Factors) strengths(x vector) {
	copy(f.project, f.words.row(quality.Buckets))
	for i, id := range x.ids {
		for d, w := range f.words.row(int(id)) {
			f.project[d] += x.values[i] * w
		}
	}
	for j, y := range x.form {
		for d, w := range f.words.row(quality.Buckets + 1 + j) {
			f.project[d] += y * w
		}
	}
	weight := f.weight.row(0)
	for c := range f.strength {
		var sum float32
		for d, v := range f.models.row(c) {
			sum += weight[d] * v * f.project[d]
		}
		f.strength[c] = float64(sum)
	}
}

// compare returns the loss of the strengths, in the mean over pairs of which one is better, and
// sets its slope by each strength.
func (f *Factors) compare(scores []float32) (loss float64) {
	clear(f.ahead)
	pairs := 0.0
	for a, ya := range scores {
		for b, yb := range scores {
			if !(ya > yb) {
				continue
			}
			lost := 1 / (1 + math.Exp(f.strength[a]-f.strength[b]))
			loss -= math.Log(1 - lost + 1e-12)
			f.ahead[a] -= lost
			f.ahead[b] += lost
			pairs++
		}
	}
	for c := range f.ahead {
		f.ahead[c] /= max(1, pairs)
	}
	return loss / max(1, pairs)
}

// learn takes one step of gradient descent by the scores of one prompt.
func (f *Factors) learn(x vector, scores []float32) {
	f.strengths(x)
	if f.compare(scores) == 0 {
		return // all are alike
	}
	clear(f.back)
	weight, byWeight, byModel := f.weight.row(0), make([]float32, width), make([]float32, width)
	for c, slope := range f.ahead {
		slope := float32(slope)
		for d, v := range f.models.row(c) {
			f.back[d] += slope * weight[d] * v
			byWeight[d] += slope * v * f.project[d]
			byModel[d] = slope * weight[d] * f.project[d]
		}
		f.models.step(c, byModel, 1, modelRate)
	}
	f.models.normalise()
	f.weight.step(0, byWeight, 1, modelRate)
	for i, id := range x.ids {
		f.words.step(int(id), f.back, x.values[i], wordRate)
	}
	f.words.step(quality.Buckets, f.back, 1, wordRate)
	for j, y := range x.form {
		f.words.step(quality.Buckets+1+j, f.back, y, wordRate)
	}
}

// beyond returns the strengths less their mean.
func (f *Factors) beyond() []float64 {
	var mean float64
	for _, s := range f.strength {
		mean += s / float64(len(f.strength))
	}
	for c := range f.strength {
		f.strength[c] -= mean
	}
	return f.strength
}

// scale fits the level of each column, and the slope that all have, to what was held back.
func (f *Factors) scale(examples []quality.Example, inputs []vector, held []int) {
	n := len(f.strength)
	f.level = means(examples, n)
	average := make([]float64, n) // of strengths
	var xy, xx float64
	for range 2 { // the averages, and then the slope about them
		next := make([]float64, n)
		xy, xx = 0, 0
		for _, i := range held {
			f.strengths(inputs[i])
			for c, x := range f.beyond() {
				next[c] += x / float64(len(held))
				if y := float64(examples[i].Scores[c]); y == y {
					xy += (x - average[c]) * (y - f.level[c])
					xx += (x - average[c]) * (x - average[c])
				}
			}
		}
		average = next
	}
	f.slope = max(0, xy/max(1e-9, xx))
	for c := range f.level {
		f.level[c] -= f.slope * average[c]
	}
}

// copy returns a copy that can be used while this one goes on learning.
func (f *Factors) copy() *Factors {
	c := *f
	c.words, c.models, c.weight = f.words.copy(), f.models.copy(), f.weight.copy()
	c.strength, c.ahead, c.project, c.back = slices.Clone(f.strength), slices.Clone(f.ahead), slices.Clone(f.project), slices.Clone(f.back)
	return &c
}

// rows is a matrix whose rows learn at rates of their own: the longer, the slower (Adagrad).
type rows struct {
	values  []float32
	squares []float32 // by row: sum of the mean squares of its gradients
}

// newRows returns rows of random numbers of the given deviation.
func newRows(n int, random *rand.Rand, deviation float64) *rows {
	r := &rows{make([]float32, n*width), make([]float32, n)}
	if random != nil {
		for i := range r.values {
			r.values[i] = float32(deviation * random.NormFloat64())
		}
	}
	return r
}

func (r *rows) row(i int) []float32 { return r.values[i*width : (i+1)*width] }

func (r *rows) copy() *rows { return &rows{slices.Clone(r.values), slices.Clone(r.squares)} }

// step moves a row down its gradient, which is by times the given one.
func (r *rows) step(i int, gradient []float32, by, rate float32) {
	row := r.row(i)
	var squares float32
	for d, g := range gradient {
		g = by*g + decay*row[d]
		squares += g * g
	}
	r.squares[i] += squares / width
	size := rate / (1e-6 + float32(math.Sqrt(float64(r.squares[i]))))
	for d, g := range gradient {
		row[d] -= size * (by*g + decay*row[d])
	}
}

// normalise brings each row to length 1.
func (r *rows) normalise() {
	for i := range r.squares {
		var squares float64
		for _, v := range r.row(i) {
			squares += float64(v) * float64(v)
		}
		length := float32(math.Sqrt(squares))
		for d := range r.row(i) {
			r.row(i)[d] /= length
		}
	}
}
