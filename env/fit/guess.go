package fit

import (
	"cmp"
	"math"
	"slices"
)

// guess is where the search begins: rough figures read off the log.
type guess struct {
	weights, token, context float64 // ms
	held                    float64 // tokens in the KV cache at the fullest
	sequences               int     // the most that ran at once
	capped                  bool    // sequences was a limit, not the load
	waited                  bool    // requests waited for room
}

// began is when the request's prefill began, or a bound of it.
func (r *Request) began() float64 {
	if r.Scheduled > r.Arrival {
		return r.Scheduled
	}
	return r.First
}

// guessFrom reads a start off the first requests of the log.
func guessFrom(requests []Request) guess {
	var g guess
	var prefills []float64
	moments := make([]float64, 0, 2*len(requests))
	for i := range requests {
		r := &requests[i]
		prefills = append(prefills, (r.First-r.Scheduled)*1e3/float64(r.PromptTokens))
		moments = append(moments, r.began(), r.Last)
	}
	slices.Sort(moments)
	// A moment's cache is sampled between events.
	var between []float64
	for k := 0; k+1 < len(moments); k++ {
		between = append(between, (moments[k]+moments[k+1])/2)
	}
	held, running := resident(requests, between)
	if len(held) == 0 {
		held, running = []float64{1}, []float64{1}
	}
	g.held = Quantile(held, 0.98)
	g.sequences = int(slices.Max(running))
	atMost := 0
	for _, n := range running {
		if int(n) >= g.sequences-1 {
			atMost++
		}
	}
	waits := 0
	for i := range requests {
		r := &requests[i]
		if r.began()-r.Arrival > 20*math.Max(r.TPOT(), 0.001) {
			waits++
		}
	}
	g.waited = waits*10 > len(requests)
	g.capped = g.waited && g.sequences >= 4 && atMost*3 > len(running)
	g.token = math.Max(Quantile(prefills, 0.1), 1e-5)
	g.weights, g.context = decodeLine(requests)
	return g
}

// resident returns how many tokens the requests hold at each of the times, and how many
// run. It goes through the times in order and looks at those that run alone: a log is
// long compared with what runs at once.
func resident(requests []Request, times []float64) (tokens, running []float64) {
	tokens, running = make([]float64, len(times)), make([]float64, len(times))
	began := inOrder(len(requests), func(i int) float64 { return requests[i].began() })
	var runs []int // in order of the log
	for _, k := range inOrder(len(times), func(k int) float64 { return times[k] }) {
		at := times[k]
		for len(began) > 0 && requests[began[0]].began() <= at {
			place, _ := slices.BinarySearch(runs, began[0])
			runs, began = slices.Insert(runs, place, began[0]), began[1:]
		}
		runs = slices.DeleteFunc(runs, func(i int) bool { return requests[i].Last < at })
		for _, i := range runs {
			r := &requests[i]
			share := math.Max(0, at-r.First) / math.Max(r.Last-r.First, 1e-9)
			tokens[k] += float64(r.PromptTokens) + share*float64(r.OutputTokens)
		}
		running[k] = float64(len(runs))
	}
	return tokens, running
}

// inOrder returns the indexes below n by what they stand for.
func inOrder(n int, value func(i int) float64) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	slices.SortFunc(list, func(i, j int) int { return cmp.Compare(value(i), value(j)) })
	return list
}

// decodeLine parts the time per token of a decode step, in ms, into what every
// step costs and what each cached token adds. The first is held at a fair part of
// the whole, since contexts that hardly vary would leave it open.
func decodeLine(requests []Request) (weights, context float64) {
	type point struct{ held, tpot float64 }
	var points []point
	var middles []float64
	for i := range requests {
		r := &requests[i]
		if tpot := r.TPOT() * 1e3; tpot > 0 {
			points, middles = append(points, point{tpot: tpot}), append(middles, (r.First+r.Last)/2)
		}
	}
	if len(points) == 0 {
		return 10, 1e-4
	}
	held, _ := resident(requests, middles)
	for i := range points {
		points[i].held = held[i]
	}
	slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.tpot, b.tpot) })
	middle := points[len(points)/2]
	const share = 0.75
	return share * middle.tpot, (1 - share) * middle.tpot / math.Max(middle.held, 1)
}

// Quantile returns the q-quantile of values, which it leaves as they are.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}
