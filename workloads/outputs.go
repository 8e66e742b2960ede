package workloads

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
)

// Outputs is output lengths that replace those of a scenario: Factor
// times as long, max included, or of another distribution, cut where the
// declared ones are. The zero value leaves them.
type Outputs struct {
	Factor  float64
	Lengths Lengths
}

// parseOutputs reads "x2", "lognormal,256,1.2" and the like: the distribution
// with its keys in the order of [Lengths], without max.
func parseOutputs(text string) (Outputs, error) {
	if strings.HasPrefix(text, "x") {
		factor, err := parseFactor(text)
		return Outputs{Factor: factor}, err
	}
	words := strings.Split(text, ",")
	l := Lengths{Distribution: words[0]}
	var given []float64
	for _, word := range words[1:] {
		x, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return Outputs{}, fmt.Errorf("%q is not a number of output tokens", word)
		}
		given = append(given, x)
	}
	if want := len(distributions[l.Distribution]) - optionalKeys(l.Distribution); len(given) != want {
		return Outputs{}, fmt.Errorf("outputs %q: want xFACTOR, constant,VALUE, uniform,MIN,MAX, geometric,MEAN or lognormal,MEAN,CV", text)
	}
	whole := true
	tokens := func(x float64) int {
		whole = whole && x == math.Trunc(x) && x <= MaxTokens
		return int(min(x, MaxTokens))
	}
	switch l.Distribution {
	case "constant":
		l.Value = tokens(given[0])
	case "uniform":
		l.Min, l.Max = tokens(given[0]), tokens(given[1])
	case "geometric":
		l.Mean = given[0]
	case "lognormal":
		l.Mean, l.CV = given[0], given[1]
	}
	err := l.Validate()
	if !whole {
		err = errors.New("tokens are whole numbers")
	}
	if err != nil {
		return Outputs{}, fmt.Errorf("outputs %q: %s", text, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return Outputs{Lengths: l}, nil
}

// optionalKeys of a distribution are those that the suffix leaves out: the max
// of those that need none.
func optionalKeys(distribution string) int {
	if distribution == "geometric" || distribution == "lognormal" {
		return 1
	}
	return 0
}

// String returns the lengths as parseOutputs reads them.
func (o Outputs) String() string {
	l := o.Lengths
	switch l.Distribution {
	case "constant":
		return fmt.Sprintf("constant,%d", l.Value)
	case "uniform":
		return fmt.Sprintf("uniform,%d,%d", l.Min, l.Max)
	case "geometric":
		return "geometric," + number(l.Mean)
	case "lognormal":
		return "lognormal," + number(l.Mean) + "," + number(l.CV)
	default:
		return "x" + number(o.Factor)
	}
}

// shape returns a shape with these outputs: a distribution is that of all tasks.
func (o Outputs) shape(declared Shape, room int) (Shape, error) {
	s := declared
	var err error
	if s.Output, err = o.of(declared.Output, room); err != nil || len(declared.Tasks) == 0 {
		return s, err
	}
	s.Tasks = maps.Clone(declared.Tasks)
	for task, own := range declared.Tasks {
		switch {
		case own.Output.Distribution == "none": // has none, however long those of others are
		case o.Lengths.given():
			own.Output = Lengths{}
		case own.Output.given():
			if own.Output, err = o.of(own.Output, room); err != nil {
				return s, fmt.Errorf("of task %s: %w", task, err)
			}
		}
		if s.Tasks[task] = own; own == (TaskLengths{}) {
			delete(s.Tasks, task)
		}
	}
	return s, nil
}

// of returns the lengths that replace the declared ones. room is what fits next to the
// longest prompt (0: anything); the declared ones fit in any case.
func (o Outputs) of(declared Lengths, room int) (Lengths, error) {
	l := o.Lengths
	switch {
	case o == (Outputs{}):
		return declared, nil
	case o.Factor > 0:
		l = declared.times(o.Factor)
	case optionalKeys(l.Distribution) > 0:
		l.Max = declared.Max
	}
	// Those that replace constant ones have no max; those longer than lengths that reach
	// as far as fits reach no further.
	if l.Unbounded() || o.Factor > 0 && optionalKeys(l.Distribution) > 0 && declared.Max == room {
		l.Max = room
	}
	if most := max(room, declared.Longest()); room > 0 && l.Longest() > most {
		return l, fmt.Errorf("outputs of up to %d tokens; at most %d are sure to fit", l.Longest(), most)
	}
	return l, l.Validate()
}

// times is lengths so many times as long.
func (l Lengths) times(factor float64) Lengths {
	tokens := func(n int) int { return int(math.Round(min(float64(n)*factor, MaxTokens))) }
	l.Mean *= factor
	l.Value, l.Min, l.Max = tokens(l.Value), tokens(l.Min), tokens(l.Max)
	return l
}
