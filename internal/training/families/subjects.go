package families

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"gearshift/rl/supervised"
	"gearshift/serving/backend/models"
	"gearshift/serving/backend/tokenizer"
	"gearshift/workloads/subjects"
)

// SubjectsSizes are those of the family: the large one knows more words, is right more often, and takes many
// times as long.
func SubjectsSizes() []models.Size {
	return []models.Size{{Name: "small", Layers: 1, Width: 8}, {Name: "large", Layers: 2, Width: 3072}}
}

const (
	mostSubjectsWidth = 4096
	subjectsContext   = 1024 // tokens, more than a question has bytes
	// subjectsSteps is for how many steps a wide model is trained. A narrow one, whose steps take less, is trained longer.
	subjectsSteps = 100
	// wordsOfWidth is the number of words that a model knows for each of its width, up to mostWords.
	wordsOfWidth = 8
	mostWords    = 6000
)

var subjectsTraining = supervised.Config{Batch: 64, Rate: 1e-3, Clip: 1}

// subjectsRate is the learning rate of a width: the fewer weights there are, the further each has to go.
func subjectsRate(width int) float64 { return max(subjectsTraining.Rate, 0.16/float64(width)) }

// MakeSubjects trains a classifier of texts and writes its folder: model.onnx, config.json, tokenizer.json and
// quality.json. The folder is whole or not there.
func MakeSubjects(ctx context.Context, o MakeOptions) (*Made, error) {
	if o.Size.Width > mostSubjectsWidth {
		return nil, fmt.Errorf("--size %s=%dx%d: a model of subjects is at most %d wide", o.Size.Name, o.Size.Layers, o.Size.Width, mostSubjectsWidth)
	}
	m := &Made{Folder: filepath.Join(o.Dir, o.Size.Name)}
	if err := models.Vacant(m.Folder, o.Force); err != nil {
		return nil, err
	}
	set, err := subjects.Load()
	if err != nil {
		return nil, err
	}
	o.Steps = cmp.Or(o.Steps, subjectsSteps*(1+min(5, 512/o.Size.Width)))
	began := time.Now()
	split := set.Split(o.Seed)
	t, err := trainSubjects(ctx, o.Size, set, split, o.Seed, o.Steps, reportSteps(o.Steps, began, o.Progress))
	if err != nil {
		return nil, err
	}
	m.Training, m.Parameters = time.Since(began), t.network.Parameters()
	files := t.fusion().Files()
	q := &SubjectsQuality{Model: o.Size.Name, Seed: o.Seed, Steps: o.Steps, Words: len(t.words)}
	m.Quality = q
	if err := q.countBy(t, files, split.HeldOut); err != nil {
		return nil, err
	}
	if files[QualityFile], err = json.MarshalIndent(q, "", "  "); err != nil {
		return nil, err
	}
	return m, models.Write(m.Folder, files, o.Force)
}

// trainedSubjects is a network that has learnt, and how it reads texts.
type trainedSubjects struct {
	labels    []string
	words     []string
	weights   []float32 // of each token: how rare it is
	tokenizer *tokenizer.Tokenizer
	network   *supervised.Network
}

// trainSubjects trains a network of the size with so many steps.
func trainSubjects(ctx context.Context, size models.Size, set *subjects.Set, split *subjects.Split, seed uint64, steps int, progress func(supervised.Progress)) (*trainedSubjects, error) {
	t := &trainedSubjects{labels: set.Subjects, words: wordsOf(split.Training, min(mostWords, wordsOfWidth*size.Width))}
	var err error
	if t.tokenizer, err = tokenizer.Parse(models.WordTokenizer(t.words)); err != nil {
		return nil, err
	}
	texts := make([][]int64, len(split.Training))
	for i, q := range split.Training {
		texts[i] = t.tokenizer.Prompt(q.Prompt)
	}
	t.weigh(texts)
	encoder := supervised.Encoder{
		Name: "text", Inputs: len(t.weights), Each: []int{size.Width}, Groups: []int{0}, Whole: slices.Repeat([]int{size.Width}, size.Layers-1),
	}
	if t.network, err = supervised.New([]supervised.Encoder{encoder}, len(t.labels), rand.New(rand.NewPCG(seed, weightStream))); err != nil {
		return nil, err
	}
	c := subjectsTraining
	c.Steps, c.Rate = steps, subjectsRate(size.Width)
	fill := func(step, row int, features [][]float32) int {
		i := rand.New(rand.NewPCG(seed, exampleStream+uint64(step)<<16+uint64(row)<<40)).IntN(len(texts))
		t.features(features[0], texts[i])
		return split.Training[i].Label
	}
	if err := supervised.Train(ctx, t.network, c, fill, progress); err != nil {
		return nil, fmt.Errorf("cannot train the model of subjects: %w", err)
	}
	return t, nil
}

// piece is a word with the space before it, as a byte-level tokenizer cuts text.
var piece = regexp.MustCompile(` ?\pL+| ?\pN+| ?[^\s\pL\pN]+`)

// wordsOf are the words of most questions, the most frequent first.
func wordsOf(questions []subjects.Question, most int) (words []string) {
	in := map[string]int{}
	for _, q := range questions {
		found := piece.FindAllString(q.Prompt, -1)
		slices.Sort(found)
		for _, w := range slices.Compact(found) {
			if in[w]++; in[w] == 2 && len(w) > 1 { // what only one question has says nothing
				words = append(words, w)
			}
		}
	}
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(in[b]-in[a], strings.Compare(a, b)) })
	return words[:min(most, len(words))]
}

// weigh sets the weights: the rarer a token among texts, the more it says. They are scaled so that a text's
// features together are as large as the network's first weights expect.
func (t *trainedSubjects) weigh(texts [][]int64) {
	in := make([]float64, t.tokenizer.Size())
	for _, text := range texts {
		sorted := slices.Clone(text)
		slices.Sort(sorted)
		for _, id := range slices.Compact(sorted) {
			in[id]++
		}
	}
	n := float64(len(texts))
	t.weights = make([]float32, len(in))
	scale := math.Sqrt(float64(len(in))) / math.Log1p(n)
	for i, k := range in {
		t.weights[i] = float32(scale * math.Log((1+n)/(1+k)))
	}
}

// features writes the weights of a text's tokens, divided by the root of their number.
func (t *trainedSubjects) features(dst []float32, text []int64) {
	clear(dst)
	share := float32(1 / math.Sqrt(float64(max(1, len(text)))))
	for _, id := range text {
		dst[id] += share * t.weights[id]
	}
}

// classify returns the network's answer to a text.
func (t *trainedSubjects) classify(prompt string) int {
	x := make([]float32, len(t.weights))
	t.features(x, t.tokenizer.Prompt(prompt))
	return likeliest(t.network.Logits([][]float32{x}))
}

// fusion is the network as a model that is served: the weights of tokens are part of its first layer.
func (t *trainedSubjects) fusion() *models.Fusion {
	e := &models.TextEncoder{Context: subjectsContext, Words: t.words}
	for i, l := range t.network.Parts[0].Layers {
		d := models.Dense{Weights: l.Weights, Bias: l.Biases}
		if i > 0 {
			e.Whole = append(e.Whole, d)
			continue
		}
		d.Weights = slices.Clone(d.Weights)
		for id, weight := range t.weights {
			for k := range l.Out {
				d.Weights[id*l.Out+k] *= weight
			}
		}
		e.Each = append(e.Each, d)
	}
	return &models.Fusion{Labels: t.labels, Text: e}
}
