package quality

import "math"

// mostBins is the number of equal parts of the range of predictions.
const mostBins = 10

// Column measures the predictions of one model's scores.
type Column struct {
	Name   string  `json:"name"`
	Labels int     `json:"labels"`
	Mean   float64 `json:"mean"` // score
	// LogLoss is of the predictions, and MeanLoss of predicting the mean for each prompt.
	LogLoss  float64 `json:"log_loss"`
	MeanLoss float64 `json:"mean_log_loss"`
	// Error is the expected calibration error: by how much a prediction differs from the mean
	// score of the prompts that are predicted alike.
	Error float64 `json:"calibration_error"`
	Bins  []Bin   `json:"reliability"`
}

// Bin is the prompts with predictions in a part of the range, with their means.
type Bin struct {
	Count     int     `json:"count"`
	Predicted float64 `json:"predicted"`
	Scored    float64 `json:"scored"`
}

// columns measures how each model's scores are predicted.
func columns(p *Predicted) []Column {
	list := make([]Column, len(p.Columns))
	for c := range list {
		list[c] = column(p, c)
	}
	return list
}

// column measures how one model's scores are predicted.
func column(p *Predicted, at int) Column {
	c := Column{Name: p.Columns[at], Mean: p.mean(at)}
	bins := make([]Bin, mostBins)
	for i, row := range p.Scores {
		y, x := float64(row[at]), p.Held[i][at]
		if y != y {
			continue
		}
		c.Labels++
		c.LogLoss += logLoss(y, x)
		c.MeanLoss += logLoss(y, c.Mean)
		b := &bins[min(mostBins-1, int(x*mostBins))]
		b.Count++
		b.Predicted += x
		b.Scored += y
	}
	n := float64(max(1, c.Labels))
	c.LogLoss, c.MeanLoss = c.LogLoss/n, c.MeanLoss/n
	for _, b := range bins {
		if b.Count == 0 {
			continue
		}
		c.Error += math.Abs(b.Predicted-b.Scored) / n
		b.Predicted, b.Scored = b.Predicted/float64(b.Count), b.Scored/float64(b.Count)
		c.Bins = append(c.Bins, b)
	}
	return c
}

// logLoss returns the cross entropy of a prediction, which is kept off 0 and 1.
func logLoss(score, predicted float64) float64 {
	const least = 1e-6
	x := min(1-least, max(least, predicted))
	return -score*math.Log(x) - (1-score)*math.Log(1-x)
}
