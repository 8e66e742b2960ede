package fit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// engineOf is an engine in a loop: the device's part of its step, and the rest of it, in ms.
type engineOf struct {
	name         string
	device, rest float64
}

// law is how much busy neighbours slow an engine, by their duties.
type law func(work, waiting float64) float64

// settle is the steps of engines that slow each other by the law, alternately until nothing
// changes: each one's time, its work's share of it and that with its waiting.
func settle(engines []engineOf, by law) (step, work, waiting []float64) {
	n := len(engines)
	step, work, waiting = make([]float64, n), make([]float64, n), make([]float64, n)
	for i, e := range engines {
		step[i] = e.device + e.rest
	}
	for range 200 {
		for i, e := range engines {
			work[i] = e.device / step[i]
			waiting[i] = (step[i] - e.rest) / step[i]
		}
		for i, e := range engines {
			w, q := 0., 0.
			for k := range engines {
				if k != i {
					w, q = w+work[k], q+waiting[k]
				}
			}
			step[i] += 0.2 * (e.device*by(w, q) + e.rest - step[i])
		}
	}
	return step, work, waiting
}

// cellsUnder is what three engines would show beside one and two of the others, at full and
// half duty, under a law and with so much noise.
func cellsUnder(by law, noise float64, seed uint64) []Cell {
	random := rand.New(rand.NewPCG(seed, 1))
	engines := []engineOf{{"small", 0.4, 0.05}, {"medium", 1.6, 0.06}, {"large", 5.5, 0.08}}
	var cells []Cell
	for target, e := range engines {
		for _, load := range []float64{1, 3} { // batches of the target
			for _, duty := range []float64{1, 0.5} {
				for _, others := range [][]int{{(target + 1) % 3}, {(target + 2) % 3}, {(target + 1) % 3, (target + 2) % 3}} {
					e := engineOf{e.name, e.device * load, e.rest}
					set := []engineOf{e}
					for _, o := range others {
						n := engines[o]
						n.rest += n.device * (1/duty - 1)
						set = append(set, n)
					}
					step, work, waiting := settle(set, by)
					c := Cell{Name: fmt.Sprintf("%g beside %v at %g", load, others, duty), Engine: e.name, Alone: e.device + e.rest, Device: e.device}
					for i := range others {
						c.Work, c.Waiting = c.Work+work[1+i], c.Waiting+waiting[1+i]
					}
					c.Beside = step[0] * math.Exp(noise*random.NormFloat64())
					cells = append(cells, c)
				}
			}
		}
	}
	return cells
}

func none(float64, float64) float64      { return 1 }
func slicing(_, waiting float64) float64 { return 1 + waiting }
func linear(gamma float64) law           { return func(work, _ float64) float64 { return 1 + gamma*work } }

// The law that made the cells is named, and γ is found, with and without noise.
func TestTheLawIsNamed(t *testing.T) {
	for _, c := range []struct {
		by    law
		name  string
		gamma float64
	}{
		{none, None, 0}, {slicing, Slicing, 0},
		{linear(0.15), Linear, 0.15}, {linear(0.7), Linear, 0.7}, {linear(1), Linear, 1}, {linear(2), Linear, 2},
	} {
		for _, noise := range []float64{0, 0.01, 0.03} {
			for seed := range uint64(3) {
				v, err := JudgeContention(cellsUnder(c.by, noise, seed), 1)
				if err != nil {
					t.Fatal(err)
				}
				best := v.Best()
				if best.Name != c.name || !v.Fits() || len(v.Undecided) > 0 && c.name != None {
					t.Errorf("%s %g, noise %g, seed %d: found %s (median %.3f), undecided %v", c.name, c.gamma, noise, seed, best.Name, best.Median, v.Undecided)
				}
				if c.gamma > 0 && math.Abs(best.Gamma/c.gamma-1) > 0.01+noise/c.gamma {
					t.Errorf("noise %g: γ %g, want %g", noise, best.Gamma, c.gamma)
				}
				if i := best.Interval; c.gamma > 0 && noise > 0 && (i.Low > best.Gamma || i.High < best.Gamma || i.High > 1.5*i.Low) {
					t.Errorf("γ %g, interval %v", best.Gamma, i)
				}
			}
		}
	}
}

// A linear law without contention is not preferred for its parameter, and says so.
func TestNoneIsNotLinear(t *testing.T) {
	v, err := JudgeContention(cellsUnder(none, 0.02, 1), 1)
	if err != nil {
		t.Fatal(err)
	}
	if v.Best().Name != None || !slices.Contains(v.Undecided, Linear) {
		t.Errorf("%s, undecided %v", v.Best().Name, v.Undecided)
	}
}

// Neighbours that are hardly busy tell laws apart no more than noise does, which is said.
func TestWhatCannotBeToldIsSaid(t *testing.T) {
	cells := cellsUnder(linear(1), 0.05, 1)
	for i := range cells {
		c := &cells[i]
		c.Work, c.Waiting = 0.01*c.Work, 0.01*c.Work
		c.Beside = c.Alone * math.Exp(0.05*math.Sin(float64(7*i)))
	}
	v, err := JudgeContention(cells, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Undecided) != 2 {
		t.Errorf("best %s, undecided %v", v.Best().Name, v.Undecided)
	}
}

// Engines that follow none of the laws fit none of them.
func TestAnotherLawFitsNone(t *testing.T) {
	cells := cellsUnder(none, 0, 1)
	for i := range cells { // some neighbours do nothing, others much
		if cells[i].Work < 0.6 {
			cells[i].Beside = cells[i].Alone
		} else {
			cells[i].Beside = 4 * cells[i].Alone
		}
	}
	v, err := JudgeContention(cells, 1)
	if err != nil {
		t.Fatal(err)
	}
	if v.Fits() {
		t.Errorf("%s fits with a median error of %.2f", v.Best().Name, v.Best().Median)
	}
}

func TestCellsThatCannotBe(t *testing.T) {
	if _, err := JudgeContention(nil, 1); err == nil || !strings.Contains(err.Error(), "0 loads") {
		t.Error(err)
	}
	cells := cellsUnder(none, 0, 1)
	cells[2].Device = 2 * cells[2].Alone
	if _, err := JudgeContention(cells, 1); err == nil || !strings.Contains(err.Error(), cells[2].Name) {
		t.Error(err)
	}
}
