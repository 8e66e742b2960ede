package env

import (
	"math"
	"time"

	"gearshift/env/engine"
)

// idle sorts after every event.
const idle = time.Duration(math.MaxInt64)

// hostHeap orders the hosts by their next event; ties go to the lower index,
// so that runs repeat exactly. It is an indexed binary heap, as events move one
// host at a time.
type hostHeap struct {
	hosts []*engine.Host
	at    []time.Duration // by host
	heap  []int           // hosts
	index []int           // by host: its position in heap
}

func newHostHeap(hosts []*engine.Host) hostHeap {
	q := hostHeap{hosts: hosts}
	for i := range hosts {
		q.at = append(q.at, idle)
		q.heap = append(q.heap, i)
		q.index = append(q.index, i)
	}
	return q
}

func (q *hostHeap) top() int { return q.heap[0] }

func (q *hostHeap) first() (time.Duration, bool) {
	at := q.at[q.heap[0]]
	return at, at != idle
}

// fix rereads a host's next event and restores the order.
func (q *hostHeap) fix(host int) {
	at, ok := q.hosts[host].Next()
	if !ok {
		at = idle
	}
	q.at[host] = at
	if !q.down(q.index[host]) {
		q.up(q.index[host])
	}
}

func (q *hostHeap) less(i, j int) bool {
	a, b := q.heap[i], q.heap[j]
	return q.at[a] < q.at[b] || q.at[a] == q.at[b] && a < b
}

func (q *hostHeap) swap(i, j int) {
	h := q.heap
	h[i], h[j] = h[j], h[i]
	q.index[h[i]], q.index[h[j]] = i, j
}

func (q *hostHeap) up(i int) {
	for i > 0 && q.less(i, (i-1)/2) {
		q.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (q *hostHeap) down(i int) (moved bool) {
	for {
		child := 2*i + 1
		if child >= len(q.heap) {
			return moved
		}
		if right := child + 1; right < len(q.heap) && q.less(right, child) {
			child = right
		}
		if !q.less(child, i) {
			return moved
		}
		q.swap(i, child)
		i, moved = child, true
	}
}
