package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/app"
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

func newCheckCommand() *cobra.Command {
	var strict bool
	var workload string
	c := &cobra.Command{
		Use: "check NAME|FILE", Short: "Check a scenario: every error and every warning, with its line and key", Args: cli.One,
		Long: `Check a scenario. With an error the scenario cannot be used. A warning names a value that is
valid but probably wrong: a larger size that is faster, a number a thousand times off, a deadline
that no size or every size meets. A table shows what each size does by its profile, alone on its
host, with requests of the workload's mean lengths; another, what is answered how if a host dies.`,
		Example: `  gearshift scenario check mine.yaml
  gearshift scenario check mine.yaml --strict --workload trace:mine.jsonl`,
		RunE: func(c *cobra.Command, args []string) error {
			return checkScenario(c, args[0], workload, strict)
		},
	}
	c.Flags().BoolVar(&strict, "strict", false, "treat warnings as errors")
	c.Flags().StringVar(&workload, "workload", "", "`W` to compare with what the fleet answers in time, such as u1 or trace:FILE")
	return c
}

func checkScenario(c *cobra.Command, ref, workload string, strict bool) error {
	if drawn, err := scenario.LoadFailover(ref); err == nil {
		if d, ok := drawn.Drawing(); ok {
			x := drawn.FailoverProblem(false)
			fmt.Fprintf(c.OutOrStdout(), "%s is a valid scenario: %d applications of %d families, drawn on %d hosts in %d sites, for gearshift failover simulate alone\n", ref, len(x.Applications), len(d.Families), d.Hosts, d.Sites)
			return nil
		}
	}
	var losses []app.Loss
	s, warnings, err := scenario.Inspect(ref, func(s *scenario.Scenario, refuse, warn func(key, format string, args ...any)) {
		sound := true
		losses = judgeLosses(s, func(key, format string, args ...any) {
			sound = false
			refuse(key, format, args...)
		}, warn)
		if sound {
			rehearse(s, refuse)
		}
	})
	if err != nil {
		return err
	}
	var doubts []string
	for _, w := range warnings {
		doubts = append(doubts, w.Error())
	}
	if workload != "" {
		doubt, err := beyond(s, workload)
		if err != nil {
			return fmt.Errorf("--workload %s: %w", workload, err)
		}
		if doubt != "" {
			doubts = append(doubts, doubt)
		}
	}
	if strict && len(doubts) > 0 {
		return errors.New(strings.Join(doubts, "\n"))
	}
	if err := reportScenario(c.OutOrStdout(), ref, s, losses); err != nil {
		return err
	}
	if len(doubts) > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "%s; --strict makes them errors:\n%s\n", many(len(doubts), "warning"), strings.Join(doubts, "\n"))
	}
	return nil
}

// reportScenario prints what the scenario has, and what its fleet does.
func reportScenario(out io.Writer, ref string, s *scenario.Scenario, losses []app.Loss) error {
	fmt.Fprintf(out, "%s is a valid scenario: %s, %s, %s\n", ref, many(len(s.Tasks), "task"), many(len(s.Variants), "variant"), many(len(s.Hosts), "host"))
	for _, deadline := range deadlinesOf(s) {
		if err := capacityTable(out, s, deadline); err != nil {
			return err
		}
	}
	if err := combinationTables(out, s); err != nil {
		return err
	}
	if rate, late := s.FleetRate(), !s.AnyInTime(); late {
		fmt.Fprintf(out, "\nNo size answers in time. Late, the fleet answers about %s requests per second, one at a time on each host.\n", rounded(rate))
	} else {
		fmt.Fprintf(out, "\nEach host with the size that answers most%s, the fleet answers about %s requests per second.\n", ofThose(s.Table().Replicas), rounded(rate))
	}
	if err := lossTable(out, s, losses); err != nil {
		return err
	}
	if o := s.Training.Objective; !o.IsZero() {
		fmt.Fprintf(out, "Policies are trained and judged, and rules tuned, for %s.\n", o)
	}
	fmt.Fprintf(out, "scenario hash %.12s, observation hash %.12s\n", s.Hash(), s.Spec().Hash())
	return nil
}

