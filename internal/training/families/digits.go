// Package families trains the models that `gearshift models make` writes: of digits, of boxes and of subjects.
package families

import (
	"cmp"
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

// MakeOptions of a model to be trained.
type MakeOptions struct {
	Dir   string
	Size  models.Size
	Seed  uint64
	Steps int  // 0: as many as the family takes
	Force bool // replace what is there
	// Progress is called with a line now and then.
	Progress func(line string)
}

// Made is a model that was made.
type Made struct {
	Folder     string
	Parameters int
	Training   time.Duration
	Quality    interface{ Lines() string }
}

// MakeDigits trains a model and writes its folder: model.onnx, config.json and quality.json.
// The folder is whole or not there.
func MakeDigits(ctx context.Context, o MakeOptions) (*Made, error) {
	s, err := newShape(o.Size)
	if err != nil {
		return nil, err
	}
	o.Steps = cmp.Or(o.Steps, digitsSteps)
	q := &DigitsQuality{Model: o.Size.Name, Seed: o.Seed, Steps: o.Steps}
	m := &Made{Folder: filepath.Join(o.Dir, o.Size.Name), Quality: q}
	if err := models.Vacant(m.Folder, o.Force); err != nil {
		return nil, err // now, and not after minutes
	}
	set, err := data.Load()
	if err != nil {
		return nil, err
	}
	split := set.Split(o.Seed)
	began := time.Now()
	t, err := trainDigits(ctx, s, split, o.Seed, o.Steps, reportSteps(o.Steps, began, o.Progress))
	if err != nil {
		return nil, err
	}
	m.Training, m.Parameters = time.Since(began), t.network.Parameters()
	for _, p := range t.network.Parts {
		q.parameters = append(q.parameters, p.Parameters())
	}
	files := s.fusion(t.network).Files()
	if err := q.countBy(t, files, o.Progress); err != nil {
		return nil, err
	}
	if files[QualityFile], err = json.MarshalIndent(q, "", "  "); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return m, models.Write(m.Folder, files, o.Force)
}

// reportSteps returns what turns the progress of steps into some twenty lines.
func reportSteps(steps int, began time.Time, line func(string)) func(supervised.Progress) {
	every := max(1, steps/20)
	var loss, accuracy float64
	n := 0.0
	return func(p supervised.Progress) {
		loss, accuracy, n = loss+p.Loss, accuracy+p.Accuracy, n+1
		if p.Step%every == 0 || p.Step == p.Steps {
			text := fmt.Sprintf("step %d of %d: loss %.3f", p.Step, p.Steps, loss/n)
			if accuracy > 0 {
				text += fmt.Sprintf(", accuracy %.3f", accuracy/n)
			}
			line(fmt.Sprintf("%s, %v", text, time.Since(began).Round(time.Second)))
			loss, accuracy, n = 0, 0, 0
		}
	}
}

// countBy fills in the quality, by the exported file where this build has ONNX Runtime.
func (q *DigitsQuality) countBy(t *trainedDigits, files map[string][]byte, progress func(string)) error {
	if err := onnxruntime.Available(); err != nil {
		q.CountedBy = countedByNetwork(err)
		return q.count(t.split, func(p data.Part, subset, first, n int) ([]int, error) {
			return t.classify(p, subset, first, n), nil
		}, progress)
	}
	folder, err := os.MkdirTemp("", "gearshift-digits-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	folder = filepath.Join(folder, "model")
	if err := models.Write(folder, files, false); err != nil {
		return err
	}
	answer, end, err := exported(t.split, folder)
	if err != nil {
		return err
	}
	defer end()
	q.CountedBy = countedByExport()
	return q.count(t.split, answer, progress)
}

// countedByNetwork and countedByExport say what has computed.
func countedByNetwork(why error) string {
	return "the trained network (" + fused.BLAS() + "), since " + why.Error()
}

func countedByExport() string {
	version, _, _ := strings.Cut(onnxruntime.ONNXRuntime(), " ") // without the library's path
	return "the exported file (ONNX Runtime " + version + ")"
}
