package supervised

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var twoConvolutions = []Convolution{{3, 2, 4}, {3, 1, 3}, {1, 1, 2}}

func noiseOf(random *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(random.NormFloat64())
	}
	return v
}

// The outputs are those of convolutions by loops.
func TestConvolutions(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	n := NewConvolutions(7, 2, twoConvolutions, random)
	for _, l := range n.Layers {
		copy(l.Biases, noiseOf(random, l.Out))
	}
	if want := (3*3*2+1)*4 + (3*3*4+1)*3 + (3+1)*2; n.Parameters() != want {
		t.Errorf("%d parameters, want %d", n.Parameters(), want)
	}
	x := noiseOf(random, 7*7*2)
	got := n.Outputs(x)
	side, channels := 7, 2
	for i, s := range n.Shapes {
		to := (side-1)/s.Stride + 1
		y := make([]float32, to*to*s.Out)
		for o := range y {
			out, col, row := o%s.Out, o/s.Out%to, o/s.Out/to
			sum := n.Layers[i].Biases[out]
			for k := range s.Kernel * s.Kernel * channels {
				c, kx, ky := k%channels, k/channels%s.Kernel, k/channels/s.Kernel
				r, q := row*s.Stride+ky-s.Kernel/2, col*s.Stride+kx-s.Kernel/2
				if r >= 0 && q >= 0 && r < side && q < side {
					sum += x[(r*side+q)*channels+c] * n.Layers[i].Weights[k*s.Out+out]
				}
			}
			if i < len(n.Shapes)-1 {
				sum = max(0, sum)
			}
			y[o] = sum
		}
		x, side, channels = y, to, s.Out
	}
	for i, want := range x {
		if math.Abs(float64(got[i]-want)) > 1e-4 {
			t.Fatalf("output %d is %v, want %v", i, got[i], want)
		}
	}
}

// squares is the loss of outputs that are to be 1.
func squares(outputs, gradient []float32) (loss float64) {
	for i, v := range outputs {
		loss += float64((v - 1) * (v - 1))
		gradient[i] = 2 * (v - 1)
	}
	return loss
}

// The gradient is that of the loss, by differences.
func TestConvolutionGradients(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 1))
	n := NewConvolutions(6, 1, twoConvolutions, random)
	pictures := [][]float32{noiseOf(random, 36), noiseOf(random, 36)}
	p := n.newPass(len(pictures))
	draw := func(_, row int, picture []float32) Loss { copy(picture, pictures[row]); return squares }
	p.learn(0, 0, draw)
	gradient := slices.Clone(p.gradient)
	for i := range n.flat {
		const step = 1e-2
		before := n.flat[i]
		n.flat[i] = before + step
		p.learn(0, 0, draw)
		up := p.loss
		n.flat[i] = before - step
		p.learn(0, 0, draw)
		n.flat[i] = before
		if want := (up - p.loss) / (2 * step); math.Abs(want-float64(gradient[i])) > 0.03*max(1, math.Abs(want)) {
			t.Errorf("weight %d: gradient %v, by differences %v", i, gradient[i], want)
		}
	}
}

// Training lowers the loss, gives the same weights each time, and stops where it cannot go on.
func TestConvolutionsLearn(t *testing.T) {
	learn := func(ctx context.Context, c Config, spoil float32) (*Convolutions, []float64, error) {
		n := NewConvolutions(6, 1, twoConvolutions, rand.New(rand.NewPCG(3, 1)))
		var losses []float64
		err := TrainConvolutions(ctx, n, c, func(step, row int, picture []float32) Loss {
			copy(picture, noiseOf(rand.New(rand.NewPCG(uint64(step), uint64(row))), 36))
			picture[0] += spoil
			return squares
		}, func(p Progress) { losses = append(losses, p.Loss) })
		return n, losses, err
	}
	c := Config{Steps: 60, Batch: 5, Rate: 0.02, Clip: 10}
	n, losses, err := learn(t.Context(), c, 0)
	if err != nil || len(losses) != c.Steps || losses[c.Steps-1] > losses[0]/3 {
		t.Errorf("losses %v, %v", losses, err)
	}
	if again, _, _ := learn(t.Context(), c, 0); !slices.Equal(n.flat, again.flat) {
		t.Error("the same training gave two networks")
	}
	if _, _, err := learn(t.Context(), c, float32(math.Inf(1))); !errors.Is(err, ErrDiverged) {
		t.Errorf("an infinite picture: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, losses, err := learn(ctx, c, 0); !errors.Is(err, context.Canceled) || losses != nil {
		t.Errorf("interrupted: %v, %v", losses, err)
	}
	if _, _, err := learn(t.Context(), Config{Steps: 1, Batch: 1, Rate: 1, Clip: 1}, 0); err == nil || !strings.Contains(err.Error(), "want 2 pictures at least") {
		t.Errorf("a batch of one: %v", err)
	}
}
