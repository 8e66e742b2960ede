package quality

import (
	"encoding/json"
	"fmt"
	"time"

	"gearshift/checkpoints"
	"gearshift/internal/quality/labels"
	"gearshift/router/quality"
)

// Save stores the predictor under the name, with what it was fitted to and how it was judged.
// Given reports that its key was given, and is not the store's.
func (f *Fitted) Save(to *checkpoints.Predictors, name string, set *labels.Set, seed uint64, given bool, now time.Time) (ref checkpoints.Ref, removed []int, err error) {
	evaluation, err := json.Marshal(f.Report.Summary())
	if err != nil {
		return ref, nil, err
	}
	meta := checkpoints.Predictor{Columns: f.Regression.Columns(), Labels: len(set.Prompts), Seed: seed, GivenKey: given, Evaluation: evaluation}
	for _, s := range set.Sources {
		meta.Sources = append(meta.Sources, checkpoints.Source(s))
	}
	version, removed, err := to.Put(name, f.Regression.Encode(), meta, now)
	return checkpoints.Ref{Name: name, Version: version}, removed, err
}

// Load loads a stored predictor, with the report that it was stored with.
func Load(from *checkpoints.Predictors, ref checkpoints.Ref) (*Fitted, checkpoints.Entry, error) {
	data, entry, err := from.Get(ref)
	if err != nil {
		return nil, entry, err
	}
	m, err := quality.Decode(data)
	if err != nil {
		return nil, entry, fmt.Errorf("cannot load predictor %q: %w", entry.Ref(), err)
	}
	report, err := reportOf(entry)
	return &Fitted{m, report}, entry, err
}

// reportOf returns the report that a predictor was stored with. One that was stored without is
// empty.
func reportOf(e checkpoints.Entry) (*Report, error) {
	r := &Report{}
	if e.Predictor == nil || len(e.Predictor.Evaluation) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(e.Predictor.Evaluation, r); err != nil {
		return nil, fmt.Errorf("cannot read the report of predictor %q: %w", e.Ref(), err)
	}
	return r, nil
}

// Admit returns an error unless the report of a stored predictor warrants its promotion.
func Admit(e checkpoints.Entry) error {
	r, err := reportOf(e)
	if err != nil {
		return err
	}
	if len(r.Columns) == 0 {
		return fmt.Errorf("cannot promote %s: it has no report; want one that `gearshift quality fit` made, or --force with --reason", e.Ref())
	}
	if !r.Enough() {
		return fmt.Errorf("cannot promote %s: %s; want more labels, or --force with --reason", e.Ref(), r.Verdict())
	}
	return nil
}
