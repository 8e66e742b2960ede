package digits

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

// Steps is how many steps of training a model has, if nothing else is said.
const Steps = 300

// Options of a model to be made.
type Options struct {
	Dir   string
	Size  models.Size
	Seed  uint64
	Steps int
	Force bool // replace what is there
	// Progress is called with a line now and then.
	Progress func(line string)
}

// Made is a model that was made.
type Made struct {
	Folder     string
	Parameters int
	Training   time.Duration
	Quality    *Quality
}

// Make trains a model and writes its folder: model.onnx, config.json and quality.json.
// The folder is whole or not there.
func Make(ctx context.Context, o Options) (*Made, error) {
	s, err := newShape(o.Size)
	if err != nil {
		return nil, err
	}
	m := &Made{Folder: filepath.Join(o.Dir, o.Size.Name), Quality: &Quality{Model: o.Size.Name, Seed: o.Seed, Steps: o.Steps}}
	if err := models.Vacant(m.Folder, o.Force); err != nil {
		return nil, err // now, and not after minutes
	}
	set, err := data.Load()
	if err != nil {
		return nil, err
	}
	split := set.Split(o.Seed)
	began := time.Now()
	t, err := train(ctx, s, split, o.Seed, o.Steps, report(o.Steps, began, o.Progress))
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

// report returns what turns the progress of steps into some twenty lines.
func report(steps int, began time.Time, line func(string)) func(supervised.Progress) {
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
func (m *Made) count(t *trained, files map[string][]byte, progress func(string)) error {
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
