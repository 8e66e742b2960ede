package overview

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gearshift/router"
	"gearshift/router/conformance"
	"gearshift/router/fleet"
)

// TestHeadersAreBounded: of an explanation that is too long for a header the last alternatives
// are left out, and counted; one that cannot be made short enough is empty.
func TestHeadersAreBounded(t *testing.T) {
	e := &Explanation{}
	for i := range 200 {
		e.Alternatives = append(e.Alternatives, Alternative{Variant: fmt.Sprintf("größe-%d", i)})
	}
	line := e.Header()
	var read Explanation
	if err := json.Unmarshal([]byte(line), &read); err != nil || len(line) > maxExplanation {
		t.Fatalf("%d bytes, %v", len(line), err)
	}
	n := len(read.Alternatives)
	if n == 0 || n+read.Omitted != 200 || read.Alternatives[0].Variant != "größe-0" {
		t.Errorf("%d alternatives from %+v, %d omitted", n, read.Alternatives[0], read.Omitted)
	}
	if strings.ContainsFunc(line, func(r rune) bool { return r > '~' }) {
		t.Error("it is not ASCII")
	}
	if len(e.Alternatives) != 200 || e.Omitted != 0 {
		t.Error("the explanation itself has changed")
	}
	e.Alternatives = []Alternative{{Variant: strings.Repeat("x", maxExplanation)}}
	if line := e.Header(); !strings.Contains(line, `"omitted":1`) {
		t.Errorf("without room for any: %.80s", line)
	}
}

// TestASCII: what JSON may escape reads the same afterwards, beyond the first plane too.
func TestASCII(t *testing.T) {
	const text = "a ö € 🙂"
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	line := ASCII(quoted)
	var back string
	if err := json.Unmarshal([]byte(line), &back); err != nil || back != text || line != `"a \u00f6 \u20ac \ud83d\ude42"` {
		t.Errorf("%s reads as %q, %v", line, back, err)
	}
}

// An explanation shows what was predicted of each alternative next to the task's row, and
// what the alternative would have been worth by that; without a prediction, by the task's.
func TestPredictionsAreExplained(t *testing.T) {
	table := conformance.Fleet(0)
	ledger := fleet.NewLedger(table)
	var v fleet.View
	ledger.View(0, &v)
	for _, replica := range table.Replicas {
		v.Forecasts = append(v.Forecasts, fleet.Forecast{Pace: []float64{0.25, 0.5, 2}[replica.Variant]})
	}
	explained := func(p fleet.Prediction) string {
		o := Explain(fleet.Request{Task: 1, Predicted: p}, ledger) // copa: 0.80, 0.95, 1
		o.Observe(&v, router.Choice{Policy: "test"})
		var line strings.Builder
		if o.Explanation.Sure != nil {
			fmt.Fprintf(&line, "sure %v", *o.Explanation.Sure)
		}
		for _, a := range o.Explanation.Alternatives {
			fmt.Fprintf(&line, "; %v", a.Quality)
			for _, x := range []*float64{a.Predicted, a.Assured, a.Expected} {
				if x != nil {
					fmt.Fprintf(&line, " %v", *x)
				}
			}
		}
		return line.String()
	}
	p := fleet.Prediction{Known: true, Sure: 0.75}
	copy(p.Quality[:], []float32{0.5, 0.25, 1})
	copy(p.Low[:], []float32{0.25, 0, 0.5})
	if got, want := explained(p), "sure 0.75; 0.8 0.5 0.25 0.5; 0.95 0.25 0 0.25; 1 1 0.5 0"; got != want {
		t.Errorf("with a prediction: %s, want %s", got, want)
	}
	if got, want := explained(fleet.Prediction{}), "; 0.8 0.8; 0.95 0.95; 1 0"; got != want {
		t.Errorf("without: %s, want %s", got, want)
	}
}
