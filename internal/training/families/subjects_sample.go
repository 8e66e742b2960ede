package families

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"gearshift/workloads/subjects"
)

// The samples of subjects: questions to learn which model knows what, and questions to judge that by.
const (
	FittingFile = "fitting.jsonl"
	HeldOutFile = "held-out.jsonl"
)

// WriteSubjects writes questions that no model was trained by, in two files of lines with prompt and group.
func (s Samples) WriteSubjects() error {
	set, err := subjects.Load()
	if err != nil {
		return err
	}
	split := set.Split(s.Seed)
	if most := min(len(split.Fitting), len(split.HeldOut)); s.Count < 1 || s.Count > most {
		return fmt.Errorf("--sample-count %d: want 1 to %d, as many as each part has", s.Count, most)
	}
	for name, part := range map[string][]subjects.Question{FittingFile: split.Fitting, HeldOutFile: split.HeldOut} {
		path := filepath.Join(s.Dir, name)
		if _, err := os.Stat(path); err == nil && !s.Force {
			return fmt.Errorf("%s already exists; --force replaces it", path)
		}
		var lines bytes.Buffer
		encoder := json.NewEncoder(&lines)
		encoder.SetEscapeHTML(false)
		for _, q := range part[:s.Count] {
			if err := encoder.Encode(q); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(s.Dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, lines.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
