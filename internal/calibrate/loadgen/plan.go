package loadgen

import (
	"fmt"
	"slices"
)

// Cell is a controlled load: so many requests at once, of one prompt length, to
// one engine, next to load on some of the others.
type Cell struct {
	Engine  int // 0 is the engine measured, then its neighbours
	Batch   int
	Prompt  int // tokens wanted; what came of it is the engine's to say
	Output  int // tokens; 1 for the first token alone
	Loaded  []int
	Samples int // so far
	dropped bool
}

// name is the cell's load in words, without the neighbours.
func (c *Cell) name() string {
	if c.Output == 1 {
		return fmt.Sprintf("first token after %d", c.Prompt)
	}
	return fmt.Sprintf("%d × %d tokens", c.Batch, c.Prompt)
}

// loads are the sets of neighbours that are loaded together: each one alone, and
// all.
func loads(neighbours int) [][]int {
	var sets [][]int
	var all []int
	for i := range neighbours {
		sets = append(sets, []int{1 + i})
		all = append(all, 1+i)
	}
	if neighbours > 1 {
		sets = append(sets, all)
	}
	return sets
}

// plan is the cells of a measurement. The engine itself has them all; its
// neighbours some, which show how much of a step of theirs can be felt.
func plan(c *Config) []*Cell {
	var cells []*Cell
	add := func(engine, batch, prompt, output int, loaded []int) {
		cells = append(cells, &Cell{Engine: engine, Batch: batch, Prompt: prompt, Output: output, Loaded: loaded})
	}
	short, middle, long := thirds(c.Prompts)
	few, several, many := thirds(c.Batches)
	for _, prompt := range c.Prompts {
		add(0, 1, prompt, 1, nil)
	}
	for _, batch := range c.Batches {
		for _, prompt := range compact(short, middle, long) {
			add(0, batch, prompt, c.Output, nil)
		}
	}
	for i := range c.Neighbours {
		for _, prompt := range c.Prompts {
			add(1+i, 1, prompt, 1, nil)
		}
		for _, batch := range compact(few, loadBatch, many) {
			add(1+i, batch, short, c.Output, nil)
			add(1+i, batch, long, c.Output, nil)
		}
	}
	for _, loaded := range loads(len(c.Neighbours)) {
		for _, batch := range compact(few, several, many) {
			for _, prompt := range compact(short, middle) {
				add(0, batch, prompt, c.Output, loaded)
			}
		}
		for _, prompt := range compact(short, middle, long) {
			add(0, 1, prompt, 1, loaded)
		}
	}
	return cells
}

// thirds are the first, the middle and the last of a list.
func thirds(list []int) (first, middle, last int) {
	return list[0], list[len(list)/2], list[len(list)-1]
}

func compact(values ...int) []int {
	slices.Sort(values)
	return slices.Compact(values)
}
