package scenes

import (
	"image"
	"math"
	"math/rand/v2"
)

// texture is a square of gray levels, which repeats. Its side is a power of two.
type texture struct {
	side   int
	levels []byte
}

// newGround draws smooth noise of several scales.
func newGround(random *rand.Rand) *texture {
	const side = 256
	level := random.Float64()*60 + 90
	return paint(side, func(_, _ int) float64 { return level }, noise(random, side, 64, 30), noise(random, side, 16, 16), noise(random, side, 4, 10))
}

// newPattern draws stripes, checks or rings with some noise.
func newPattern(random *rand.Rand) *texture {
	const side = 64
	kind, across, phase := random.IntN(3), 1+random.Float64(), random.Float64()
	dark, light := 40+random.Float64()*60, 150+random.Float64()*70
	swing := func(x float64) bool { return math.Sin(2*math.Pi*(x*across+phase)) > 0 }
	return paint(side, func(x, y int) float64 {
		u, v := float64(x)/side, float64(y)/side
		on := swing(u)
		switch kind {
		case 1:
			on = on != swing(v)
		case 2:
			on = swing(2 * math.Hypot(u-0.5, v-0.5))
		}
		if on {
			return light
		}
		return dark
	}, noise(random, side, 16, 30), noise(random, side, 4, 40))
}

// paint adds noise to what at returns for each pixel.
func paint(side int, at func(x, y int) float64, noises ...[]float64) *texture {
	t := &texture{side, make([]byte, side*side)}
	for i := range t.levels {
		sum := at(i%side, i/side)
		for _, n := range noises {
			sum += n[i]
		}
		t.levels[i] = byte(min(max(sum, 0), 255))
	}
	return t
}

// noise is random at points so far apart, and in between it is interpolated.
func noise(random *rand.Rand, side, apart int, swing float64) []float64 {
	n := side / apart
	points := make([]float64, n*n)
	for i := range points {
		points[i] = (2*random.Float64() - 1) * swing
	}
	list := make([]float64, 0, side*side)
	for y := range side {
		j, v := y/apart, float64(y%apart)/float64(apart)
		upper, lower := points[j*n:][:n], points[(j+1)%n*n:][:n]
		for x := range side {
			i, u := x/apart, float64(x%apart)/float64(apart)
			k := (i + 1) % n
			list = append(list, (upper[i]*(1-u)+upper[k]*u)*(1-v)+(lower[i]*(1-u)+lower[k]*u)*v)
		}
	}
	return list
}

// spread covers the image with the texture, moved by so many pixels.
func (t *texture) spread(to *image.Gray, dx, dy int) {
	for y := range to.Rect.Dy() {
		line := t.levels[(y+dy)&(t.side-1)*t.side:][:t.side]
		row := to.Pix[y*to.Stride:][:to.Rect.Dx()]
		for from := dx & (t.side - 1); len(row) > 0; from = 0 {
			row = row[copy(row, line[from:]):]
		}
	}
}

// at returns the level at a point of the square from −1 to 1 each way.
func (t *texture) at(u, v float64) byte {
	half := float64(t.side) / 2
	x, y := min(int((u+1)*half), t.side-1), min(int((v+1)*half), t.side-1)
	return t.levels[y*t.side+x]
}
