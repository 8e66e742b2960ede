package experience

import (
	"fmt"

	"gearshift/router/fleet"
)

// writtenPrediction is a request's prediction as it is written: lists by variant.
type writtenPrediction struct {
	Quality []float32 `json:"quality"`
	Low     []float32 `json:"low"`
	Sure    float32   `json:"sure"`
	Gains   []float32 `json:"gains,omitempty"` // none: not known
}

// writePrediction returns the prediction for so many variants as it is written, sharing
// memory with it; nil if there is none.
func writePrediction(p *fleet.Prediction, variants int) *writtenPrediction {
	if !p.Known {
		return nil
	}
	w := &writtenPrediction{Quality: p.Quality[:variants], Low: p.Low[:variants], Sure: p.Sure}
	if p.Gains != nil {
		w.Gains = p.Gains[:variants]
	}
	return w
}

// read returns the prediction that was written for so many variants; nil is none.
func (w *writtenPrediction) read(variants int) (p fleet.Prediction, err error) {
	switch {
	case w == nil:
		return p, nil
	case variants > fleet.MostPredicted:
		return p, fmt.Errorf("predicted: the header has %d variants; want %d at most", variants, fleet.MostPredicted)
	case len(w.Quality) != variants || len(w.Low) != variants:
		return p, fmt.Errorf("predicted: %d qualities and %d lower bounds; want one of each for each of %d variants", len(w.Quality), len(w.Low), variants)
	case len(w.Gains) != 0 && len(w.Gains) != variants:
		return p, fmt.Errorf("predicted: %d gains; want none, or one for each of %d variants", len(w.Gains), variants)
	case w.Sure < 0 || w.Sure > 1:
		return p, fmt.Errorf("predicted: sure is %v; want 0 to 1", w.Sure)
	}
	p.Known, p.Sure = true, w.Sure
	copy(p.Quality[:], w.Quality)
	copy(p.Low[:], w.Low)
	if len(w.Gains) > 0 {
		p.Gains = new([fleet.MostPredicted]float32)
		copy(p.Gains[:], w.Gains)
	}
	return p, nil
}
