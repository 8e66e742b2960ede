package families

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"gearshift/internal/onnxruntime"
	"gearshift/internal/scenario"
	"gearshift/serving/backend"
	data "gearshift/workloads/digits"
)

// QualityFile is the quality table in the model's folder.
const QualityFile = "quality.json"

// DigitsQuality says how often the model is right.
type DigitsQuality struct {
	Model string `json:"model"`
	Seed  uint64 `json:"seed"`
	Steps int    `json:"training_steps"`
	// CountedBy is what computed: the exported file, or the network that was trained.
	CountedBy string `json:"counted_by"`
	// HeldOut has a row for each subset of the inputs, on images and recordings that
	// nothing was trained or chosen by.
	HeldOut []DigitsAccuracy `json:"held_out"`
	// Unheard has those with sound, by a speaker that no other part has.
	Unheard []DigitsAccuracy `json:"unheard_speaker"`

	parameters []int // of each input's part
}

// DigitsAccuracy is that of one subset.
type DigitsAccuracy struct {
	Variant    string   `json:"variant"`
	Modalities []string `json:"modalities"`
	Requests   int      `json:"requests"`
	Right      int      `json:"right"`
	Accuracy   float64  `json:"accuracy"`
	// StandardError counts the requests with one recording as one draw.
	StandardError float64 `json:"standard_error"`
	// MemoryBytes is what an engine needs that answers with these inputs alone.
	MemoryBytes int64 `json:"memory_bytes"`
}

// working is what a classifier takes besides its weights, as the engine counts it.
const working = 16 << 20

// The inputs, by the bits of a subset.
var modalities = []string{"image", "audio"}

const (
	withImage = 1 << iota
	withAudio
	allInputs = withImage | withAudio
)

// counting is how many examples are classified at once.
const counting = 32

// classify returns the labels of n examples of a part, from the first on.
type classify func(p data.Part, subset, first, n int) ([]int, error)

// count counts the accuracies of all subsets.
func (q *DigitsQuality) count(split *data.Split, answer classify, progress func(string)) error {
	for subset := 1; subset <= allInputs; subset++ {
		a, err := q.accuracy(split, data.HeldOut, subset, split.Images(data.HeldOut), answer)
		if err != nil {
			return err
		}
		progress(fmt.Sprintf("%s: %.3f", strings.Join(a.Modalities, " and "), a.Accuracy))
		q.HeldOut = append(q.HeldOut, a)
		if subset&withAudio == 0 {
			continue
		}
		if a, err = q.accuracy(split, data.Unheard, subset, split.Recordings(data.Unheard), answer); err != nil {
			return err
		}
		q.Unheard = append(q.Unheard, a)
	}
	return nil
}

// accuracy counts the first examples of a part.
func (q *DigitsQuality) accuracy(split *data.Split, p data.Part, subset, requests int, answer classify) (DigitsAccuracy, error) {
	a := DigitsAccuracy{Variant: q.Model, Requests: requests, MemoryBytes: working}
	for i, m := range modalities {
		if subset>>i&1 == 1 {
			a.Modalities = append(a.Modalities, m)
			a.Variant += "-" + m
			a.MemoryBytes += 4 * int64(q.parameters[i])
		}
	}
	drawn := map[int][]bool{} // by what is drawn again: the recording, or the image
	for first := 0; first < requests; first += counting {
		labels, err := answer(p, subset, first, min(counting, requests-first))
		if err != nil {
			return a, fmt.Errorf("cannot count accuracy: %w", err)
		}
		for k, label := range labels {
			want, by, sound := split.Pair(p, first+k)
			if subset&withAudio != 0 {
				by = sound
			}
			right := label == want
			drawn[by] = append(drawn[by], right)
			if right {
				a.Right++
			}
		}
	}
	a.Accuracy = float64(a.Right) / float64(requests)
	a.StandardError = clusteredError(drawn, a.Accuracy, requests)
	return a, nil
}

// clusteredError is the standard error of a mean over draws that come in clusters.
func clusteredError(drawn map[int][]bool, mean float64, n int) float64 {
	var sum float64
	for _, list := range drawn {
		off := -mean * float64(len(list))
		for _, right := range list {
			if right {
				off++
			}
		}
		sum += off * off
	}
	return math.Sqrt(sum) / float64(n)
}

// Lines is the table as text, and the quality as a scenario's task has it.
func (q *DigitsQuality) Lines() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-24s %10s %10s %15s %10s\n", "inputs", "requests", "accuracy", "standard error", "memory")
	row := func(a DigitsAccuracy, more string) {
		fmt.Fprintf(&b, "%-24s %10d %10.3f %15.3f %7d MiB\n", strings.Join(a.Modalities, ", ")+more, a.Requests, a.Accuracy, a.StandardError, a.MemoryBytes>>20)
	}
	for _, a := range q.HeldOut {
		row(a, "")
	}
	for _, a := range q.Unheard {
		row(a, " (new voice)")
	}
	var entries []string
	for _, a := range q.HeldOut {
		entries = append(entries, fmt.Sprintf("%s: %.3f", a.Variant, a.Accuracy))
	}
	fmt.Fprintf(&b, "counted by %s\nquality: {%s}\n", q.CountedBy, strings.Join(entries, ", "))
	return b.String()
}

// exported answers by the model in a folder, as a client sees it: images and sounds are
// sent as files.
func exported(split *data.Split, folder string) (answer classify, end func(), err error) {
	giveBack := onnxruntime.RoomForModels(1)
	engine, err := onnxruntime.New(onnxruntime.Config{Local: scenario.Local{Path: folder, MaxSequences: counting}, Name: "digits"})
	if err != nil {
		giveBack()
		return nil, nil, err
	}
	answer = func(p data.Part, subset, first, n int) ([]int, error) {
		body, err := requestOf(split, p, subset, first, n)
		if err != nil {
			return nil, err
		}
		return labelsBy(engine, body, n)
	}
	return answer, func() { engine.Close(); giveBack() }, nil
}

// labelsBy has an engine classify the n inputs of a request's body.
func labelsBy(engine http.RoundTripper, body []byte, n int) ([]int, error) {
	request, err := http.NewRequest(http.MethodPost, backend.ClassifyPath, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := engine.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	return labelsOf(response, n)
}

// part is one of the inputs of a request to classify.
type part struct {
	Image string `json:"image,omitempty"`
	Audio string `json:"audio,omitempty"`
}

// requestOf is a request to classify n examples with the inputs of a subset.
func requestOf(split *data.Split, p data.Part, subset, first, n int) ([]byte, error) {
	inputs := make([]part, n)
	e := new(data.Example)
	for k := range inputs {
		split.Example(e, p, first+k)
		if subset&withImage != 0 {
			picture, err := pictureOf(e)
			if err != nil {
				return nil, err
			}
			inputs[k].Image = base64.StdEncoding.EncodeToString(picture)
		}
		if subset&withAudio != 0 {
			inputs[k].Audio = base64.StdEncoding.EncodeToString(soundOf(e))
		}
	}
	return json.Marshal(map[string]any{"model": "digits", "inputs": inputs})
}

// labelsOf reads the answer.
func labelsOf(response *http.Response, n int) ([]int, error) {
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	var c backend.Classification
	if err == nil && response.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK || len(c.Data) != n {
		return nil, fmt.Errorf("the model answers %d with %d labels for %d inputs: %.200s", response.StatusCode, len(c.Data), n, text)
	}
	labels := make([]int, n)
	for i, d := range c.Data {
		for k, probability := range d.Probs {
			if probability > d.Probs[labels[i]] {
				labels[i] = k
			}
		}
	}
	return labels, nil
}
