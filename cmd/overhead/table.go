//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newTableCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "table",
		Short: "Turn the lines of measure into Markdown tables",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			t := table{cells: map[cell]measurement{}}
			if err := t.read(c.InOrStdin()); err != nil {
				return err
			}
			t.write(c.OutOrStdout())
			return nil
		},
	}
}

// cell is where a measurement belongs.
type cell struct {
	round        int
	target, kind string
	bytes        int
}

type table struct {
	cells   map[cell]measurement
	rounds  int
	sizes   []int
	targets []string
}

func (t *table) read(in io.Reader) error {
	seen := map[string]bool{}
	for d := json.NewDecoder(in); ; {
		var m measurement
		if err := d.Decode(&m); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("cannot read measurements: %w", err)
		}
		t.cells[cell{m.Round, m.Target, m.Kind, m.Bytes}] = m
		t.rounds = max(t.rounds, m.Round+1)
		if !slices.Contains(t.sizes, m.Bytes) {
			t.sizes = append(t.sizes, m.Bytes)
		}
		seen[m.Target] = true
	}
	if len(seen) == 0 {
		return errors.New("there are no measurements")
	}
	slices.Sort(t.sizes)
	for _, name := range []string{"nginx", present, before, "gearshift-rule", "bare", "portkey"} { // in the order of the rows
		if seen[name] {
			t.targets = append(t.targets, name)
		}
	}
	return nil
}

// figure is what is read off the measurements of one target, in one round.
type figure func(round int, target string) (value float64, ok bool)

// of is a figure of one kind and size.
func (t *table) of(kind string, bytes int, value func(measurement) float64) figure {
	return func(round int, target string) (float64, bool) {
		m, ok := t.cells[cell{round, target, kind, bytes}]
		if !ok {
			return 0, false
		}
		return value(m), true
	}
}

// added is a figure less that of the way without a proxy.
func added(f figure) figure {
	return func(round int, target string) (float64, bool) {
		with, ok := f(round, target)
		without, also := f(round, direct)
		return with - without, ok && also
	}
}

// against is a figure as a multiple of another target's in the same round.
func against(other string, f figure) figure {
	return func(round int, target string) (float64, bool) {
		ours, ok := f(round, target)
		theirs, also := f(round, other)
		return ours / theirs, ok && also && theirs > 0
	}
}

// spread is the median over the rounds, with the least and the most.
func (t *table) spread(f figure, target, format string) string {
	var list []float64
	for round := range t.rounds {
		if value, ok := f(round, target); ok {
			list = append(list, value)
		}
	}
	if len(list) == 0 {
		return "–"
	}
	slices.Sort(list)
	n := len(list)
	return fmt.Sprintf(strings.ReplaceAll("X (X–X)", "X", format), (list[(n-1)/2]+list[n/2])/2, list[0], list[n-1])
}

func (m measurement) p50us() float64 { return m.P50 / 1e3 }
func (m measurement) p99ms() float64 { return m.P99 / 1e6 }

func (t *table) write(out io.Writer) {
	t.pace(out)
	t.lost(out)
	fmt.Fprintln(out)
	t.section(out, "Added to the median with one client, µs", true, func(size int) (figure, string) {
		return added(t.of(kindLatency, size, measurement.p50us)), "%.0f"
	})
	t.section(out, "Answers a second with 32 clients", true, func(size int) (figure, string) {
		return t.of(kindThroughput, size, func(m measurement) float64 { return m.Rate }), "%.0f"
	})
	t.section(out, "Processor time of a request with 32 clients, µs", true, func(size int) (figure, string) {
		return t.of(kindThroughput, size, func(m measurement) float64 { return m.CPU / 1e3 }), "%.0f"
	})
	t.section(out, "p99 at 70 % of its own most, ms", false, func(size int) (figure, string) {
		return t.of(kindOpen, size, measurement.p99ms), "%.2f"
	})
	t.streams(out)
	t.differences(out)
}

// pace says how far others slowed the cores, where that was watched.
func (t *table) pace(out io.Writer) {
	again, slowed, watched := 0, 0, false
	for _, m := range t.cells {
		watched = watched || m.Watched
		if m.Tries > 1 {
			again++
		}
		if m.Slowed > mostSlow {
			slowed++
		}
	}
	if watched {
		fmt.Fprintf(out, "- pace of the cores: of %d measurements %d were taken again because others slowed a core meanwhile, and %d stand that were slowed for more than %.0f %% of their time\n",
			len(t.cells), again, slowed, 100*mostSlow)
	}
}

// lost says who left requests without an answer.
func (t *table) lost(out io.Writer) {
	for _, target := range t.targets {
		n := 0
		for c, m := range t.cells {
			if c.target == target {
				n += m.Lost
			}
		}
		if n > 0 {
			fmt.Fprintf(out, "- %s left requests without an answer for %v in %d measurements, which were taken again\n", target, answerWithin, n)
		}
	}
}

// section is a table with the sizes as columns, and beside each figure how it
// stands to nginx.
func (t *table) section(out io.Writer, title string, ratio bool, f func(size int) (figure, string)) {
	fmt.Fprintf(out, "## %s\n\n|  |", title)
	for _, size := range t.sizes {
		fmt.Fprintf(out, " %d KB |", size>>10)
		if ratio {
			fmt.Fprint(out, " × nginx | × Portkey |")
		}
	}
	columns := len(t.sizes)
	if ratio {
		columns *= 3
	}
	fmt.Fprintf(out, "\n|%s\n", strings.Repeat("---|", 1+columns))
	for _, target := range t.targets {
		fmt.Fprintf(out, "| %s |", target)
		for _, size := range t.sizes {
			value, format := f(size)
			fmt.Fprintf(out, " %s |", t.spread(value, target, format))
			if ratio {
				fmt.Fprintf(out, " %s | %s |", t.ratio("nginx", value, target), t.ratio("portkey", value, target))
			}
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out)
}

func (t *table) ratio(other string, f figure, target string) string {
	if other == target {
		return "1"
	}
	return t.spread(against(other, f), target, "%.2f")
}

func (t *table) streams(out io.Writer) {
	fmt.Fprintf(out, "## Streams of %d events, one each %v\n\n", streamEvents, streamGap.Round(time.Microsecond))
	fmt.Fprint(out, "|  | added to the first event, µs | gaps stretched or shrunk by, µs: median | p99 |\n|---|---|---|---|\n")
	size := t.sizes[0]
	first := added(t.of(kindStream, size, measurement.p50us))
	p50 := t.of(kindStream, size, func(m measurement) float64 { return m.GapP50 / 1e3 })
	p99 := t.of(kindStream, size, func(m measurement) float64 { return m.GapP99 / 1e3 })
	for _, target := range append([]string{direct}, t.targets...) {
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", target, t.spread(first, target, "%.0f"), t.spread(p50, target, "%.0f"), t.spread(p99, target, "%.0f"))
	}
}
