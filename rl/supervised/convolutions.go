package supervised

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gearshift/rl"
	"gearshift/rl/fused"
	"gearshift/router/nn"
)

// Convolution is the shape of a layer: its kernel is a square with an odd side, and pixels outside the picture are 0.
type Convolution struct{ Kernel, Stride, Out int }

// Convolutions is a network of convolutions, one after the other, of which all but the last are rectified. Pictures are
// row by row, and of each pixel all channels together.
type Convolutions struct {
	Side     int // of a picture
	Channels int
	Shapes   []Convolution
	Layers   []Layer // the inputs are those of a kernel's window, row by row
	flat     []float32
}

// NewConvolutions makes a network with weights drawn from random.
func NewConvolutions(side, channels int, shapes []Convolution, random *rand.Rand) *Convolutions {
	n := &Convolutions{Side: side, Channels: channels, Shapes: shapes}
	n.flat = make([]float32, n.Parameters())
	n.Layers = n.divide(n.flat)
	for _, l := range n.Layers {
		bound := math.Sqrt(6 / float64(l.In))
		for i := range l.Weights {
			l.Weights[i] = float32((2*random.Float64() - 1) * bound)
		}
	}
	return n
}

// Parameters is how many weights and biases the network has.
func (n *Convolutions) Parameters() (sum int) {
	in := n.Channels
	for _, s := range n.Shapes {
		sum += (s.Kernel*s.Kernel*in + 1) * s.Out
		in = s.Out
	}
	return sum
}

// divide returns the layers whose weights lie in flat.
func (n *Convolutions) divide(flat []float32) (layers []Layer) {
	in := n.Channels
	for _, s := range n.Shapes {
		l := Layer{In: s.Kernel * s.Kernel * in, Out: s.Out}
		w := l.In * l.Out
		l.Weights, l.Biases = flat[:w:w], flat[w:w+l.Out:w+l.Out]
		flat, in = flat[w+l.Out:], s.Out
		layers = append(layers, l)
	}
	return layers
}

// Loss returns the loss of a picture by the network's outputs for it, and writes its gradient.
type Loss func(outputs, gradient []float32) float64

// Draw writes a picture that is the same each time for a step and a row, and returns its loss. Several goroutines call it
// at once.
type Draw func(step, row int, picture []float32) Loss

// TrainConvolutions trains the network with the mean loss of each step's pictures. Where the context ends, it stops after a
// step, with the context's error.
func TrainConvolutions(ctx context.Context, n *Convolutions, c Config, draw Draw, progress func(Progress)) error {
	if c.Steps < 1 || c.Rate <= 0 || c.Clip <= 0 || c.Batch < shards {
		return fmt.Errorf("cannot train: %d steps of %d pictures at a rate of %v, clipped at %v; want %d pictures at least",
			c.Steps, c.Batch, c.Rate, c.Clip, shards)
	}
	var passes [shards]*pass
	for i := range passes {
		passes[i] = n.newPass(c.Batch*(i+1)/shards - c.Batch*i/shards)
	}
	adam := rl.NewAdam(len(n.flat), c.Rate)
	for step := range c.Steps {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		each(shards, func(i int) { passes[i].learn(step, c.Batch*i/shards, draw) })
		p := Progress{Step: step + 1, Steps: c.Steps}
		sum := passes[0].gradient
		for i, s := range passes {
			p.Loss += s.loss / float64(c.Batch)
			if i > 0 {
				nn.AddRows(sum, s.gradient)
			}
		}
		for i := range sum {
			sum[i] /= float32(c.Batch)
		}
		norm := rl.GradientNorm(sum)
		if slices.ContainsFunc([]float64{norm, p.Loss}, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
			return fmt.Errorf("cannot train: step %d: %w", step+1, ErrDiverged)
		}
		adam.Rate = c.rate(step)
		adam.Step(n.flat, sum, rl.ClipFactor(norm, c.Clip))
		progress(p)
	}
	return nil
}

// Outputs returns what the network computes of a picture.
func (n *Convolutions) Outputs(picture []float32) []float32 {
	p := n.newPass(1)
	copy(p.values[0], picture)
	p.forward()
	return p.values[len(n.Layers)]
}

