package policies

import (
	"errors"
	"fmt"

	"gearshift/checkpoints"
	"gearshift/internal/scenario"
	"gearshift/router/modality"
)

// This file makes the tables of strategies of a scenario's models before jobs come,
// keeps them in the policy store, and takes them from there while they are of the same
// profiles.

// StrategyTable holds what a table is made of: the combinations of a model on a host.
type StrategyTable struct {
	Model, Host string
	Options     []modality.Option
	Mixing      modality.Mixing
	Size        int // of the largest job
}

// StrategyTables lists what the scenario's tables are made of, with that mixing: one for each engine of a
// model with modalities.
func StrategyTables(s *scenario.Scenario, mixing modality.Mixing) []StrategyTable {
	var list []StrategyTable
	for _, m := range s.Weights {
		for _, h := range s.Hosts {
			of := StrategyTable{Model: m.Name, Host: h.Name, Mixing: mixing}
			combinations := s.Combinations(m.Name, h.Name)
			for _, t := range s.Tasks {
				of.Options = append(of.Options, StrategyOptions(combinations, t.Name)...)
			}
			if of.Size = min(LongestBatch(of.Options), scenario.Of[scenario.JobPlanning](s).Table); of.Size > 0 {
				list = append(list, of)
			}
		}
	}
	return list
}

// StrategyOptions lists the combinations that answer the task.
func StrategyOptions(combinations []scenario.Combination, task string) []modality.Option {
	var list []modality.Option
	for _, c := range combinations {
		if q, ok := c.Quality[task]; ok {
			list = append(list, modality.Option{Name: c.Variant + " for " + task, Quality: q, Latency: c.Latency})
		}
	}
	return list
}

// LongestBatch returns the largest batch of any of the options.
func LongestBatch(options []modality.Option) (most int) {
	for _, o := range options {
		most = max(most, len(o.Latency))
	}
	return most
}

// Name is that of the table in a store.
func (o *StrategyTable) Name() string { return fmt.Sprintf("%s@%s %s", o.Model, o.Host, o.Mixing) }

func (o *StrategyTable) fingerprint() string {
	return modality.Fingerprint(o.Options, o.Mixing, o.Size)
}

// Make makes the table.
func (o *StrategyTable) Make() (*modality.Table, error) {
	t, err := modality.NewTable(o.Options, o.Mixing, o.Size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Name(), err)
	}
	return t, nil
}

// Put stores the table.
func (o *StrategyTable) Put(s *checkpoints.Store, t *modality.Table) error {
	return s.PutTable(o.Name(), checkpoints.StoredTable{Of: o.fingerprint(), Data: t.Append(nil)})
}

// Get takes the table from the store, or makes it where the store has none, or one of other
// profiles or damaged, which notice is told in a line.
func (o *StrategyTable) Get(s *checkpoints.Store, notice func(line string)) (t *modality.Table, stored bool, err error) {
	t, err = o.stored(s)
	if err == nil {
		return t, true, nil
	}
	if !errors.Is(err, checkpoints.ErrNotFound) {
		notice(fmt.Sprintf("table of strategies %q: %v; it is made again", o.Name(), err))
	}
	t, err = o.Make()
	return t, false, err
}

// errStale says that a table is of other profiles.
var errStale = errors.New("the one in the store is of other profiles, qualities or sizes; gearshift modality table stores a new one")

func (o *StrategyTable) stored(s *checkpoints.Store) (*modality.Table, error) {
	found, err := s.GetTable(o.Name())
	if err != nil {
		return nil, err
	}
	if found.Of != o.fingerprint() {
		return nil, errStale
	}
	return modality.ReadTable(found.Data, o.Options, o.Mixing, o.Size)
}
