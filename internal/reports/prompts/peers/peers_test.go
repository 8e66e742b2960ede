package peers_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gearshift/internal/reports/prompts/peers"
	"gearshift/router/quality"
)

// topics returns prompts of two topics. The first model is right of one and the second of the other,
// nine times of ten; a third is right half of the time.
func topics(n int) []quality.Example {
	random := rand.New(rand.NewPCG(1, 2))
	var f quality.Features
	list := make([]quality.Example, n)
	for i := range list {
		text := ""
		for range 6 {
			text += fmt.Sprintf("%s%d ", []string{"sum", "verb"}[i%2], random.IntN(20))
		}
		f.Read(&quality.Prompt{Parts: [][]byte{[]byte(text)}, Turns: 1}, 1)
		scores := []float32{float32(1 - i%2), float32(i % 2), float32(random.IntN(2))}
		if random.IntN(10) == 0 {
			scores[0], scores[1] = scores[1], scores[0]
		}
		list[i] = quality.Example{Sample: f.Sample.Clone(), Scores: scores}
	}
	return list
}

type predictor interface {
	Predict(s *quality.Sample, dst []float64)
}

// Each predictor knows the better model of prompts that it has not seen, and predicts the same again.
func TestTheBetterModelIsPredicted(t *testing.T) {
	all := topics(400)
	train, test := all[:300], all[300:]
	for name, fit := range map[string]func() predictor{
		"neighbours": func() predictor { return peers.NewNeighbours(train, 3, 20) },
		"factors":    func() predictor { return peers.NewFactors(train, 3, 1) },
	} {
		first, again := fit(), fit()
		right := 0
		for i := range test {
			var got, same [3]float64
			first.Predict(&test[i].Sample, got[:])
			again.Predict(&test[i].Sample, same[:])
			if got != same {
				t.Fatalf("%s: %v, and again %v", name, got, same)
			}
			if (got[0] > got[1]) == (i%2 == 0) {
				right++
			}
		}
		if right < 98 {
			t.Errorf("%s: %d of %d are right", name, right, len(test))
		}
	}
}

// Scores of factors are near the labels' in the mean, and differ by model as these do.
func TestScoresOfFactors(t *testing.T) {
	all := topics(1000)
	f := peers.NewFactors(all[:800], 3, 1)
	var means [2][3]float64 // by topic and model
	for i := range all[800:] {
		var got [3]float64
		f.Predict(&all[800+i].Sample, got[:])
		for c, y := range got {
			means[i%2][c] += y / 100
		}
	}
	for topic, want := range [][3]float64{{.9, .1, .5}, {.1, .9, .5}} {
		for c := range want {
			if math.Abs(means[topic][c]-want[c]) > 0.15 {
				t.Errorf("topic %d, model %d: %.2f, want about %.2f", topic, c, means[topic][c], want[c])
			}
		}
	}
}

// A prediction is the mean of the nearest prompts' scores that are known, or else of all.
func TestNeighboursKnowWhatTheyHave(t *testing.T) {
	nan := float32(math.NaN())
	var f quality.Features
	var list []quality.Example
	for _, p := range []struct {
		text   string
		scores []float32
	}{{"red apple", []float32{1, nan}}, {"red apple pie", []float32{0, nan}}, {"blue sky", []float32{0, 1}}, {"blue sea", []float32{0, 0.5}}} {
		f.Read(&quality.Prompt{Parts: [][]byte{[]byte(p.text)}}, 1)
		list = append(list, quality.Example{Sample: f.Sample.Clone(), Scores: p.scores})
	}
	n := peers.NewNeighbours(list, 2, 2)
	got := make([]float64, 2)
	for text, want := range map[string][]float64{"red apple": {0.5, 0.75}, "blue": {0, 0.75}} {
		f.Read(&quality.Prompt{Parts: [][]byte{[]byte(text)}}, 1)
		if n.Predict(&f.Sample, got); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
