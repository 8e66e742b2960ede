package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router/modality"
)

// tableOptions are those of `gearshift modality table`.
type tableOptions struct {
	scenario, model, store string
	size                   int
	json, dry              bool
}

func newModalityTable() *cobra.Command {
	var o tableOptions
	command := &cobra.Command{
		Use:   "table",
		Short: "Make the tables of strategies of a scenario's models, and store them",
		Long: `For each engine of a model with modalities, and for jobs of each size, works out all
strategies of which none is both slower and no better than another: how many of the job's
requests which inputs answer, and how long that takes. So for each floor of the mean
quality the fastest strategy is the first that reaches it. Both for jobs that mix inputs
and for those that may not ("uniform").

The tables go into the policy store, with a hash of the profiles that they are made of;
gearshift serve takes them from there while the profiles are the same, and else makes its
own.`,
		Example: `  gearshift modality table --scenario mosel-tbn
  gearshift modality table --scenario mosel-tbn --size 4 --dry-run`,
		Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.OutOrStdout()) },
	}
	cli.ScenarioFlag(command, &o.scenario)
	cli.StoreFlag(command, &o.store)
	f := command.Flags()
	f.StringVar(&o.model, "model", "", "`NAME` of the model (default: all that have modalities)")
	f.IntVar(&o.size, "size", 0, "show the strategies of jobs of so many requests")
	f.BoolVar(&o.json, "json", false, "print all strategies as JSON")
	f.BoolVar(&o.dry, "dry-run", false, "store nothing")
	return command
}

// madeTable is a table with what it is of.
type madeTable struct {
	policies.StrategyTable
	*modality.Table
	tasks  []string
	took   time.Duration
	memory map[string]float64 // MiB that an option needs, by its name; nil where the scenario does not say it of all
}

// of returns the table of the strategies for jobs of a task.
func (t *madeTable) of(task string) *modality.Table {
	var bits uint64
	for i, o := range t.StrategyTable.Options {
		if strings.HasSuffix(o.Name, " for "+task) {
			bits |= 1 << i
		}
	}
	return t.Within(bits)
}

func (o *tableOptions) run(out io.Writer) error {
	s, err := scenario.Load(o.scenario)
	if err != nil {
		return err
	}
	made, err := o.make(s)
	if err != nil {
		return fmt.Errorf("cannot make tables of strategies: %w", err)
	}
	store := &checkpoints.Store{Path: o.store}
	for _, t := range made {
		if o.dry {
			continue
		}
		if err := t.Put(store, t.Table); err != nil {
			return err
		}
	}
	switch {
	case o.json:
		return o.printJSON(out, made)
	case o.size > 0:
		return o.printSize(out, made)
	}
	return o.printSummary(out, made)
}

// make makes the tables that are asked for.
func (o *tableOptions) make(s *scenario.Scenario) ([]madeTable, error) {
	var list []madeTable
	var models []string
	for _, mixing := range []modality.Mixing{modality.Mixed, modality.Uniform} {
		for _, of := range policies.StrategyTables(s, mixing) {
			if models = append(models, of.Model); o.model != "" && of.Model != o.model {
				continue
			}
			if o.size > of.Size {
				return nil, fmt.Errorf("--size %d: the longest batch of %s@%s, and modality.table, allow jobs of at most %d", o.size, of.Model, of.Host, of.Size)
			}
			began := time.Now()
			t, err := of.Make()
			if err != nil {
				return nil, err
			}
			list = append(list, madeTable{of, t, tasksOf(s, &of), time.Since(began), memoryOf(s, &of)})
		}
	}
	switch {
	case len(models) == 0:
		return nil, fmt.Errorf("scenario %s has no model with modalities", s.Name)
	case len(list) == 0:
		slices.Sort(models)
		return nil, fmt.Errorf("--model %s: scenario %s has no such model with modalities; it has %s", o.model, s.Name, strings.Join(slices.Compact(models), ", "))
	case o.size < 0:
		return nil, errors.New("--size: want a number of requests from 1 on")
	}
	return list, nil
}

// tasksOf names the tasks that the options answer.
func tasksOf(s *scenario.Scenario, of *policies.StrategyTable) (names []string) {
	for _, t := range s.Tasks {
		if slices.ContainsFunc(of.Options, func(o modality.Option) bool { return strings.HasSuffix(o.Name, " for "+t.Name) }) {
			names = append(names, t.Name)
		}
	}
	return names
}

// memoryOf is what the options need by their profiles.
func memoryOf(s *scenario.Scenario, of *policies.StrategyTable) map[string]float64 {
	needs := map[string]float64{}
	for _, c := range s.Combinations(of.Model, of.Host) {
		for _, t := range s.Tasks {
			needs[c.Variant+" for "+t.Name] = float64(c.Memory) / (1 << 20)
		}
	}
	for i := range of.Options {
		if needs[of.Options[i].Name] == 0 {
			return nil
		}
	}
	return needs
}

