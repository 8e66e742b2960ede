package tokenizer

import "container/heap"

// word appends the tokens of a piece of text that merges do not cross: its bytes,
// of which the pair with the lowest rank is merged until there is none.
func (t *Tokenizer) word(ids []int64, text string) []int64 {
	if text == "" {
		return ids
	}
	if t.whole {
		if id, ok := t.ids[text]; ok {
			return append(ids, id)
		}
	}
	w := newChain(text, t.ranks)
	for w.pairs.Len() > 0 {
		w.merge(heap.Pop(&w.pairs).(pair))
	}
	for i := 0; i < len(text); i = w.end[i] {
		ids = append(ids, t.ids[text[i:w.end[i]]])
	}
	return ids
}

// chain is the parts of a word, each known by where it begins. A heap holds the
// pairs that can be merged, so that long texts take n log n.
type chain struct {
	text  string
	ranks map[[2]string]int
	end   []int // of the part that begins here; 0: none does
	prev  []int // where the part before begins
	pairs pairs
}

// pair is two neighbours as they were when found.
type pair struct {
	rank                int
	begin, middle, stop int
}

func newChain(text string, ranks map[[2]string]int) *chain {
	c := &chain{text: text, ranks: ranks, end: make([]int, len(text)), prev: make([]int, len(text))}
	for i := range c.end {
		c.end[i], c.prev[i] = i+1, i-1
	}
	for i := range c.end {
		c.find(i)
	}
	return c
}

// find puts the pair that begins with the part on the heap.
func (c *chain) find(begin int) {
	if begin < 0 || c.end[begin] == len(c.text) {
		return
	}
	middle := c.end[begin]
	stop := c.end[middle]
	if rank, ok := c.ranks[[2]string{c.text[begin:middle], c.text[middle:stop]}]; ok {
		heap.Push(&c.pairs, pair{rank, begin, middle, stop})
	}
}

// merge makes one part of the pair, if both are still there.
func (c *chain) merge(p pair) {
	if c.end[p.begin] != p.middle || c.end[p.middle] != p.stop {
		return
	}
	c.end[p.begin], c.end[p.middle] = p.stop, 0
	if p.stop < len(c.text) {
		c.prev[p.stop] = p.begin
	}
	c.find(p.begin)
	c.find(c.prev[p.begin])
}

// pairs is a heap by rank, then position.
type pairs []pair

func (p pairs) Len() int { return len(p) }
func (p pairs) Less(i, j int) bool {
	return p[i].rank < p[j].rank || p[i].rank == p[j].rank && p[i].begin < p[j].begin
}
func (p pairs) Swap(i, j int) { p[i], p[j] = p[j], p[i] }
func (p *pairs) Push(x any)   { *p = append(*p, x.(pair)) }
func (p *pairs) Pop() any {
	last := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return last
}
