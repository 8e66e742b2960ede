package policy

import (
	"math"
	"slices"
	"strconv"

	"gearshift/router/fleet"
)

// Family is a kind of rule whose parameters a search may look for.
type Family struct {
	Name string // its form, "slackfit:f,k"
	Axes []Axis
	// Make returns the rule of these values, one for each axis.
	Make func(values []float64) (Rule, error)
}

// Axis is one parameter of a [Family].
type Axis struct {
	Name string
	// Grid is where a search begins, ascending, between bounds that it keeps.
	Grid []float64
	// Tie, if set, is shared by axes that take the same value at first.
	Tie string
}

// Families are the rules with parameters, including those that use windows of requests if
// that is asked for. A rule with an optional parameter is two, without it and with it.
func (m *Maker) Families(windows bool) ([]Family, error) {
	predictor, err := m.predictor("a search over rules")
	if err != nil {
		return nil, err
	}
	families := thresholdFamilies(m.Table, predictor.limits(m.Table))
	for _, rule := range numbered {
		if rule.form == &budgetForm && !windows {
			continue
		}
		parameters := rule.form.parameters
		for n := range parameters {
			if last := n == len(parameters)-1; !last && !parameters[n+1].optional {
				continue
			}
			form := *rule.form
			form.parameters = parameters[:n+1]
			families = append(families, Family{
				Name: form.usage(), Axes: form.axes(),
				Make: func(values []float64) (Rule, error) {
					if err := form.check(values); err != nil {
						return nil, err
					}
					return rule.make(m, values)
				},
			})
		}
	}
	return families, nil
}

func (f *form) axes() []Axis {
	axes := make([]Axis, len(f.parameters))
	for i, p := range f.parameters {
		axes[i] = Axis{Name: p.letter, Grid: p.grid}
	}
	return axes
}

// thresholdFamilies are the ladder for all tasks and one for each. There are none where the grid has fewer
// limits than a ladder takes.
func thresholdFamilies(t *fleet.Table, grid []float64) []Family {
	steps := len(t.Variants) - 1
	if steps == 0 || len(grid) < steps {
		return nil
	}
	ladder := Family{Name: "threshold", Make: func(values []float64) (Rule, error) {
		return ruleOf(NewThreshold(t, whole(values)...))
	}}
	each := Family{Name: "task-threshold", Make: func(values []float64) (Rule, error) {
		return ruleOf(NewTaskThreshold(t, slices.Collect(slices.Chunk(whole(values), steps))...))
	}}
	for step := range steps {
		ladder.Axes = append(ladder.Axes, Axis{Name: strconv.Itoa(step + 1), Grid: grid})
	}
	for i := range t.Tasks {
		for _, axis := range ladder.Axes {
			axis.Tie = axis.Name
			axis.Name = t.Tasks[i].Name + " " + axis.Name
			each.Axes = append(each.Axes, axis)
		}
	}
	return []Family{ladder, each}
}

// ruleOf keeps a failed constructor's pointer out of the interface.
func ruleOf[R Rule](r R, err error) (Rule, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

func whole(values []float64) []int {
	limits := make([]int, len(values))
	for i, x := range values {
		limits[i] = int(math.Round(x))
	}
	return limits
}

// limits are the numbers of requests in flight that are worth a try as limits:
// what the whole fleet takes at full batches, half of it, and so on.
func (p *predictor) limits(t *fleet.Table) []float64 {
	var deadline float64
	for i := range t.Tasks {
		deadline = max(deadline, fleet.Milliseconds(t.Tasks[i].Allowed(0)))
	}
	var most float64
	for i := range t.Replicas {
		most += float64(p.full(t, i, deadline, 0))
	}
	var grid []float64
	for x := most; x >= 2; x /= 2 {
		grid = append(grid, math.Round(x))
	}
	if len(grid) == 0 {
		grid = []float64{1}
	}
	slices.Reverse(grid)
	return grid
}
