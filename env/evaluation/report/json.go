package report

import (
	"encoding/json"
	"math"
)

// format marks a report's JSON, and so the folder that a report may overwrite.
const format = "gearshift-report/1"

// document is the report's JSON.
type document struct {
	Format string `json:"format"`
	*Report
}

// number is null in JSON where there is none.
type number float64

// MarshalJSON implements [json.Marshaler].
func (n number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

func numbers(values []float64) []number {
	ns := make([]number, len(values))
	for i, v := range values {
		ns[i] = number(v)
	}
	return ns
}

// MarshalJSON implements [json.Marshaler]: text is a string, a number a number,
// the others objects; null is missing.
func (c Cell) MarshalJSON() ([]byte, error) {
	type bounds struct {
		Lo number `json:"lo"`
		Hi number `json:"hi"`
	}
	between := bounds{number(c.lo), number(c.hi)}
	switch c.kind {
	case KindText:
		return json.Marshal(c.text)
	case KindNumber:
		return json.Marshal(number(c.value))
	case KindInterval:
		return json.Marshal(struct {
			Mean number `json:"mean"`
			bounds
		}{number(c.value), between})
	case KindBeside:
		return json.Marshal(struct {
			Ours number `json:"ours"`
			bounds
			Paper number `json:"paper"`
			Ratio number `json:"ratio"`
		}{number(c.value), between, number(c.paper), number(c.ratio())})
	}
	return []byte("null"), nil
}

// MarshalJSON implements [json.Marshaler]: a gap is null.
func (s Series) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name  string   `json:"name"`
		Style Style    `json:"style"`
		X     []number `json:"x"`
		Y     []number `json:"y,omitempty"`
		Lo    []number `json:"lo,omitempty"`
		Hi    []number `json:"hi,omitempty"`

		Labels []string `json:"labels,omitempty"`
	}{s.Name, s.Style, numbers(s.X), numbers(s.Y), numbers(s.Lo), numbers(s.Hi), s.Labels})
}
