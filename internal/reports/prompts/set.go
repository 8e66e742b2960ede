package prompts

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"gearshift/internal/quality/labels"
	"gearshift/router/quality"
	"gearshift/workloads/prompts"
)

// key hashes words: figures do not depend on a store.
const key = 0x70726f6d707473

// set is labelled prompts of some models, and which of them are compared.
type set struct {
	*prompts.Set
	examples []quality.Example
	pairs    []pair
}

// pair is two columns, of which the larger model's is large.
type pair struct{ small, large int }

// compared are the pairs of the packed prompts: a small model of each family with a large one.
var compared = [][2]string{
	{"llama-3.1-8b-instruct", "llama-3.1-nemotron-51b-instruct"},
	{"llama-3.1-8b-instruct", "llama-3.3-nemotron-super-49b-v1"},
	{"qwen2.5-7b-instruct", "llama-3.1-nemotron-51b-instruct"},
	{"llama3-chatqa-1.5-8b", "llama3-chatqa-1.5-70b"},
}

// usual is the pair of the packed prompts that is looked at by number of labels.
const usual = 2

// check sets how long runs are, and reads all prompts.
func (s *study) check() error {
	s.requests, s.steady = 10_000, steady
	if s.Quick {
		s.requests = 5000
	}
	return s.read()
}

// read reads all prompts. A file's pair is the model with the lowest and the one with the highest
// mean score.
func (s *study) read() error {
	packed, err := prompts.BuiltIn(prompts.NineModels)
	if err != nil {
		return err
	}
	var names []string
	for _, p := range compared {
		for _, name := range p {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	nine := newSet(packed.Of(names))
	for _, p := range compared {
		nine.pairs = append(nine.pairs, pair{slices.Index(names, p[0]), slices.Index(names, p[1])})
	}
	s.sets = []*set{nine}
	for _, file := range s.files {
		given, err := labels.Read([]string{file}, labels.Options{})
		if err != nil {
			return err
		}
		name, _, _ := strings.Cut(filepath.Base(file), ".")
		all := &prompts.Set{Name: name, Columns: given.Columns}
		for _, p := range given.Prompts {
			all.Prompts = append(all.Prompts, prompts.Prompt(p))
		}
		x := newSet(all)
		if by := x.byMean(); len(by) > 1 {
			x.pairs = []pair{{by[0], by[len(by)-1]}}
		}
		s.sets = append(s.sets, x)
	}
	return nil
}

func newSet(p *prompts.Set) *set {
	x := &set{Set: p}
	var f quality.Features
	for i := range p.Prompts {
		f.Read(&quality.Prompt{Parts: [][]byte{[]byte(p.Prompts[i].Text)}, Task: p.Prompts[i].Task, Turns: 1}, key)
		x.examples = append(x.examples, quality.Example{Sample: f.Sample.Clone(), Scores: p.Prompts[i].Scores})
	}
	return x
}

// byMean returns the columns in the order of their mean scores.
func (x *set) byMean() []int {
	means, by := x.Means(), make([]int, len(x.Columns))
	for c := range by {
		by[c] = c
	}
	slices.SortStableFunc(by, func(a, b int) int { return cmp.Compare(means[a], means[b]) })
	return by
}

// name names a pair.
func (x *set) name(p pair) string { return x.Columns[p.small] + " / " + x.Columns[p.large] }

// of returns the examples at some places.
func (x *set) of(places []int) []quality.Example {
	list := make([]quality.Example, len(places))
	for i, at := range places {
		list[i] = x.examples[at]
	}
	return list
}

// at returns the set of the prompts at some places.
func (x *set) at(places []int) *set {
	y := &set{Set: &prompts.Set{Name: x.Name, Columns: x.Columns}, examples: x.of(places), pairs: x.pairs}
	for _, i := range places {
		y.Prompts = append(y.Prompts, x.Prompts[i])
	}
	return y
}

// only returns the set with the columns of one pair.
func (x *set) only(p pair) *set {
	y := newSet(x.Set.Of([]string{x.Columns[p.small], x.Columns[p.large]}))
	y.pairs = []pair{{0, 1}}
	return y
}

// groups lists the groups in the order in which they occur; none if the prompts have none.
func (x *set) groups() (list []string) {
	for i := range x.Prompts {
		if g := x.Prompts[i].Group; g != "" && !slices.Contains(list, g) {
			list = append(list, g)
		}
	}
	return list
}
