package env

import (
	"math"
	"time"
)

// idle sorts after every event.
const idle = time.Duration(math.MaxInt64)

// hostHeap orders the hosts by their next event; ties go to the lower index,
// so that runs repeat exactly. It is an indexed binary heap, as events move one
// host at a time.
type hostHeap struct {
	laws  []Law
	at    []time.Duration // by host
	order []int32         // hosts: the heap
	index []int32         // by host: its position in order
}

func newHostHeap(laws []Law) hostHeap {
	q := hostHeap{laws: laws}
	for i := range laws {
		q.at = append(q.at, idle)
		q.order = append(q.order, int32(i))
		q.index = append(q.index, int32(i))
	}
	return q
}

func (q *hostHeap) top() int { return int(q.order[0]) }

func (q *hostHeap) first() (time.Duration, bool) {
	at := q.at[q.order[0]]
	return at, at != idle
}

// fix rereads a host's next event and restores the order.
func (q *hostHeap) fix(host int) {
	at, ok := q.laws[host].Next()
	if !ok {
		at = idle
	}
	was := q.at[host]
	q.at[host] = at
	switch i := int(q.index[host]); {
	case at < was:
		q.rise(i)
	case at > was:
		q.sink(i)
	}
}

func (q *hostHeap) before(a, b int32) bool {
	return q.at[a] < q.at[b] || q.at[a] == q.at[b] && a < b
}

func (q *hostHeap) put(i int, host int32) { q.order[i], q.index[host] = host, int32(i) }

func (q *hostHeap) rise(i int) {
	x := q.order[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !q.before(x, q.order[parent]) {
			break
		}
		q.put(i, q.order[parent])
		i = parent
	}
	q.put(i, x)
}

func (q *hostHeap) sink(i int) {
	x := q.order[i]
	for {
		child := 2*i + 1
		if child >= len(q.order) {
			break
		}
		if right := child + 1; right < len(q.order) && q.before(q.order[right], q.order[child]) {
			child = right
		}
		if !q.before(q.order[child], x) {
			break
		}
		q.put(i, q.order[child])
		i = child
	}
	q.put(i, x)
}
