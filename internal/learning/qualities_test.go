package learning_test

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"gearshift/internal/learning"
)

// score has keys give so many scores each, right with the probability of the variant.
func score(q *learning.Qualities, random *rand.Rand, keys, each int, right ...float64) {
	for k := range keys {
		for n := range each {
			v := n % len(right)
			s := 0.0
			if random.Float64() < right[v] {
				s = 1
			}
			q.Add("key"+strconv.Itoa(k), 0, v, s)
		}
	}
}

func TestMeansReplaceGuesses(t *testing.T) {
	table := builtin(t, "tiny").Table()
	nobody := func(string) bool { return false }
	random := rand.New(rand.NewPCG(1, 1))

	few := learning.NewQualities(table, nobody)
	score(few, random, 2, 400, 0.5, 0.9)
	if _, ok := few.Task(0, false); ok {
		t.Error("two keys decide")
	}
	score(few, random, 3, 400, 0.5, 0.9)
	means, ok := few.Task(0, false)
	if !ok || means[0].Mean < 0.4 || means[0].Mean > 0.6 || means[1].Mean < 0.8 || means[0].Keys != 3 {
		t.Errorf("three keys: %v %+v", ok, means)
	}
	if p := few.Predictions(false); !p[0].Known || p[1].Known || p[0].Low[0] >= p[0].Quality[0] {
		t.Errorf("%+v", p)
	}

	level := learning.NewQualities(table, nobody)
	score(level, random, 3, 60, 0.7, 0.7)
	if _, ok := level.Task(0, false); ok {
		t.Error("means that do not differ for certain replace the guess")
	}

	one := learning.NewQualities(table, nobody)
	score(one, random, 1, 400, 0.5, 0.9)
	if _, ok := one.Task(0, true); !ok {
		t.Error("the only key does not count")
	}
	if _, ok := learning.NewQualities(table, nobody).Task(0, true); ok {
		t.Error("something was learned from nothing")
	}

	// One of four keys lies: the medians stay where the others are.
	lied := learning.NewQualities(table, nobody)
	score(lied, random, 3, 400, 0.5, 0.9)
	for range 5000 {
		lied.Add("liar", 0, 0, 1)
		lied.Add("liar", 0, 1, 0)
	}
	if means, ok := lied.Task(0, false); !ok || means[0].Mean > 0.65 || means[1].Mean < 0.75 {
		t.Errorf("a liar among four: %v %+v", ok, means)
	}
}
