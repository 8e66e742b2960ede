// Package subjects has questions of 29 subjects, from law to algebra: texts whose class is known. Half are to
// train classifiers by, a quarter to learn which classifier knows what, and a quarter to judge both by.
package subjects

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed" // of the questions
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
)

//go:embed data/questions.jsonl.gz
var packed []byte

// Question is a text and its subject.
type Question struct {
	Prompt string `json:"prompt"`
	Group  string `json:"group"` // the name of the subject
	Label  int    `json:"-"`     // its index among [Set.Subjects]
}

// Set is all questions, subject by subject.
type Set struct {
	Subjects  []string // sorted
	Questions []Question
}

// Load returns the questions. They are shared: callers do not change them.
var Load = sync.OnceValues(func() (*Set, error) {
	s, err := read(packed)
	if err != nil {
		return nil, fmt.Errorf("cannot read the questions of subjects: %w", err)
	}
	return s, nil
})

func read(zipped []byte) (*Set, error) {
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, err
	}
	s := new(Set)
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		var q Question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		s.Questions = append(s.Questions, q)
		s.Subjects = append(s.Subjects, q.Group)
	}
	slices.Sort(s.Subjects)
	s.Subjects = slices.Compact(s.Subjects)
	for i := range s.Questions {
		s.Questions[i].Label, _ = slices.BinarySearch(s.Subjects, s.Questions[i].Group)
	}
	return s, lines.Err()
}

// Split is the questions in three parts. No question is in two of them.
type Split struct {
	Training []Question // half of each subject, for classifiers
	Fitting  []Question // a quarter, to learn which classifier knows what
	HeldOut  []Question // a quarter, which nothing is chosen by
}

// splitStream is the stream of random numbers that divides.
const splitStream = 0x7375626a

// Split divides each subject by the seed.
func (s *Set) Split(seed uint64) *Split {
	random := rand.New(rand.NewPCG(seed, splitStream))
	of := make([][]Question, len(s.Subjects))
	for _, q := range s.Questions {
		of[q.Label] = append(of[q.Label], q)
	}
	split := new(Split)
	for _, list := range of {
		random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		half, rest := len(list)/2, len(list)*3/4
		split.Training = append(split.Training, list[:half]...)
		split.Fitting = append(split.Fitting, list[half:rest]...)
		split.HeldOut = append(split.HeldOut, list[rest:]...)
	}
	for _, part := range [][]Question{split.Training, split.Fitting, split.HeldOut} {
		random.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
	}
	return split
}
