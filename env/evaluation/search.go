package evaluation

import (
	"errors"
	"math"
	"slices"
	"strconv"
)

// search looks for the best point of one family. A point has a coordinate for
// each axis, in steps of its grid: 1.5 lies half-way between the grid's second
// and third value.
type search struct {
	family *Family
	limit  int // of trials
	play   func(values []float64) (Trial, error)

	trials []Trial
	points [][]float64    // of the trials
	known  map[string]int // trial by policy
}

// The refinement begins from so many of the best coarse points, with a step of
// half the grid's, and halves it until it is below the last.
const (
	starts    = 2
	firstStep = 0.5
	lastStep  = 1. / 16
)

// mostPoints bounds the points that the coarse search looks at for each that it may play: where six limits
// must ascend, only one in some hundreds of points makes a policy.
const mostPoints = 2000

func (s *search) run() error {
	s.known = map[string]int{}
	for _, values := range s.family.Starts {
		if _, err := s.at(s.family.point(values), Coarse); err != nil {
			return err
		}
	}
	if err := s.coarse(); err != nil {
		return err
	}
	if len(s.trials) == 0 {
		return errNoPolicy
	}
	coarse, order := len(s.trials), s.ranking()
	left := s.limit - coarse
	for i := range min(starts, len(order)) {
		if err := s.refine(order[i], coarse+left*(i+1)/starts); err != nil {
			return err
		}
	}
	return nil
}

// ranking lists the trials from the best; equals in the order of their playing.
func (s *search) ranking() []int {
	order := make([]int, len(s.trials))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case s.trials[a].Score > s.trials[b].Score:
			return -1
		case s.trials[a].Score < s.trials[b].Score:
			return 1
		}
		return 0
	})
	return order
}

// at plays the point unless its policy has been. It returns the trial, or −1 if
// the point makes no policy.
func (s *search) at(point []float64, stage string) (int, error) {
	values := make([]float64, len(point))
	for i, x := range point {
		values[i] = s.family.Axes[i].value(x)
	}
	name, _, err := s.family.Make(values)
	if err != nil {
		return -1, nil
	}
	if i, ok := s.known[name]; ok {
		return i, nil
	}
	trial, err := s.play(values)
	if err != nil {
		return -1, err
	}
	trial.Stage = stage
	s.known[name] = len(s.trials)
	s.trials = append(s.trials, trial)
	s.points = append(s.points, slices.Clone(point))
	return len(s.trials) - 1, nil
}

// value interpolates the grid, rounded to four digits: finer than a search can
// tell apart.
func (a *Axis) value(x float64) float64 {
	i := min(int(x), len(a.Grid)-1)
	value := a.Grid[i]
	if share := x - float64(i); share > 0 {
		value += share * (a.Grid[i+1] - a.Grid[i])
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(value, 'g', 4, 64), 64)
	if err != nil {
		return value // not a number: then it is no policy's either
	}
	return rounded
}

// point returns the values in steps of the grids, within their ends.
func (f *Family) point(values []float64) []float64 {
	point := make([]float64, len(values))
	for i, value := range values {
		grid := f.Axes[i].Grid
		k, exact := slices.BinarySearch(grid, value)
		switch {
		case exact, k == 0:
			point[i] = float64(k)
		case k == len(grid):
			point[i] = float64(k - 1)
		default:
			point[i] = float64(k-1) + (value-grid[k-1])/(grid[k]-grid[k-1])
		}
	}
	return point
}

// coarse plays the whole grid if half the trials are enough for it, else as
// many of its points, spread evenly by an additive recurrence: the k-th point is
// the fraction of ½ + k·φ⁻ʲ in the j-th dimension, where φ is the root of
// xᵈ⁺¹ = x + 1 (Roberts' R sequence).
func (s *search) coarse() error {
	ties, of := s.ties()
	size := 1
	for _, axis := range ties {
		size *= len(s.family.Axes[axis].Grid)
	}
	budget := max(1, s.limit/2)
	whole := size <= budget
	phi := root(len(ties))
	for k := 0; len(s.trials) < budget && k < mostPoints*budget; k++ {
		if whole && k == size {
			break
		}
		place, rest := make([]float64, len(ties)), k
		for j, axis := range ties {
			n := len(s.family.Axes[axis].Grid)
			if whole {
				place[j] = float64(rest % n)
				rest /= n
				continue
			}
			_, fraction := math.Modf(0.5 + float64(k)*math.Pow(phi, -float64(j+1)))
			place[j] = math.Floor(fraction * float64(n))
		}
		point := make([]float64, len(s.family.Axes))
		for i := range point {
			point[i] = place[of[i]]
		}
		if _, err := s.at(point, Coarse); err != nil {
			return err
		}
	}
	return nil
}

// ties lists the axes that move on their own in the coarse search, the first
// of each tie, and for each axis which of them it follows.
func (s *search) ties() (axes, of []int) {
	first := map[string]int{}
	for i := range s.family.Axes {
		tie := s.family.Axes[i].Tie
		j, ok := first[tie]
		if tie == "" || !ok {
			j = len(axes)
			axes = append(axes, i)
			first[tie] = j
		}
		of = append(of, j)
	}
	return axes, of
}

// root returns the positive root of xᵈ⁺¹ = x + 1.
func root(d int) float64 {
	x := 2.0
	for range 64 {
		x = math.Pow(1+x, 1/float64(d+1))
	}
	return x
}

// refine moves from a trial along one axis after another, by ever smaller
// steps, as long as that improves the score. After a round that does, it tries
// the whole round's move once more. It plays no more once there are so many
// trials.
func (s *search) refine(from, budget int) error {
	best := from
	direction := slices.Repeat([]float64{1}, len(s.family.Axes))
	for step := firstStep; step >= lastStep; {
		before := best
		for i := range s.family.Axes {
			for range 2 {
				next, err := s.playChanged(best, budget, func(point []float64) { point[i] += direction[i] * step })
				if err != nil {
					return stopped(err)
				}
				if s.better(next, best) {
					best = next
					break
				}
				direction[i] = -direction[i]
			}
		}
		if best == before {
			step /= 2
			continue
		}
		to, start := s.points[best], s.points[before]
		next, err := s.playChanged(best, budget, func(point []float64) {
			for i := range point {
				point[i] += to[i] - start[i]
			}
		})
		if err != nil {
			return stopped(err)
		}
		if s.better(next, best) {
			best = next
		}
	}
	return nil
}

func (s *search) better(a, b int) bool { return a >= 0 && s.trials[a].Score > s.trials[b].Score }

// errSpent ends a refinement whose trials are used up.
var errSpent = errors.New("no trials are left")

func stopped(err error) error {
	if errors.Is(err, errSpent) {
		return nil
	}
	return err
}

// move plays the trial's point after a change, kept within the grid.
func (s *search) playChanged(from, budget int, change func(point []float64)) (int, error) {
	if len(s.trials) >= budget {
		return -1, errSpent
	}
	point := slices.Clone(s.points[from])
	change(point)
	for i := range point {
		point[i] = min(max(point[i], 0), float64(len(s.family.Axes[i].Grid)-1))
	}
	return s.at(point, Refined)
}
