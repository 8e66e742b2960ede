package modality

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// TestTableIsReadAsWritten: drawn tables of either mixing come back equal, and of no other
// options.
func TestTableIsReadAsWritten(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 49))
	for range 20 {
		var options []Option
		for i := range 1 + rng.IntN(5) {
			o := Option{Name: string(rune('a' + i)), Quality: rng.Float64()}
			at := 0.0
			for range 1 + rng.IntN(8) {
				at += rng.Float64()
				o.Latency = append(o.Latency, at)
			}
			options = append(options, o)
		}
		mixing := []Mixing{Mixed, Uniform}[rng.IntN(2)]
		size := 0
		for i := range options {
			size = max(size, len(options[i].Latency))
		}
		made, err := NewTable(options, mixing, size)
		if err != nil {
			t.Fatal(err)
		}
		data := made.Append(nil)
		read, err := ReadTable(data, options, mixing, size)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(read.fronts, made.fronts) || !reflect.DeepEqual(read.Batches(size, 0, nil), made.Batches(size, 0, nil)) {
			t.Errorf("%v: another table", options)
		}
		other := slices.Clone(options)
		other[0].Latency = slices.Clone(other[0].Latency)
		other[0].Latency[0] *= 1.5
		if Fingerprint(other, mixing, size) == Fingerprint(options, mixing, size) {
			t.Error("another time has the same fingerprint")
		}
		if _, err := ReadTable(data, other, mixing, size); err == nil {
			t.Errorf("%v: a table of other times was read", options)
		}
	}
}

// FuzzReadTable: no bytes bring it down.
func FuzzReadTable(f *testing.F) {
	options := []Option{{"a", 0.5, []float64{1, 2}}, {"b", 0.75, []float64{2, 3}}}
	made, err := NewTable(options, Mixed, 2)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(made.Append(nil))
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		if read, err := ReadTable(data, options, Mixed, 2); err == nil {
			for n := 1; n <= 2; n++ {
				for i := range read.Front(n) {
					read.Batches(n, i, nil)
				}
			}
		}
	})
}
