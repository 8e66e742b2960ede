package quality

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gearshift/router/fleet"
)

// topics are the words of made-up prompts, and how often the small and the large size are
// right about them.
var topics = []struct {
	words        string
	small, large float64
}{
	{"prove the theorem by induction over all primes and bound the integral", 0.1, 0.8},
	{"translate this short sentence into french with a polite tone", 0.7, 0.8},
	{"capital city river mountain country population largest continent", 0.9, 0.9},
}

var sizes = []string{"small", "large"}

// made returns n labelled prompts, each of one topic.
func made(n int, seed uint64) (list []Example, topic []int) {
	random := rand.New(rand.NewPCG(seed, 1))
	var f Features
	for range n {
		t := random.IntN(len(topics))
		f.Read(&Prompt{Parts: [][]byte{[]byte(text(t, random))}, Turns: 1}, 7)
		list = append(list, Example{Sample: f.Clone(), Scores: []float32{right(topics[t].small, random), right(topics[t].large, random)}})
		topic = append(topic, t)
	}
	return list, topic
}

func text(topic int, random *rand.Rand) string {
	words := strings.Fields(topics[topic].words)
	random.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	return strings.Join(words[:6], " ")
}

func right(p float64, random *rand.Rand) float32 {
	if random.Float64() < p {
		return 1
	}
	return 0
}