// pass is the memory of a computation for some pictures.
type pass struct {
	*Convolutions
	pictures int
	sides    []int       // of what each layer takes, and the last gives
	values   [][]float32 // the same
	windows  [][]float32 // of each layer's kernel, a row for each output pixel
	gradient []float32
	layers   []Layer // in gradient
	// The gradients of values and windows; the first are not needed.
	dvalues, dwindows [][]float32
	loss              float64
}

func (n *Convolutions) newPass(pictures int) *pass {
	p := &pass{Convolutions: n, pictures: pictures, sides: []int{n.Side}, gradient: make([]float32, len(n.flat))}
	p.layers = n.divide(p.gradient)
	p.values = [][]float32{make([]float32, pictures*n.Side*n.Side*n.Channels)}
	for i, s := range n.Shapes {
		side := (p.sides[i]-1)/s.Stride + 1
		pixels := pictures * side * side
		p.sides = append(p.sides, side)
		p.values = append(p.values, make([]float32, pixels*s.Out))
		p.windows = append(p.windows, make([]float32, pixels*n.Layers[i].In))
	}
	return p
}

// learn computes the sum of the losses and its gradient.
func (p *pass) learn(step, first int, draw Draw) {
	losses := make([]Loss, p.pictures)
	part := func(v []float32, i int) []float32 {
		size := len(v) / p.pictures
		return v[i*size : (i+1)*size]
	}
	for i := range losses {
		losses[i] = draw(step, first+i, part(p.values[0], i))
	}
	p.forward()
	if p.dvalues == nil {
		for i := range p.values {
			p.dvalues = append(p.dvalues, make([]float32, len(p.values[i])))
		}
		for i := range p.windows {
			p.dwindows = append(p.dwindows, make([]float32, len(p.windows[i])))
		}
	}
	last := len(p.Layers)
	p.loss = 0
	for i, loss := range losses {
		p.loss += loss(part(p.values[last], i), part(p.dvalues[last], i))
	}
	p.backward()
}

func (p *pass) forward() {
	for i, l := range p.Layers {
		p.visit(i, p.values[i], p.windows[i], func(pixels, window []float32) { copy(window, pixels) })
		fused.Forward(p.values[i+1], p.windows[i], l.Weights, l.Biases, len(p.values[i+1])/l.Out, i < len(p.Layers)-1)
	}
}

// backward computes the gradients of all weights from that of the outputs.
func (p *pass) backward() {
	for i := len(p.Layers) - 1; i >= 0; i-- {
		l, dy := &p.Layers[i], p.dvalues[i+1]
		rows := len(dy) / l.Out
		fused.WeightGradient(p.layers[i].Weights, p.windows[i], dy, rows, l.Out)
		fused.BiasGradient(p.layers[i].Biases, dy)
		if i == 0 {
			return
		}
		fused.InputGradient(p.dwindows[i], dy, l.Weights, p.windows[i], rows, l.Out)
		clear(p.dvalues[i])
		p.visit(i, p.dvalues[i], p.dwindows[i], nn.AddRows)
	}
}

// visit calls do with each row of each window of a layer's kernel that is inside the picture, and its pixels.
func (p *pass) visit(layer int, pixels, windows []float32, do func(pixels, window []float32)) {
	s, side, to := p.Shapes[layer], p.sides[layer], p.sides[layer+1]
	width := p.Layers[layer].In / s.Kernel // floats of a window's row
	channels := width / s.Kernel
	for picture := range p.pictures {
		for y := range to {
			for x := range to {
				window := windows[((picture*to+y)*to+x)*p.Layers[layer].In:][:p.Layers[layer].In]
				left := x*s.Stride - s.Kernel/2
				from, end := max(left, 0), min(left+s.Kernel, side)
				for k := range s.Kernel {
					if row := y*s.Stride - s.Kernel/2 + k; row >= 0 && row < side {
						at := (picture*side + row) * side
						do(pixels[(at+from)*channels:(at+end)*channels], window[k*width+(from-left)*channels:][:(end-from)*channels])
					}
				}
			}
		}
	}
}
