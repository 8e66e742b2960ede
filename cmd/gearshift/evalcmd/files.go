package evalcmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"gearshift/env"
	"gearshift/env/evaluation"
)

// traceFirstRun makes the plan write its first run to the file. The returned function ends the
// file. Without a file nothing is written.
func traceFirstRun(plan *evaluation.Plan, path string) (finish func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("cannot write trace: %w", err)
	}
	trace := env.NewTrace(f, plan.Contestants[0].Fleet.Table)
	first := evaluation.Run{Contestant: plan.Contestants[0].Name, Workload: plan.Workloads[0].Name, Seed: plan.Seeds[0]}
	var attach sync.Once // a policy or workload may be listed twice
	plan.Observe = func(r evaluation.Run, e *env.Environment) {
		if r == first {
			attach.Do(func() { trace.Attach(e.Simulator()) })
		}
	}
	return func() error { return errors.Join(trace.Close(), f.Close()) }, nil
}

// A writer is a report that [writeReports] writes.
type writer interface {
	Write(w io.Writer, format string) error
}

// makeReports makes the folder of [writeReports]. It is called first, so that an evaluation does
// not fail at its end for want of a folder.
func makeReports(folder string) error {
	if folder == "" {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("cannot make folder for reports: %w", err)
	}
	return nil
}

// writeReports writes a report to a folder, for programs and spreadsheets.
func writeReports(r writer, folder, name string) error {
	if folder == "" {
		return nil
	}
	for _, format := range []string{"json", "csv"} {
		f, err := os.Create(filepath.Join(folder, name+"."+format))
		if err != nil {
			return fmt.Errorf("cannot write report: %w", err)
		}
		if err := errors.Join(r.Write(f, format), f.Close()); err != nil {
			return fmt.Errorf("cannot write report: %w", err)
		}
	}
	return nil
}