// rehearse refuses what serve would refuse.
func rehearse(s *scenario.Scenario, refuse func(key, format string, args ...any)) {
	if key, err := app.Rehearse(s); err != nil {
		refuse(key, "%v", err)
	}
}

// ofThose says that not all replicas are there at the start, of which the fleet's rate is.
func ofThose(replicas []fleet.Replica) string {
	up := 0
	for i := range replicas {
		if replicas[i].Initial == fleet.Up {
			up++
		}
	}
	if up == 0 || up == len(replicas) {
		return ""
	}
	return " of those loaded at the start"
}

// beyond says what is wrong with a workload whose mean rate is far from what the fleet
// answers in time.
func beyond(s *scenario.Scenario, text string) (string, error) {
	spec, err := workloads.Parse(text)
	if err != nil {
		return "", err
	}
	process, err := spec.Process(s.Settings(s.Evaluation.Requests))
	if err != nil {
		return "", err
	}
	rate, fleet := process.MeanRate(), s.FleetRate()
	switch {
	case rate > 2*fleet:
		hint := "want a lower rate, or more replicas"
		if file, _, _ := strings.Cut(text, "@"); strings.HasPrefix(text, "trace:") {
			hint = fmt.Sprintf("want a lower rate, such as %s@%.2g, or more replicas", file, fleet/2)
		}
		return fmt.Sprintf("--workload %s: %s requests per second in the mean, of which the fleet answers %s in time; %s", text, rounded(rate), rounded(fleet), hint), nil
	case rate < fleet/50:
		return fmt.Sprintf("--workload %s: %s requests per second in the mean, of %s that the fleet answers in time: the largest size takes them all", text, rounded(rate), rounded(fleet)), nil
	}
	return "", nil
}

