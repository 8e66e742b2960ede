package placement

import (
	"container/heap"
	"math"
	"slices"
)

// upgrade is a step of an application to a level.
type upgrade struct {
	application, level int
	ratio              float64
}

// upgrades is a heap with the best ratio on top.
type upgrades []upgrade

func (u upgrades) Len() int { return len(u) }
func (u upgrades) Less(i, j int) bool {
	return u[i].ratio > u[j].ratio || u[i].ratio == u[j].ratio && u[i].application < u[j].application
}
func (u upgrades) Swap(i, j int) { u[i], u[j] = u[j], u[i] }
func (u *upgrades) Push(x any)   { *u = append(*u, x.(upgrade)) }
func (u *upgrades) Pop() any {
	last := (*u)[len(*u)-1]
	*u = (*u)[:len(*u)-1]
	return last
}

// bins is a heap with the most room on top.
type bins struct {
	list  []int     // bins, in the heap's order
	at    []int     // by bin, its index in the list
	rooms []float64 // by bin
	queue []int     // of first
	// squares is by how much the sum of the squares of rooms has changed.
	squares float64
}

func (h *bins) Len() int { return len(h.list) }
func (h *bins) Less(i, j int) bool {
	x, y := h.list[i], h.list[j]
	return h.rooms[x] > h.rooms[y] || h.rooms[x] == h.rooms[y] && x < y
}
func (h *bins) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.at[h.list[i]], h.at[h.list[j]] = i, j
}
func (h *bins) Push(any) { panic("placement: bins are not added") }
func (h *bins) Pop() any { panic("placement: bins are not removed") }

// changed notes the bin's room.
func (h *bins) changed(bin int, room float64) {
	if math.Abs(room-h.rooms[bin]) > 0 {
		h.squares += room*room - h.rooms[bin]*h.rooms[bin]
		h.rooms[bin] = room
		heap.Fix(h, h.at[bin])
	}
}

// first is the first bin, from the most room on, that is ok; −1 if there is none, or the
// search is over before. It goes through the heap without changing it.
func (h *bins) first(try func(bin int) (ok, over bool)) int {
	if len(h.list) == 0 {
		return -1
	}
	h.queue = append(h.queue[:0], 0)
	for len(h.queue) > 0 {
		best := 0
		for k := range h.queue {
			if h.Less(h.queue[k], h.queue[best]) {
				best = k
			}
		}
		at := h.queue[best]
		h.queue = slices.Delete(h.queue, best, best+1)
		ok, over := try(h.list[at])
		switch {
		case ok:
			return h.list[at]
		case over:
			return -1
		}
		for _, child := range []int{2*at + 1, 2*at + 2} {
			if child < len(h.list) {
				h.queue = append(h.queue, child)
			}
		}
	}
	return -1
}
