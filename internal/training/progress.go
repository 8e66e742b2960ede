package training

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"gearshift/internal/output"
	"gearshift/rl"
)

// runLog shows a run on the terminal and writes its curves to files.
type runLog struct {
	stderr   io.Writer
	terminal bool // lines overwrite each other
	open     bool // the last one is not ended
	began    time.Time
	first    int // decisions when it began
	last     int // decisions when it will end
	shown    time.Time
	reward   string // what the mean of the rewards is called

	mu     sync.Mutex // members report at the same time
	latest []rl.Report
	curves []*curves // of each member; none if nothing is to be written
}

// newRunLog opens the files in the run's folder, if it has one: those of the
// first member there, of each other in a folder below.
func newRunLog(r *run, stderr io.Writer) (*runLog, error) {
	l := &runLog{stderr: stderr, terminal: output.IsTerminal(stderr), reward: "utility", latest: make([]rl.Report, len(r.members))}
	if r.meta.Objective != "" {
		l.reward = "reward"
	}
	for _, m := range r.members {
		out := r.options.Out
		if out == "" {
			continue
		}
		if m.number > 0 {
			out = filepath.Join(out, fmt.Sprintf("member-%d", m.number+1))
		}
		c, err := newCurves(out, m.progress)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.curves = append(l.curves, c)
	}
	return l, nil
}

// curves are the files of one member.
type curves struct {
	files       []io.Closer
	csv         *rl.CSVWriter
	tensorboard *rl.TensorBoardWriter
	err         error // the first of a write
}

// newCurves opens the files in a folder. A resumed run appends to its
// progress.csv, and to an event file begun in the same second.
func newCurves(out string, resumed *rl.Progress) (*curves, error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make folder for training curves: %w", err)
	}
	path, mode := filepath.Join(out, "progress.csv"), os.O_TRUNC
	if resumed != nil {
		mode = os.O_APPEND
		if err := cutRows(path, resumed.Decisions); err != nil {
			return nil, fmt.Errorf("cannot write training curves: %w", err)
		}
	}
	table, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|mode, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot write training curves: %w", err)
	}
	events, err := os.OpenFile(filepath.Join(out, rl.EventFileName(time.Now())), os.O_CREATE|os.O_WRONLY|mode, 0o644)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot write training curves: %w", err), table.Close())
	}
	c := &curves{files: []io.Closer{table, events}}
	info, err := table.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot write training curves: %w", err), c.close())
	}
	c.csv, c.tensorboard = rl.NewCSVWriter(table, info.Size() == 0), rl.NewTensorBoardWriter(events)
	return c, nil
}

// cutRows removes from a table, if there is one, the rows of decisions to come. A run
// that was killed wrote them after its last save, the last perhaps in part.
func cutRows(path string, decisions int) error {
	text, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	kept := 0
	for line := range bytes.Lines(text) {
		first, _, _ := bytes.Cut(line, []byte(","))
		n, err := strconv.Atoi(string(first))
		if header := kept == 0; !header && (err != nil || n > decisions) || !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		kept += len(line)
	}
	if kept == len(text) {
		return nil
	}
	return output.Install(path, text[:kept], true)
}

func (c *curves) close() error {
	errs := []error{c.err}
	for _, f := range c.files {
		errs = append(errs, f.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cannot write training curves: %w", err)
	}
	return nil
}

// start announces the run.
func (l *runLog) start(r *run) {
	for i, m := range r.members {
		if p := m.progress; p != nil { // one at its end reports no more
			l.latest[i] = rl.Report{
				Decisions: p.Decisions, Epsilon: r.config.Epsilon.At(p.Decisions, r.config.Decisions),
				Utility: p.Utility.Mean, TDError: p.TDError.Mean,
				Validations: p.Validations, Score: p.Score, BestScore: p.BestScore,
			}
		}
	}
	l.first = l.together().Decisions
	l.last = r.last()
	of := ""
	if n := len(r.members); n > 1 {
		of = fmt.Sprintf(" of each of %d networks", n)
	}
	fmt.Fprintf(l.stderr, "training %q on %s, preset %s, seed %d%s, into %s: %d decisions%s (%s)\n",
		r.options.Name, r.scenario.Name, r.options.Preset, r.options.Seed, r.goal(), r.options.Store, l.last, of, Stack)
	if r.traffic != nil {
		fmt.Fprintln(l.stderr, "on", r.traffic)
	}
	l.began = time.Now()
}

// report returns the training loop's hook.
func (l *runLog) report(member int, r rl.Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	elapsed := now.Sub(l.began)
	l.latest[member] = r
	together := l.together()
	fps := float64(together.Decisions-l.first) / max(elapsed.Seconds(), 1e-9)
	l.show(together, now, fps)
	if len(l.curves) == 0 || l.curves[member].err != nil {
		return
	}
	c, t := l.curves[member], rl.Timing{Wall: now, Elapsed: elapsed, FPS: fps}
	c.err = errors.Join(c.csv.Write(r, t), c.tensorboard.Write(r, t))
}

// together returns how the members go: as far as the slowest, as well as all in the
// mean.
func (l *runLog) together() rl.Report {
	all := slices.MinFunc(l.latest, func(a, b rl.Report) int { return a.Decisions - b.Decisions })
	n := float64(len(l.latest))
	all.Utility, all.TDError, all.Score, all.BestScore = 0, 0, 0, 0
	for _, r := range l.latest {
		all.Validations = min(all.Validations, r.Validations)
		all.Utility += r.Utility / n
		all.TDError += r.TDError / n
		all.Score += r.Score / n
		all.BestScore += r.BestScore / n
	}
	return all
}

// show prints a line: on a terminal over the last one, elsewhere every 10 s; none
// before all members have gone on.
func (l *runLog) show(r rl.Report, now time.Time, fps float64) {
	done := r.Decisions >= l.last
	if r.Decisions == l.first && !done {
		return
	}
	if !l.terminal && !done && now.Sub(l.shown) < 10*time.Second {
		return
	}
	l.shown = now
	left := "?"
	if fps > 0 {
		left = (time.Duration(float64(l.last-r.Decisions)/fps) * time.Second).Round(time.Second).String()
	}
	line := fmt.Sprintf("%7d/%d  %5.0f steps/s  ε %.2f  %s %.3f  td %.3f", r.Decisions, l.last, fps, r.Epsilon, l.reward, r.Utility, r.TDError)
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
func (l *runLog) Close() error {
	if l.open {
		fmt.Fprintln(l.stderr)
	}
	var errs []error
	for _, c := range l.curves {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}
