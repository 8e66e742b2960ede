//go:build !serveonly

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"gearshift/rl"
)

// trainingLog shows a run on the terminal and writes its curves to files.
type trainingLog struct {
	stderr   io.Writer
	terminal bool // lines overwrite each other
	open     bool // the last one is not ended
	began    time.Time
	first    int // decisions when it began
	last     int // decisions when it will end
	shown    time.Time

	files       []io.Closer
	csv         *rl.CSVWriter
	tensorboard *rl.TensorBoardWriter
	err         error // the first of a write
}

// newTrainingLog opens the files in folder out, if there is one. A resumed run
// appends to its progress.csv, and to an event file begun in the same second.
func newTrainingLog(out string, stderr io.Writer, resumed bool) (*trainingLog, error) {
	l := &trainingLog{stderr: stderr, terminal: isTerminal(stderr), began: time.Now()}
	if out == "" {
		return l, nil
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make folder for training curves: %w", err)
	}
	mode := os.O_TRUNC
	if resumed {
		mode = os.O_APPEND
	}
	table, err := os.OpenFile(filepath.Join(out, "progress.csv"), os.O_CREATE|os.O_WRONLY|mode, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot write training curves: %w", err)
	}
	events, err := os.OpenFile(filepath.Join(out, rl.EventFileName(l.began)), os.O_CREATE|os.O_WRONLY|mode, 0o644)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot write training curves: %w", err), table.Close())
	}
	l.files = []io.Closer{table, events}
	info, err := table.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot write training curves: %w", err), l.Close())
	}
	l.csv, l.tensorboard = rl.NewCSVWriter(table, info.Size() == 0), rl.NewTensorBoardWriter(events)
	return l, nil
}

// start announces the run, which goes on from an earlier one's progress if that
// is not nil.
func (l *trainingLog) start(r *trainingRun, parameters int, from *rl.Progress) {
	if from != nil {
		l.first = from.Decisions
	}
	l.last = r.config.Decisions
	if r.options.steps > 0 {
		l.last = r.options.steps
	}
	fmt.Fprintf(l.stderr, "training %q on %s, preset %s, seed %d: %d decisions, %d parameters (%s)\n",
		r.options.name, r.scenario.Name, r.options.presetName, r.options.seed, l.last, parameters, trainingStack)
	l.began = time.Now()
}

// report is the training loop's hook.
func (l *trainingLog) report(r rl.Report) {
	now := time.Now()
	elapsed := now.Sub(l.began)
	fps := float64(r.Decisions-l.first) / max(elapsed.Seconds(), 1e-9)
	l.show(r, now, fps)
	if l.csv == nil || l.err != nil {
		return
	}
	t := rl.Timing{Wall: now, Elapsed: elapsed, FPS: fps}
	l.err = errors.Join(l.csv.Write(r, t), l.tensorboard.Write(r, t))
}

// show prints a line: on a terminal over the last one, elsewhere every 10 s.
func (l *trainingLog) show(r rl.Report, now time.Time, fps float64) {
	done := r.Decisions >= l.last
	if !l.terminal && !done && now.Sub(l.shown) < 10*time.Second {
		return
	}
	l.shown = now
	left := "?"
	if fps > 0 {
		left = (time.Duration(float64(l.last-r.Decisions)/fps) * time.Second).Round(time.Second).String()
	}
	line := fmt.Sprintf("%7d/%d  %5.0f steps/s  ε %.2f  utility %.3f  td %.3f", r.Decisions, l.last, fps, r.Epsilon, r.Utility, r.TDError)
	if r.Validations > 0 {
		line += fmt.Sprintf("  validation %.4f (best %.4f)", r.Score, r.BestScore)
	}
	line += "  left " + left
	if !l.terminal {
		fmt.Fprintln(l.stderr, line)
		return
	}
	fmt.Fprintf(l.stderr, "\r\x1b[K%s", line)
	if l.open = !done; done {
		fmt.Fprintln(l.stderr)
	}
}

// Close ends the line of a run that was interrupted, and closes the files; it
// returns the first error of all writes.
func (l *trainingLog) Close() error {
	if l.open {
		fmt.Fprintln(l.stderr)
	}
	errs := []error{l.err}
	for _, f := range l.files {
		errs = append(errs, f.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cannot write training curves: %w", err)
	}
	return nil
}
