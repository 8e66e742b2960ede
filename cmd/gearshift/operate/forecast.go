package operate

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
	"gearshift/router/placement/replicas"
)

// replicaForecast is the flags of the command that counts replicas ahead.
type replicaForecast struct {
	history  string
	capacity float64
	warmUp   time.Duration
	target   float64
	quantile float64
	format   cli.Format
}

func newReplicaForecast() *cobra.Command {
	var o replicaForecast
	c := &cobra.Command{
		Use: "forecast --history FILE.csv --capacity RATE", Short: "Count the replicas that a model needs in the next two hours, from its load so far",
		Long: `Reads a model's load so far, and prints what load to expect in the next two hours and how many
replicas it needs. The file has lines of a time in seconds and a rate per second, the earliest
first and evenly spaced, at most 10 minutes apart; a first line without numbers is skipped. A
day of it or more has the load of each time expected from the days before; with less, the load
that there is now.

The margin is by how much loads exceeded what was expected a warm-up before, in all but a share
1 - quantile of the last day. For a new version of a model, give the history of the old one and
the capacity of a replica of the new.`,
		Example: "  gearshift replica forecast --history load.csv --capacity 25 --warmup 10m",
		Args:    cli.None,
		RunE:    func(c *cobra.Command, _ []string) error { return o.run(c) },
	}
	f := c.Flags()
	f.StringVar(&o.history, "history", "", "`file` with the load so far; - is standard input")
	f.Float64Var(&o.capacity, "capacity", 0, "what a replica answers in a second, in the unit of the history")
	f.DurationVar(&o.warmUp, "warmup", 5*time.Minute, "how long a replica takes from its start until it answers")
	f.Float64Var(&o.target, "target", 0.8, "the utilisation to plan for")
	f.Float64Var(&o.quantile, "quantile", 0.95, "the share of time in which the load may not exceed the margin")
	_ = c.MarkFlagRequired("history")
	_ = c.MarkFlagRequired("capacity")
	o.format.Flag(c, "text")
	return c
}

// neededAt is one line of the output.
type neededAt struct {
	InS      float64 `json:"in_s"`
	Expected float64 `json:"expected_per_s"`
	Margin   float64 `json:"with_margin_per_s"`
	Replicas int     `json:"replicas"`
}

func (o *replicaForecast) run(c *cobra.Command) error {
	asJSON, err := o.format.JSON()
	if err != nil {
		return err
	}
	in := c.InOrStdin()
	if o.history != "-" {
		file, err := os.Open(o.history)
		if err != nil {
			return fmt.Errorf("cannot read the history: %w", err)
		}
		defer file.Close()
		in = file
	}
	interval, rates, err := readHistory(in)
	if err != nil {
		return fmt.Errorf("cannot read the history: %s: %w", o.history, err)
	}
	planner, err := replicas.NewPlanner(o.plan(interval))
	if err != nil {
		return err
	}
	planner.Learn(rates)
	var list []neededAt
	for ahead := 1; time.Duration(ahead)*interval <= replicas.Horizon; ahead++ {
		expected := planner.Expect(ahead)
		list = append(list, neededAt{(time.Duration(ahead) * interval).Seconds(), expected, expected * planner.Margin(), planner.Needed(ahead)})
	}
	if asJSON {
		return output.JSON(c.OutOrStdout(), list)
	}
	if err := writeNeeded(c.OutOrStdout(), interval, list); err != nil {
		return err
	}
	judged := "last day"
	if time.Duration(len(rates))*interval < 24*time.Hour {
		judged = "history"
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "\nWith margin: %.3f times the expected rate, which covered %.0f %% of the %s with a warm-up of %v.\nReplicas: the rate with margin divided by %g (a capacity of %g at a utilisation of %g), rounded up; at least 1.\n",
		planner.Margin(), 100*o.quantile, judged, o.warmUp, o.capacity*o.target, o.capacity, o.target)
	return err
}

// plan returns how replicas are counted.
func (o *replicaForecast) plan(interval time.Duration) replicas.Plan {
	return replicas.Plan{
		Forecast: replicas.Daily(interval),
		Interval: interval, Capacity: o.capacity, WarmUp: o.warmUp, Target: o.target, Quantile: o.quantile, Guard: o.target, Least: 1,
	}
}

// step is how far apart the lines for people are at least.
const step = 10 * time.Minute

func writeNeeded(w io.Writer, interval time.Duration, list []neededAt) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "IN\tEXPECTED/S\tWITH MARGIN/S\tREPLICAS\t")
	each := max(1, int(step/interval))
	for i := each - 1; i < len(list); i += each {
		// What is needed until then, since the line before.
		most := list[i]
		for _, x := range list[i+1-each : i] {
			if x.Replicas > most.Replicas {
				most.Expected, most.Margin, most.Replicas = x.Expected, x.Margin, x.Replicas
			}
		}
		fmt.Fprintf(t, "%v\t%.1f\t%.1f\t%d\t\n", time.Duration(list[i].InS)*time.Second, most.Expected, most.Margin, most.Replicas)
	}
	return t.Flush()
}

// readHistory reads times and rates, and how far apart they are.
func readHistory(r io.Reader) (interval time.Duration, rates []float64, err error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord, in.Comment = 2, '#'
	var times []float64
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, nil, err
		}
		line, _ := in.FieldPos(0)
		at, e1 := strconv.ParseFloat(record[0], 64)
		rate, e2 := strconv.ParseFloat(record[1], 64)
		if e1 != nil && e2 != nil && len(times) == 0 && line == 1 {
			continue // the names of the columns
		}
		if e1 != nil || e2 != nil || !(rate >= 0) || rate > 1e12 {
			return 0, nil, fmt.Errorf("line %d: want a time in seconds and a rate from 0 to 10^12 per second, found %q", line, record)
		}
		if n := len(times); n >= 2 {
			if first, now := times[1]-times[0], at-times[n-1]; !(now > 0.99*first && now < 1.01*first) {
				return 0, nil, fmt.Errorf("line %d: %v s after the line before; want %v as between the first two", line, now, first)
			}
		}
		times, rates = append(times, at), append(rates, rate)
	}
	if len(rates) < 2 {
		return 0, nil, fmt.Errorf("%d rates; want at least 2", len(rates))
	}
	first := times[1] - times[0]
	if !(first >= 1 && first <= 600) {
		return 0, nil, fmt.Errorf("rates are %v s apart; want 1 s to 10 minutes", first)
	}
	return time.Duration(first * float64(time.Second)).Round(time.Second), rates, nil
}
