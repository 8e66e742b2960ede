package rl

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// Timing is when a report is made, by the caller's clock.
type Timing struct {
	Wall    time.Time
	Elapsed time.Duration // since training began or was resumed
	FPS     float64       // decisions per second
}

// metric is one named number of a report. Absent ones have no value yet.
type metric struct {
	name   string
	value  float64
	absent bool
}

// metrics names a report's numbers as stable-baselines3 does, whose plots then
// fit. rollout/ep_rew_mean is the mean utility per completed request: episodes
// here are cut at arbitrary points, so their sums mean nothing.
func (r *Report) metrics(fps float64) []metric {
	untrained := r.GradientSteps == 0
	return []metric{
		{"rollout/ep_rew_mean", r.Utility, false},
		{"rollout/exploration_rate", r.Epsilon, false},
		{"time/fps", fps, false},
		{"train/loss", r.Loss, untrained},
		{"train/td_error", r.TDError, untrained},
		{"train/learning_rate", r.LearningRate, false},
		{"train/n_updates", float64(r.GradientSteps), false},
		{"eval/mean_reward", r.Score, r.Validations == 0},
	}
}

// CSVWriter writes reports as stable-baselines3's progress.csv does: a row each,
// a value that does not exist yet as an empty cell.
type CSVWriter struct {
	w      io.Writer
	header bool // still to be written
}

// NewCSVWriter writes to w, which may be unbuffered: each row is one write. The
// header is left out when w already has rows.
func NewCSVWriter(w io.Writer, header bool) *CSVWriter { return &CSVWriter{w: w, header: header} }

// Write writes one row.
func (c *CSVWriter) Write(r Report, t Timing) error {
	var row strings.Builder
	metrics := r.metrics(t.FPS)
	if c.header {
		row.WriteString("time/total_timesteps,time/time_elapsed")
		for _, m := range metrics {
			row.WriteString("," + m.name)
		}
		row.WriteByte('\n')
	}
	fmt.Fprintf(&row, "%d,%s", r.Decisions, decimal(t.Elapsed.Seconds()))
	for _, m := range metrics {
		row.WriteByte(',')
		if !m.absent {
			row.WriteString(decimal(m.value))
		}
	}
	row.WriteByte('\n')
	if _, err := io.WriteString(c.w, row.String()); err != nil {
		return fmt.Errorf("cannot write training log: %w", err)
	}
	c.header = false
	return nil
}

// decimal is the shortest text that reads back as v, or as its float32 where v
// is an average that means no more.
func decimal(v float64) string {
	if v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 32)
}
