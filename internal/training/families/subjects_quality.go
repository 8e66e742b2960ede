package families

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"gearshift/internal/onnxruntime"
	"gearshift/internal/scenario"
	"gearshift/serving/backend/models"
	"gearshift/workloads/subjects"
)

// SubjectsQuality says how often a classifier of texts is right.
type SubjectsQuality struct {
	Model string `json:"model"`
	Seed  uint64 `json:"seed"`
	Steps int    `json:"training_steps"`
	// Words is the number of words that the model knows; it sees others as their letters.
	Words int `json:"words"`
	// CountedBy names what computed: the exported file, or the network that was trained.
	CountedBy     string  `json:"counted_by"`
	HeldOut       int     `json:"held_out"` // questions
	Right         int     `json:"right"`
	Accuracy      float64 `json:"accuracy"`
	StandardError float64 `json:"standard_error"`
}

// count counts the held-out questions that are answered rightly.
func (q *SubjectsQuality) count(questions []subjects.Question, answer func([]subjects.Question) ([]int, error)) error {
	for first := 0; first < len(questions); first += counting {
		part := questions[first:min(first+counting, len(questions))]
		labels, err := answer(part)
		if err != nil {
			return fmt.Errorf("cannot count accuracy: %w", err)
		}
		for i, label := range labels {
			if label == part[i].Label {
				q.Right++
			}
		}
	}
	q.HeldOut = len(questions)
	q.Accuracy = float64(q.Right) / float64(q.HeldOut)
	q.StandardError = math.Sqrt(q.Accuracy * (1 - q.Accuracy) / float64(q.HeldOut))
	return nil
}

// countBy counts by the exported file where this build has ONNX Runtime.
func (q *SubjectsQuality) countBy(t *trainedSubjects, files map[string][]byte, questions []subjects.Question) error {
	if err := onnxruntime.Available(); err != nil {
		q.CountedBy = countedByNetwork(err)
		return q.count(questions, func(part []subjects.Question) (labels []int, err error) {
			for _, p := range part {
				labels = append(labels, t.classify(p.Prompt))
			}
			return labels, nil
		})
	}
	dir, err := os.MkdirTemp("", "gearshift-subjects-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	folder := filepath.Join(dir, "model")
	if err := models.Write(folder, files, false); err != nil {
		return err
	}
	defer onnxruntime.RoomForModels(1)()
	engine, err := onnxruntime.New(onnxruntime.Config{Local: scenario.Local{Path: folder, MaxSequences: counting}, Name: q.Model})
	if err != nil {
		return err
	}
	defer engine.Close()
	q.CountedBy = countedByExport()
	return q.count(questions, func(part []subjects.Question) ([]int, error) { return askSubjects(engine, q.Model, part) })
}

// askSubjects has an engine classify the questions, as a client does.
func askSubjects(engine http.RoundTripper, model string, part []subjects.Question) ([]int, error) {
	type input struct {
		Input string `json:"input"`
	}
	inputs := make([]input, len(part))
	for i, p := range part {
		inputs[i].Input = p.Prompt
	}
	body, err := json.Marshal(map[string]any{"model": model, "inputs": inputs})
	if err != nil {
		return nil, err
	}
	return labelsBy(engine, body, len(part))
}

// Lines is the accuracy as text.
func (q *SubjectsQuality) Lines() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d words; right %d times of %d questions held out: %.3f, standard error %.3f\ncounted by %s\nquality: {%s: %.3f}\n",
		q.Words, q.Right, q.HeldOut, q.Accuracy, q.StandardError, q.CountedBy, q.Model, q.Accuracy)
	return b.String()
}
