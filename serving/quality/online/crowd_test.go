package online

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func trustsNone(string) bool { return false }

// votes returns n true scores of a key.
func (c *corpus) votes(random *rand.Rand, owner string, n int) (list []vote) {
	for _, l := range c.labels(random, owner, n, truth) {
		list = append(list, vote{owner, l.Variant, l.Score, &l.Sample})
	}
	return list
}

func TestFewKeysTeachNothingToOthers(t *testing.T) {
	c, random := newCorpus(t), rand.New(rand.NewPCG(1, 1))
	two := append(c.votes(random, "a", 50), c.votes(random, "b", 50)...)
	for _, x := range []struct {
		name   string
		alone  bool
		trusts func(string) bool
		a, b   float64
	}{
		{"two", false, trustsNone, 0, 0},
		{"one trusted", false, func(owner string) bool { return owner == "a" }, 1, 0},
		{"no other to be harmed", true, trustsNone, 1, 1},
	} {
		w := newCrowd(x.trusts).weigh(c.model, two, x.alone, 0)
		if w[0] != x.a || w[50] != x.b {
			t.Errorf("%s: weights %v and %v, want %v and %v", x.name, w[0], w[50], x.a, x.b)
		}
	}
}

func TestAKeyTeachesAfterSomeScores(t *testing.T) {
	c, random := newCorpus(t), rand.New(rand.NewPCG(1, 1))
	x := newCrowd(trustsNone)
	var votes []vote
	for k := range 3 {
		votes = append(votes, c.votes(random, fmt.Sprint(k), 60)...)
	}
	x.weigh(c.model, votes, false, 0)
	for _, want := range []bool{false, true} {
		w := x.weigh(c.model, c.votes(random, "new", leastVotes-1), false, 0)
		if taught := w[0] > 0; taught != want {
			t.Errorf("a score of the new key weighs %v", w[0])
		}
	}
}

// Where all keys find answers worse than predicted, that is learned.
func TestKeysThatAgreeAreBelieved(t *testing.T) {
	c, random := newCorpus(t), rand.New(rand.NewPCG(1, 1))
	var votes []vote
	for k := range 4 {
		votes = append(votes, c.votes(random, fmt.Sprint(k), 100)...)
	}
	for i := range votes {
		votes[i].score *= 0.3
	}
	for i, w := range newCrowd(trustsNone).weigh(c.model, votes, false, 0) {
		if w < 0.5*3/manyVoters {
			t.Fatalf("score %d of key %s weighs %.3f", i, votes[i].owner, w)
		}
	}
}

// A key that scores most of all teaches as much as the median key in an hour, and may go on as
// that passes.
func TestNoKeyTeachesMoreThanTheMedian(t *testing.T) {
	c, random := newCorpus(t), rand.New(rand.NewPCG(1, 1))
	x := newCrowd(trustsNone)
	taught := func(now time.Duration, eager int) (n int) {
		votes := c.votes(random, "eager", eager)
		for k := range 4 {
			votes = append(votes, c.votes(random, fmt.Sprint(k), 40)...)
		}
		for i, w := range x.weigh(c.model, votes, false, now) {
			if votes[i].owner == "eager" && w > 0 {
				n++
			}
		}
		return n
	}
	for _, s := range []struct {
		at         time.Duration
		scores, of int
	}{{0, 40, 500}, {time.Minute, 40, 500}, {48 * time.Hour, 30, 30}} {
		if n := taught(s.at, s.of); n < s.scores-2 || n > s.scores+2 {
			t.Errorf("after %v: learned from %d of %d scores, want %d", s.at, n, s.of, s.scores)
		}
	}
}

func TestFewRecordsAreKept(t *testing.T) {
	x := newCrowd(trustsNone)
	for i := range 3 * mostVoters {
		for range 1 + i%2 {
			x.of(fmt.Sprint(i)).note(vote{})
		}
	}
	if n := len(x.owners); n != mostVoters {
		t.Errorf("records of %d keys, want %d", n, mostVoters)
	}
	for range 2 * mostVotes {
		x.of("a").note(vote{})
	}
	if n := len(x.of("a").last); n != mostVotes {
		t.Errorf("%d scores of a key, want %d", n, mostVotes)
	}
}
