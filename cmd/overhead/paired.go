package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"gearshift/env/evaluation"
)

// paired prints by how much the results of one file exceed those of another, round by round: the interquartile mean
// with its 95 % interval. What a round has in common, such as what else the machine does, drops out, which it does not
// in benchstat's comparison of medians.
func paired(w io.Writer, before, after string) error {
	was, err := results(before)
	if err != nil {
		return err
	}
	is, err := results(after)
	if err != nil {
		return err
	}
	for _, name := range is.names {
		a, b := was.values[name], is.values[name]
		if len(a) != len(b) {
			return fmt.Errorf("%s: %d rounds before and %d after", name, len(a), len(b))
		}
		ratios := make([]float64, len(a))
		for i := range a {
			ratios[i] = math.NaN() // a difference to another target may lie below zero
			if a[i] > 0 && b[i] > 0 {
				ratios[i] = math.Log(b[i] / a[i])
			}
		}
		x := evaluation.InterquartileMean(ratios)
		percent := func(x float64) float64 { return 100 * (math.Exp(x) - 1) }
		if _, err := fmt.Fprintf(w, "%-36s %+6.1f %% (%+.1f to %+.1f)\n", name, percent(x.Mean), percent(x.Lo), percent(x.Hi)); err != nil {
			return err
		}
	}
	return nil
}

// measured are the results of benchmarks, by name and unit in their order.
type measured struct {
	names  []string
	values map[string][]float64
}

// results reads benchmarks of Go.
func results(path string) (*measured, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m := &measured{values: map[string][]float64{}}
	for s := bufio.NewScanner(f); ; {
		if !s.Scan() {
			return m, s.Err()
		}
		fields := strings.Fields(s.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		for i := 2; i+1 < len(fields); i += 2 {
			x, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %q: %w", path, s.Text(), err)
			}
			name := strings.TrimPrefix(fields[0], "Benchmark") + " " + fields[i+1]
			if !slices.Contains(m.names, name) {
				m.names = append(m.names, name)
			}
			m.values[name] = append(m.values[name], x)
		}
	}
}
