package training

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gearshift/internal/onnxruntime"
	"gearshift/rl/fused"
	"gearshift/rl/supervised"
	"gearshift/serving/backend/models"
	data "gearshift/workloads/digits"
)

// DigitsOptions of a model to be made.
type DigitsOptions struct {
	Dir   string
	Size  models.Size
	Seed  uint64
	Steps int
	Force bool // replace what is there
	// Progress is called with a line now and then.
	Progress func(line string)
}

// MadeDigits is a model that was made.
type MadeDigits struct {
	Folder     string
	Parameters int
	Training   time.Duration
	Quality    *DigitsQuality
}

// MakeDigits trains a model and writes its folder: model.onnx, config.json and quality.json.
// The folder is whole or not there.
func MakeDigits(ctx context.Context, o DigitsOptions) (*MadeDigits, error) {
	s, err := newShape(o.Size)
	if err != nil {
		return nil, err
	}
	m := &MadeDigits{Folder: filepath.Join(o.Dir, o.Size.Name), Quality: &DigitsQuality{Model: o.Size.Name, Seed: o.Seed, Steps: o.Steps}}
	if err := models.Vacant(m.Folder, o.Force); err != nil {
		return nil, err // now, and not after minutes
	}
	set, err := data.Load()
	if err != nil {
		return nil, err
	}
	split := set.Split(o.Seed)
	began := time.Now()
	t, err := trainDigits(ctx, s, split, o.Seed, o.Steps, reportDigits(o.Steps, began, o.Progress))
	if err != nil {
		return nil, err
	}
	m.Training, m.Parameters = time.Since(began), t.network.Parameters()
	for _, p := range t.network.Parts {
		m.Quality.parameters = append(m.Quality.parameters, p.Parameters())
	}
	files := s.fusion(t.network).Files()
	if err := m.count(t, files, o.Progress); err != nil {
		return nil, err
	}
	if files[QualityFile], err = json.MarshalIndent(m.Quality, "", "  "); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return m, models.Write(m.Folder, files, o.Force)
}

// reportDigits returns what turns the progress of steps into some twenty lines.
func reportDigits(steps int, began time.Time, line func(string)) func(supervised.Progress) {
	every := max(1, steps/20)
	var loss, accuracy float64
	n := 0.0
	return func(p supervised.Progress) {
		loss, accuracy, n = loss+p.Loss, accuracy+p.Accuracy, n+1
		if p.Step%every == 0 || p.Step == p.Steps {
			line(fmt.Sprintf("step %d of %d: loss %.3f, accuracy %.3f, %v", p.Step, p.Steps, loss/n, accuracy/n, time.Since(began).Round(time.Second)))
			loss, accuracy, n = 0, 0, 0
		}
	}
}

// count fills in the quality, by the exported file where this build has ONNX Runtime.
func (m *MadeDigits) count(t *trainedDigits, files map[string][]byte, progress func(string)) error {
	if err := onnxruntime.Available(); err != nil {
		m.Quality.CountedBy = "the trained network (" + fused.BLAS() + "), since " + err.Error()
		return m.Quality.count(t.split, func(p data.Part, subset, first, n int) ([]int, error) {
			return t.classify(p, subset, first, n), nil
		}, progress)
	}
	folder, err := os.MkdirTemp("", "gearshift-digits-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return err
		}
	}
	answer, end, err := exported(t.split, folder)
	if err != nil {
		return err
	}
	defer end()
	version, _, _ := strings.Cut(onnxruntime.ONNXRuntime(), " ") // without the library's path
	m.Quality.CountedBy = "the exported file (ONNX Runtime " + version + ")"
	return m.Quality.count(t.split, answer, progress)
}