func fit(t testing.TB, examples []Example) (*Regression, [][]float64) {
	t.Helper()
	m, held, err := Fit(examples, sizes, Options{Key: 7, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	return m, held
}

func TestPredictionsAreTrue(t *testing.T) {
	examples, topic := made(1500, 1)
	m, held := fit(t, examples)
	for k, want := range topics {
		var mean [2]float64
		var n float64
		for i := range held {
			if topic[i] == k {
				mean[0], mean[1], n = mean[0]+held[i][0], mean[1]+held[i][1], n+1
			}
		}
		if small, large := mean[0]/n, mean[1]/n; math.Abs(small-want.small) > 0.06 || math.Abs(large-want.large) > 0.06 {
			t.Errorf("topic %d: predicted %.2f and %.2f out of fold, are %.2f and %.2f", k, small, large, want.small, want.large)
		}
	}
	scores := make([]float64, 2)
	if sure := m.Predict(&examples[0].Sample, scores); sure != 1 {
		t.Errorf("a prompt of the fit is sure by %v; want 1", sure)
	}
	for c, score := range scores {
		if low := m.Low(c, score); low >= score || low < score-0.25 {
			t.Errorf("%s: the lower bound of %.2f is %.2f", sizes[c], score, low)
		}
	}
}

// Labels that are drawn at random are predicted no better out of fold than by their mean: a
// calibration that had seen them would be.
func TestNoiseIsNotPredicted(t *testing.T) {
	var wrong, labels float64
	for seed := range uint64(20) {
		examples, _ := made(200, seed)
		random := rand.New(rand.NewPCG(seed, 2))
		for i := range examples {
			examples[i].Scores = []float32{right(0.5, random), right(0.5, random)}
		}
		_, held := fit(t, examples)
		for i, row := range held {
			for c, score := range row {
				d := score - float64(examples[i].Scores[c])
				wrong, labels = wrong+d*d, labels+1
			}
		}
	}
	if mean := wrong / labels; mean < 0.25 {
		t.Errorf("the mean squared error is %.4f; 0.5 for every prompt has 0.25", mean)
	}
}

func TestLowerBoundsHold(t *testing.T) {
	examples, _ := made(600, 2)
	m, _ := fit(t, examples)
	fresh, topic := made(3000, 99)
	below, scores := make([]float64, len(topics)), make([]float64, 2)
	n := make([]float64, len(topics))
	for i := range fresh {
		m.Predict(&fresh[i].Sample, scores)
		below[topic[i]] += m.Low(0, scores[0])
		n[topic[i]]++
	}
	for k := range topics {
		if low := below[k] / n[k]; low > topics[k].small {
			t.Errorf("topic %d: the mean lower bound is %.3f, of scores that are %.3f", k, low, topics[k].small)
		}
	}
}

func TestStrangePromptsAreUnsure(t *testing.T) {
	examples, _ := made(300, 3)
	m, _ := fit(t, examples)
	var f Features
	f.Read(&Prompt{Parts: [][]byte{[]byte("Wie wird ein Sauerteig angesetzt, und wann kommt Salz dazu?")}, Turns: 1}, 7)
	if sure := m.Predict(&f.Sample, make([]float64, 2)); sure != 0 {
		t.Errorf("a prompt of words never met is sure by %v; want 0", sure)
	}
	f.Read(&Prompt{}, 7)
	if sure := m.Predict(&f.Sample, make([]float64, 2)); sure != 0 {
		t.Errorf("an empty prompt is sure by %v; want 0", sure)
	}
}

func TestFitRepeats(t *testing.T) {
	examples, _ := made(200, 4)
	a, _ := fit(t, examples)
	b, _ := fit(t, examples)
	if !bytes.Equal(a.Encode(), b.Encode()) {
		t.Error("the same examples and seed make two models")
	}
}

func TestCopiesAreInOneFold(t *testing.T) {
	examples, _ := made(100, 5)
	for i := range examples {
		examples[i] = examples[i/2]
	}
	folds := divide(examples, Options{Folds: 5})
	for i := 0; i < len(folds); i += 2 {
		if folds[i] != folds[i+1] {
			t.Fatalf("copies %d and %d are in folds %d and %d", i, i+1, folds[i], folds[i+1])
		}
	}
}

func TestUnknownScoresAreLeftOut(t *testing.T) {
	examples, topic := made(1200, 6)
	for i := range examples {
		examples[i].Scores[i%2] = float32(math.NaN())
	}
	_, held := fit(t, examples)
	var sum, n float64
	for i := range held {
		if topic[i] == 0 {
			sum, n = sum+held[i][1]-held[i][0], n+1
		}
	}
	if gain := sum / n; gain < 0.5 {
		t.Errorf("half of the labels show a gain of %.2f where it is 0.7", gain)
	}
}

func TestFitRefuses(t *testing.T) {
	examples, _ := made(30, 7)
	if _, _, err := Fit(examples[:10], sizes, Options{}); !errors.Is(err, ErrTooFew) {
		t.Errorf("10 prompts: %v; want ErrTooFew", err)
	}
	copies := slices.Repeat(examples[:3], 10)
	if _, _, err := Fit(copies, sizes, Options{}); !errors.Is(err, ErrTooFew) {
		t.Errorf("ten copies of 3 prompts: %v; want ErrTooFew", err)
	}
	if _, _, err := Fit(examples, sizes[:1], Options{}); err == nil {
		t.Error("two scores of one column are fitted")
	}
	for _, score := range []float32{-0.1, 1.5, float32(math.Inf(1))} {
		examples[3].Scores = []float32{score, 0}
		if _, _, err := Fit(examples, sizes, Options{}); err == nil {
			t.Errorf("score %v is fitted", score)
		}
	}
	for i := range examples {
		examples[i].Scores = []float32{1, float32(math.NaN())}
	}
	if _, _, err := Fit(examples, sizes, Options{}); !errors.Is(err, ErrTooFew) {
		t.Errorf("a column without labels: %v; want ErrTooFew", err)
	}
}

func TestEncodeAndDecode(t *testing.T) {
	examples, _ := made(120, 8)
	m, _ := fit(t, examples)
	data := m.Encode()
	back, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	a, b := make([]float64, 2), make([]float64, 2)
	for i := range examples {
		if m.Predict(&examples[i].Sample, a); back.Predict(&examples[i].Sample, b) < 0 || !slices.Equal(a, b) {
			t.Fatalf("prompt %d: %v before, %v after", i, a, b)
		}
	}
	if !bytes.Equal(back.Encode(), data) {
		t.Error("encoding again makes other bytes")
	}
	for _, bad := range [][]byte{nil, []byte("GS"), data[:len(data)-1], append(slices.Clone(data), 0), append([]byte("X"), data...)} {
		if _, err := Decode(bad); !errors.Is(err, ErrEncoding) {
			t.Errorf("%d bytes: %v; want ErrEncoding", len(bad), err)
		}
	}
	names := make([]string, MostColumns)
	for i := range names {
		names[i] = fmt.Sprint("size", i)
	}
	for i := range examples {
		examples[i].Scores = slices.Repeat([]float32{1}, MostColumns)
	}
	largest, _, err := Fit(examples, names, Options{Key: 7})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(largest.Encode()); n > 1<<20 {
		t.Errorf("a model of %d columns takes %d bytes; want 1 MB at most", MostColumns, n)
	}
}

func TestLearnerFollowsLabels(t *testing.T) {
	examples, topic := made(400, 9)
	m, _ := fit(t, examples)
	l, p := NewLearner(m), make([]float64, 2)
	at := slices.Index(topic, 2)
	m.Predict(&examples[at].Sample, p)
	before := p[0]
	for i := range examples {
		if topic[i] == 2 {
			l.Learn(&examples[i].Sample, 0, 0, 1)
		}
	}
	l.Regression().Predict(&examples[at].Sample, p)
	if p[0] > before/2 {
		t.Errorf("after %d labels of 0 the score is %.2f; it was %.2f", len(topics), p[0], before)
	}
	m.Predict(&examples[at].Sample, p)
	if p[0] != before {
		t.Error("the model that a learner began with has changed")
	}
	other := slices.Index(topic, 0)
	m.Predict(&examples[other].Sample, p)
	was := p[1]
	if l.Regression().Predict(&examples[other].Sample, p); math.Abs(p[1]-was) > 1e-3 {
		t.Errorf("labels of the small size move the large one from %v to %v", was, p[1])
	}
}

func table(t testing.TB) *fleet.Table {
	t.Helper()
	table, err := fleet.NewTable([]fleet.Task{{Name: "chat", Deadline: 1, Weight: 1, Quality: []float64{0.6, 0.8}}},
		[]fleet.Variant{{Name: "s"}, {Name: "l"}}, []fleet.Host{{Name: "h"}}, []fleet.Replica{{Name: "a"}, {Name: "b", Variant: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestPredictorShrinksTowardTheRow(t *testing.T) {
	examples, topic := made(800, 10)
	m, _ := fit(t, examples)
	p, err := Bind(m, table(t), sizes)
	if err != nil {
		t.Fatal(err)
	}
	var known, strange fleet.Prediction
	p.Predict(&examples[slices.Index(topic, 0)].Sample, 0, &known)
	if gain := known.Quality[1] - known.Quality[0]; !known.Known || gain < 0.4 || known.Low[1] >= known.Quality[1] {
		t.Errorf("a prompt that gains by 0.7 is predicted as %+v", known)
	}
	if g := known.Gains[1]; g < 0.5 || g > 0.9 {
		t.Errorf("few prompts gain more than %.2f; want about 0.7", g)
	}
	var f Features
	f.Read(&Prompt{Parts: [][]byte{[]byte("Wann kommt Salz dazu")}}, 7)
	p.Predict(&f.Sample, 0, &strange)
	if strange.Sure != 0 || strange.Quality[0] != 0.6 || strange.Quality[1] != 0.8 {
		t.Errorf("a strange prompt is predicted as %+v; want the row of its task", strange)
	}
	half, err := Bind(m, table(t), []string{"", "large"})
	if err != nil {
		t.Fatal(err)
	}
	if half.Predict(&examples[0].Sample, 0, &known); known.Quality[0] != 0.6 || known.Low[0] != 0.6 {
		t.Errorf("a variant that is not predicted has %v; want its number in the row", known.Quality[0])
	}
}

func TestBindRefuses(t *testing.T) {
	examples, _ := made(60, 11)
	m, _ := fit(t, examples)
	for _, as := range [][]string{{"small"}, {"small", "huge"}, {"", ""}} {
		if _, err := Bind(m, table(t), as); err == nil {
			t.Errorf("%q is bound", as)
		}
	}
}

func TestPredictAllocatesNothing(t *testing.T) {
	examples, _ := made(100, 12)
	m, _ := fit(t, examples)
	p, err := Bind(m, table(t), sizes)
	if err != nil {
		t.Fatal(err)
	}
	prompt := Prompt{Parts: [][]byte{[]byte(strings.Repeat("How many rivers of 300 km does it take? ", 30))}, Turns: 1, Task: "chat"}
	var f Features
	var out fleet.Prediction
	f.Read(&prompt, 7)
	if n := testing.AllocsPerRun(100, func() { f.Read(&prompt, 7); p.Predict(&f.Sample, 0, &out) }); n != 0 {
		t.Errorf("a prediction allocates %v times", n)
	}
}