// rounded prints a number with three significant digits, or all of those before the point.
func rounded(x float64) string {
	if x >= 99.95 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// deadline is one in ms per output token, and the tasks that have it.
type deadline struct {
	ms    float64
	none  bool // there is none, and the time is as long as one may be
	whole bool // answers have no tokens, and the time is that of an answer
	tasks []string
}

// deadlinesOf are those of the tasks, the shortest first.
func deadlinesOf(s *scenario.Scenario) []deadline {
	var list []deadline
	for _, t := range s.Tasks {
		ms := s.PaceMS(&t)
		_, output := s.Workload.Of(t.Name)
		whole := output.Expected() == 0
		i := slices.IndexFunc(list, func(d deadline) bool { return d.ms == ms && d.whole == whole })
		if i < 0 {
			list = append(list, deadline{ms: ms, none: t.Unpaced(), whole: whole})
			i = len(list) - 1
		}
		list[i].tasks = append(list[i].tasks, t.Name)
	}
	slices.SortFunc(list, func(a, b deadline) int { return int(time.Duration(a.ms*1e6) - time.Duration(b.ms*1e6)) })
	return list
}

// capacityTable shows each variant that answers one of the tasks, once for the hosts where it does the same.
func capacityTable(out io.Writer, s *scenario.Scenario, d deadline) error {
	what := fmt.Sprintf("a deadline of %v ms per token", math.Round(100*d.ms)/100)
	switch {
	case d.none:
		what = "no deadline but that to the first token, which is not counted here"
	case d.whole:
		what = fmt.Sprintf("a deadline of %v ms for the answer", d.ms)
	}
	fmt.Fprintf(out, "\nIn time, with %s (%s):\n", what, strings.Join(d.tasks, ", "))
	rows := capacityRows(s, d)
	width, cached := len("replica"), false
	for _, r := range rows {
		width, cached = max(width, len(r.name)), cached || r.KVTokens > 0
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	alone, then := "ms/token alone", "ms/token then"
	if _, output := s.Workload.Expected(s.Table().Tasks); output == 0 {
		alone, then = "ms alone", "ms then, with the wait"
	}
	fmt.Fprintf(w, "%-*s\t%s\tlargest batch\t%s\trequests/s\t", width, "replica", alone, then)
	if cached {
		fmt.Fprint(w, "KV tokens\t")
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		batch, pace, rate := "none", "", ""
		if r.Batch > 0 {
			batch, pace, rate = fmt.Sprint(r.Batch), fmt.Sprintf("%.1f", r.Pace), rounded(r.Rate)
		}
		fmt.Fprintf(w, "%-*s\t%.1f\t%s\t%s\t%s\t", width, r.name, r.Alone, batch, pace, rate)
		if cached {
			fmt.Fprintf(w, "%d\t", r.KVTokens)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// capacityRow is a variant on the hosts where it does the same.
type capacityRow struct {
	name string
	scenario.Capacity
}

func capacityRows(s *scenario.Scenario, d deadline) []capacityRow {
	table, caps := s.Table(), s.Capacities(d.ms)
	var rows []capacityRow
	for v := range table.Variants {
		if !slices.ContainsFunc(s.Tasks, func(t scenario.Task) bool {
			_, answers := t.Quality[table.Variants[v].Name]
			return answers && slices.Contains(d.tasks, t.Name)
		}) {
			continue
		}
		first := len(rows)
		for _, r := range table.ReplicasOf(v) {
			if s.Second(r) {
				continue // it does what the first of the two does
			}
			name, host, _ := strings.Cut(table.Replicas[r].Name, "@")
			if i := slices.IndexFunc(rows[first:], func(row capacityRow) bool { return row.Capacity == caps[r] && strings.HasPrefix(row.name, name+"@") }); i >= 0 {
				rows[first+i].name += "," + host
			} else {
				rows = append(rows, capacityRow{table.Replicas[r].Name, caps[r]})
			}
		}
	}
	return rows
}

// combinationTables shows the combinations of modalities of each model, once for the hosts
// where they take the same.
func combinationTables(out io.Writer, s *scenario.Scenario) error {
	for _, m := range s.Weights {
		var lists [][]scenario.Combination
		var hosts []string
		for _, h := range s.Hosts {
			list := s.Combinations(m.Name, h.Name)
			if i := slices.IndexFunc(lists, func(other []scenario.Combination) bool { return reflect.DeepEqual(list, other) }); i >= 0 {
				hosts[i] += "," + h.Name
			} else if len(list) > 0 {
				lists, hosts = append(lists, list), append(hosts, h.Name)
			}
		}
		for i, list := range lists {
			if err := combinationTable(out, s, m.Name+"@"+hosts[i], list); err != nil {
				return err
			}
		}
	}
	return nil
}

func combinationTable(out io.Writer, s *scenario.Scenario, engine string, list []scenario.Combination) error {
	fmt.Fprintf(out, "\nCombinations of modalities of %s:\n", engine)
	names, width := make([]string, len(list)), len("combination")
	for i, c := range list {
		names[i] = strings.Join(c.Modalities, "+")
		width = max(width, len(names[i]))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%-*s\t", width, "combination")
	for _, t := range s.Tasks {
		fmt.Fprintf(w, "quality for %s\t", t.Name)
	}
	fmt.Fprint(w, "ms alone\tlargest batch\tms then\tMiB\t\n")
	for i, c := range list {
		fmt.Fprintf(w, "%-*s\t", width, names[i])
		for _, t := range s.Tasks {
			if q, ok := c.Quality[t.Name]; ok {
				fmt.Fprintf(w, "%.3f\t", q)
			} else {
				fmt.Fprint(w, "\t")
			}
		}
		memory, most := "-", len(c.Latency)
		if c.Memory > 0 {
			memory = rounded(float64(c.Memory) / (1 << 20))
		}
		fmt.Fprintf(w, "%.1f\t%d\t%.1f\t%s\t\n", c.Latency[0], most, c.Latency[most-1], memory)
	}
	return w.Flush()
}
