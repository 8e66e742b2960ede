package policy

import (
	"fmt"
	"strconv"
	"strings"
)

// form is how a rule with numbers for parameters is written: its kind, and
// after a colon the numbers, of which the last may be left out.
type form struct {
	kind       string // "slackfit"
	rule       string // for errors, "a slack-fit policy"
	parameters []parameter
}

// parameter is a number in [least, most], or in (least, most] if it is open.
type parameter struct {
	letter, name string
	standard     float64 // if left out
	least, most  float64
	open         bool
	// optional is for one that is not there if left out, and comes last.
	optional bool
	// grid is where a search begins, ascending, between bounds that it keeps.
	grid []float64
}

// usage is the form with its letters, "slackfit:f,k".
func (f *form) usage() string {
	letters := make([]string, len(f.parameters))
	for i := range letters {
		letters[i] = f.parameters[i].letter
	}
	return f.kind + ":" + strings.Join(letters, ",")
}

// parse reads the numbers after the colon and fills in those left out.
func (f *form) parse(list string) ([]float64, error) {
	var values []float64
	if list != "" {
		for word := range strings.SplitSeq(list, ",") {
			value, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
			if err != nil {
				return nil, fmt.Errorf("%q is not a number; want %s", word, f.usage())
			}
			values = append(values, value)
		}
	}
	if len(values) > len(f.parameters) {
		return nil, fmt.Errorf("%d numbers are too many; want %s", len(values), f.usage())
	}
	for _, p := range f.parameters[len(values):] {
		if !p.optional {
			values = append(values, p.standard)
		}
	}
	return values, f.check(values)
}

func (f *form) check(values []float64) error {
	for i, value := range values {
		p := &f.parameters[i]
		if value >= p.least && value <= p.most && !(p.open && value == p.least) {
			continue
		}
		bracket := "["
		if p.open {
			bracket = "("
		}
		return fmt.Errorf("the %s of %s is in %s%v, %v], not %v", p.name, f.rule, bracket, p.least, p.most, value)
	}
	return nil
}

// name is the reference that parses to these values.
func (f *form) name(values []float64) string {
	words := make([]string, len(values))
	for i, value := range values {
		words[i] = strconv.FormatFloat(value, 'g', -1, 64)
	}
	return f.kind + ":" + strings.Join(words, ",")
}
