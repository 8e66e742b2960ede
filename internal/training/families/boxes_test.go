package families

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gearshift/internal/onnxruntime"
	"gearshift/rl/supervised"
	"gearshift/serving/backend/models"
	"gearshift/workloads/scenes"
)

var tinyBoxes = models.Size{Name: "tiny", Layers: 1, Width: 16}

func learnBoxes(t *testing.T, seed uint64, steps int) *boxesNetwork {
	t.Helper()
	n, err := trainBoxes(t.Context(), tinyBoxes, seed, steps, func(supervised.Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// meanBox is the mean of all boxes to train with.
func meanBox() (m scenes.Box) {
	var n float32
	for i := range uint64(trainingCount) {
		for _, b := range scenes.New(trainingScenes+trainingCount+i, scenes.Usual).Boxes(0) {
			m.X0, m.Y0, m.X1, m.Y1, n = m.X0+b.X0, m.Y0+b.Y0, m.X1+b.X1, m.Y1+b.Y1, n+1
		}
	}
	return scenes.Box{X0: m.X0 / n, Y0: m.Y0 / n, X1: m.X1 / n, Y1: m.Y1 / n}
}

// The same seed gives the same file, to the byte, and another seed another.
func TestMakingBoxesRepeats(t *testing.T) {
	first := boxesONNX(learnBoxes(t, 1, 2))
	if !bytes.Equal(first, boxesONNX(learnBoxes(t, 1, 2))) {
		t.Error("the same seed gave two models")
	}
	if bytes.Equal(first, boxesONNX(learnBoxes(t, 2, 2))) {
		t.Error("two seeds gave the same model")
	}
}

// The exported file computes what the trained network computes, alone and in a batch.
func TestExportedBoxesEqualTheNetwork(t *testing.T) {
	findONNX(t)
	if err := onnxruntime.Available(); err != nil {
		t.Skipf("no ONNX Runtime to run the exported file; `make onnxruntime` fetches it: %v", err)
	}
	n := learnBoxes(t, 1, 40)
	d, by, end, err := n.detector(map[string][]byte{"model.onnx": boxesONNX(n), "config.json": boxesConfig()})
	if err != nil || !strings.Contains(by, "the exported file") {
		t.Fatal(by, err)
	}
	defer end()
	var frames [][]float32
	for i := range 5 {
		frame, input := scenes.NewFrame(), make([]float32, scenes.Side*scenes.Side)
		scenes.New(uint64(i), scenes.Usual).Draw(frame, i)
		scenes.Input(input, frame)
		frames = append(frames, input)
	}
	want, err := n.detect(frames)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 2, 5} {
		for from := 0; from+size <= len(frames); from += size {
			got, err := d(frames[from : from+size])
			if err != nil {
				t.Fatal(err)
			}
			for i, boxes := range got {
				if len(boxes) == 0 || scenes.Accuracy(boxes, want[from+i]) < 0.9999 {
					t.Errorf("frame %d in a batch of %d: %v, want %v", from+i, size, boxes, want[from+i])
				}
			}
		}
	}
}

// A model of another form is refused, and so is a folder without one.
func TestOpenDetectorRefuses(t *testing.T) {
	findONNX(t)
	if err := onnxruntime.Available(); err != nil {
		t.Skipf("no ONNX Runtime to open a model with; `make onnxruntime` fetches it: %v", err)
	}
	dir := t.TempDir()
	images := models.Options{Sizes: []models.Size{{Name: "images", Layers: 1, Width: 16}}, Seed: 1}
	if err := models.MakeImageClassifiers(t.Context(), dir, images, func(string, int) {}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"images": "want 1280 for 128, as a model of --family boxes", "nothing": "cannot load model"} {
		if d, err := onnxruntime.OpenDetector(filepath.Join(dir, name), 1); err == nil || !strings.Contains(err.Error(), want) || d != nil {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// A made model has its files and what was counted: after a short training of a tiny one it finds boxes in scenes that it has not seen far better than
// the mean of all boxes does, or no box, which has an accuracy of 0. It is not trained where it could not be written.
func TestMakeBoxes(t *testing.T) {
	findONNX(t)
	dir := t.TempDir()
	var lines []string
	o := MakeOptions{Dir: dir, Size: tinyBoxes, Seed: 1, Steps: 100, Progress: func(line string) { lines = append(lines, line) }}
	m, err := MakeBoxes(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "tiny", QualityFile))
	var q BoxesQuality
	if err == nil {
		err = json.Unmarshal(text, &q)
	}
	if err != nil || len(q.HeldOut) != 3 || q.Seed != 1 || q.Steps != 100 || m.Parameters < 1000 {
		t.Fatalf("%+v, %v", q, err)
	}
	box := []scenes.Box{meanBox()}
	guess := func(frames [][]float32) (found [][]scenes.Box, err error) {
		for range frames {
			found = append(found, box)
		}
		return found, nil
	}
	var guesses []float64
	for i := range uint64(heldOutScenes) {
		v, err := watch(scenes.New(firstHeldOut+i, scenes.Usual), 1, guess)
		if err != nil {
			t.Fatal(err)
		}
		guesses = append(guesses, v.accuracies...)
	}
	guessed := mean(guesses)
	for _, r := range q.HeldOut {
		t.Logf("accuracy %.3f, of the mean box %.3f", r.Accuracy, guessed)
		if r.Accuracy < 4*guessed {
			t.Errorf("accuracy %.3f, of the mean box %.3f", r.Accuracy, guessed)
		}
		if r.Frames != heldOutScenes*heldOutFrames || r.Accuracy < 0.2 || len(r.Drop) != longestTracked || r.Seen[0] <= 0 || r.Seen[0] >= r.Seen[longestTracked-1] {
			t.Errorf("%+v", r)
		}
	}
	if calm, hard := q.HeldOut[0], q.HeldOut[2]; calm.Lost.Rate >= hard.Lost.Rate {
		t.Errorf("calm scenes lose %v per frame, hard ones %v", calm.Lost.Rate, hard.Lost.Rate)
	}
	if all := strings.Join(lines, "\n"); !strings.Contains(all, "step 100 of 100: loss ") || strings.Contains(all, "loss 0.000, accuracy") {
		t.Errorf("progress is %s", all)
	}
	lines = nil
	if _, err := MakeBoxes(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--force replaces it") || lines != nil {
		t.Errorf("again: %v, %v", err, lines)
	}
	o.Size, o.Force = models.Size{Name: "wide", Layers: 1, Width: 512}, true
	if _, err := MakeBoxes(t.Context(), o); err == nil || !strings.Contains(err.Error(), "at most 256 wide") {
		t.Errorf("a wide one: %v", err)
	}
}

func TestLines(t *testing.T) {
	l := lineThrough([]float64{0.03, 0.04, 0.05, 0.06})
	if math.Abs(l.Start-0.02) > 1e-9 || math.Abs(l.Rate-0.01) > 1e-9 || l.Off > 1e-9 {
		t.Errorf("%+v, want .02 + .01 · n", l)
	}
	if l := lineThrough([]float64{0, 1, 1, 0}); math.Abs(l.Rate) > 1e-9 || math.Abs(l.Off-0.5) > 1e-9 {
		t.Errorf("%+v, want .5, and .5 off", l)
	}
}

// Samples are frames of held-out scenes with their boxes.
func TestBoxesSamples(t *testing.T) {
	s := Samples{Dir: filepath.Join(t.TempDir(), "s"), Count: 62, Seed: 9}
	if err := s.WriteBoxes(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(s.Dir, "0061.jpg"))
	if err != nil {
		t.Fatal(err)
	}
	frame := scenes.NewFrame()
	scenes.New(10, scenes.Usual).Draw(frame, 1)
	if want, err := scenes.Encode(frame); err != nil || !bytes.Equal(file, want) {
		t.Errorf("the last sample is not frame 1 of the second scene: %v", err)
	}
	list, err := os.ReadFile(filepath.Join(s.Dir, labelsFile))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(list)).ReadAll()
	want := 1 + 60*len(scenes.New(9, 1).Boxes(0)) + 2*len(scenes.New(10, 1).Boxes(0))
	if err != nil || len(rows) != want || strings.Join(rows[0], ",") != "image,x0,y0,x1,y1" || rows[len(rows)-1][0] != "0061.jpg" {
		t.Errorf("%d rows, want %d, the last %v; %v", len(rows), want, rows[len(rows)-1], err)
	}
	if err := s.WriteBoxes(); err == nil || !strings.Contains(err.Error(), "--force replaces it") {
		t.Errorf("again: %v", err)
	}
	if s.Force, s.Count = true, 0; s.WriteBoxes() == nil {
		t.Error("no sample is written")
	}
}

// measuredDetector opens the detector in the folder that BOXES names, to be measured.
func measuredDetector(t *testing.T) *onnxruntime.Detector {
	t.Helper()
	folder := os.Getenv("BOXES")
	if folder == "" {
		t.Skip("a measurement of minutes, of a detector that models make has made: BOXES=its folder asks for it")
	}
	findONNX(t)
	d, err := onnxruntime.OpenDetector(folder, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// What clients estimate by what they see of a second, in comparison with what they lose, over scenes of all difficulties
// by the model in the folder that BOXES names. Two strides say more of a scene than one.
func TestEstimatesOfDrop(t *testing.T) {
	d := measuredDetector(t)
	const perDifficulty, seconds, stride = 20, 4, 8
	type rates struct{ lost, one, two []float64 } // per frame of stride: what is lost, and estimated by one stride and by two
	add := func(r *rates, lost, one, two float64) {
		r.lost, r.one, r.two = append(r.lost, lost), append(r.one, one), append(r.two, two)
	}
	var scene rates
	for k, difficulty := range []float64{scenes.Calm, scenes.Usual, scenes.Hard} {
		var second rates
		for i := range uint64(perDifficulty) {
			v, err := watch(scenes.New(firstHeldOut+100+i, difficulty), seconds*scenes.FPS+2*stride+1, d.Detect)
			if err != nil {
				t.Fatal(err)
			}
			first := len(second.lost)
			for from := 0; from < seconds*scenes.FPS; from += scenes.FPS {
				drop, seen := make([]float64, 2*stride), make([]float64, 2*stride)
				const starts = scenes.FPS / trackedFrom
				for s := range starts {
					v.track(from+s*trackedFrom, drop, seen)
				}
				const n = starts * stride
				add(&second, drop[2*stride-1]/n/2, seen[stride-1]/n, (seen[2*stride-1]-seen[stride-1])/n)
			}
			add(&scene, mean(second.lost[first:]), mean(second.one[first:]), mean(second.two[first:]))
		}
		of := func(v []float64) []float64 { return v[k*perDifficulty:] }
		t.Logf("difficulty %v: %.4f lost per frame, estimated by one stride %.4f, by two %.4f; correlations of seconds %.2f and %.2f, of scenes %.2f and %.2f",
			difficulty, mean(second.lost), mean(second.one), mean(second.two), correlation(second.lost, second.one), correlation(second.lost, second.two),
			correlation(of(scene.lost), of(scene.one)), correlation(of(scene.lost), of(scene.two)))
		for _, r := range []*rates{{lost: slices.Clone(of(scene.lost))}, {lost: slices.Clone(second.lost)}} {
			slices.Sort(r.lost)
			t.Logf("a tenth of %d loses less than %.4f, and a tenth more than %.4f", len(r.lost), r.lost[len(r.lost)/10], r.lost[len(r.lost)*9/10])
		}
	}
	one, two := correlation(scene.lost, scene.one), correlation(scene.lost, scene.two)
	t.Logf("of all scenes: correlations %.2f and %.2f", one, two)
	if two < one || mean(scene.two) < mean(scene.lost)/1.5 || mean(scene.two) > mean(scene.lost)*1.5 {
		t.Errorf("two strides estimate %.4f for %.4f, with a correlation of %.2f for %.2f of one", mean(scene.two), mean(scene.lost), two, one)
	}
}

func correlation(a, b []float64) float64 {
	var aa, ab, bb float64
	for i := range a {
		x, y := a[i]-mean(a), b[i]-mean(b)
		aa, ab, bb = aa+x*x, ab+x*y, bb+y*y
	}
	return ab / math.Sqrt(aa*bb)
}