func (o *tableOptions) printSummary(out io.Writer, made []madeTable) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ENGINE\tTASK\tMIXING\tLARGEST JOB\tSTRATEGIES\tMADE IN MS")
	for _, t := range made {
		for _, task := range t.tasks {
			n, all, of := 0, 0.0, t.of(task)
			for size := 1; size <= of.Sizes(); size++ {
				n, all = n+len(of.Front(size)), all+of.Splits(size)
			}
			fmt.Fprintf(w, "%s@%s\t%s\t%s\t%d\t%d of %.6g\t%.1f\n", t.Model, t.Host, task, t.Mixing, of.Sizes(), n, all, t.took.Seconds()*1000)
		}
	}
	if err := w.Flush(); err != nil || o.dry {
		return err
	}
	_, err := fmt.Fprintf(out, "stored in %s\n", o.store)
	return err
}

func (o *tableOptions) printSize(out io.Writer, made []madeTable) error {
	for _, t := range made {
		for _, task := range t.tasks {
			fmt.Fprintf(out, "%s@%s, task %s, %s, jobs of %d, of %.6g strategies the fastest for each floor up to a mean quality:\n", t.Model, t.Host, task, t.Mixing, o.size, t.of(task).Splits(o.size))
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			memory := ""
			if t.memory != nil {
				memory = "MIB\t"
			}
			fmt.Fprintf(w, "QUALITY\tMS\t%sSTRATEGY\n", memory)
			for _, p := range t.strategies(task, o.size) {
				if t.memory != nil {
					memory = fmt.Sprintf("%.4g\t", p.MemoryMiB)
				}
				fmt.Fprintf(w, "%.4f\t%.2f\t%s%s\n", p.Quality, p.MS, memory, p.words)
			}
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// optionsOf says whose combinations are the options of a plan.
type optionsOf struct{ scenario, model, task, host string }

// read returns the options; none without a scenario.
func (o *optionsOf) read() ([]modality.Option, error) {
	if o.scenario == "" {
		if o.model+o.task+o.host != "" {
			return nil, errors.New("--model, --task and --host are of a scenario; want --scenario too")
		}
		return nil, nil
	}
	s, err := scenario.Load(o.scenario)
	if err != nil {
		return nil, err
	}
	for _, m := range s.Weights {
		for _, h := range s.Hosts {
			if o.model != "" && m.Name != o.model || o.host != "" && h.Name != o.host {
				continue
			}
			for _, t := range s.Tasks {
				options := policies.StrategyOptions(s.Combinations(m.Name, h.Name), t.Name)
				if len(options) == 0 || o.task != "" && t.Name != o.task {
					continue
				}
				for i := range options {
					options[i].Name = strings.TrimSuffix(options[i].Name, " for "+t.Name)
				}
				return options, nil
			}
		}
	}
	var named []string
	for _, x := range [][2]string{{"model", o.model}, {"host", o.host}, {"task", o.task}} {
		if x[1] != "" {
			named = append(named, fmt.Sprintf("--%s %s", x[0], x[1]))
		}
	}
	if len(named) == 0 {
		return nil, fmt.Errorf("scenario %s has no model with modalities; want one such as mosel-tvlt", s.Name)
	}
	return nil, fmt.Errorf("scenario %s has no combinations of modalities with %s", s.Name, strings.Join(named, " "))
}

// tableJSON is a table as it is printed.
type tableJSON struct {
	Model  string         `json:"model"`
	Host   string         `json:"host"`
	Task   string         `json:"task"`
	Mixing string         `json:"mixing"`
	Sizes  []strategyList `json:"sizes"`
}

// strategyList are the strategies of jobs of a size, the fastest first.
type strategyList struct {
	Size       int          `json:"size"`
	Strategies []strategyOf `json:"strategies"`
}

// strategyOf is a strategy: the fastest for each floor that is above the quality of the one
// before, and not above its own.
type strategyOf struct {
	Quality  float64        `json:"quality"`
	MS       float64        `json:"ms"`
	Strategy map[string]int `json:"strategy"`
	// MemoryMiB is what the combination needs that needs most; batches run one after the other. It is
	// 0 where the scenario does not say it of all.
	MemoryMiB float64 `json:"memory_mib,omitempty"`
	words     string
}

func (t *madeTable) strategies(task string, size int) (list []strategyOf) {
	of := t.of(task)
	for i, p := range of.Front(size) {
		s := strategyOf{Quality: p.Value / float64(size), MS: p.Cost, Strategy: map[string]int{}}
		var words []string
		for k, n := range of.Batches(size, i, nil) {
			if n > 0 {
				name := strings.TrimSuffix(t.StrategyTable.Options[k].Name, " for "+task)
				s.Strategy[name] = n
				s.MemoryMiB = max(s.MemoryMiB, t.memory[t.StrategyTable.Options[k].Name])
				words = append(words, fmt.Sprintf("%d × %s", n, name))
			}
		}
		s.words = strings.Join(words, ", ")
		list = append(list, s)
	}
	return list
}

func (o *tableOptions) printJSON(out io.Writer, made []madeTable) error {
	var list []tableJSON
	for _, t := range made {
		for _, task := range t.tasks {
			j := tableJSON{Model: t.Model, Host: t.Host, Task: task, Mixing: string(t.Mixing)}
			for size := 1; size <= t.Sizes(); size++ {
				if o.size == 0 || size == o.size {
					j.Sizes = append(j.Sizes, strategyList{size, t.strategies(task, size)})
				}
			}
			list = append(list, j)
		}
	}
	return output.JSON(out, list)
}
