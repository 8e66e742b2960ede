package tier

import (
	"time"

	"gearshift/router/control"
)

// dues is a binary heap of hosts by when a request of theirs ends next, of equals the host
// with the lower number first.
type dues struct {
	at    []time.Duration // by host; control.Never for one without requests
	order []int32         // the heap
	place []int32         // by host, where it is in order
}

func newDues(hosts int) dues {
	d := dues{at: make([]time.Duration, hosts), order: make([]int32, hosts), place: make([]int32, hosts)}
	for i := range hosts {
		d.at[i], d.order[i], d.place[i] = control.Never, int32(i), int32(i)
	}
	return d
}

// first is the host that is due next, and when.
func (d *dues) first() (int, time.Duration) { return int(d.order[0]), d.at[d.order[0]] }

// set has the host be due at another time.
func (d *dues) set(host int, at time.Duration) {
	if was := d.at[host]; at != was {
		d.at[host] = at
		if at < was {
			d.rise(int(d.place[host]))
		} else {
			d.sink(int(d.place[host]))
		}
	}
}

func (d *dues) before(a, b int32) bool {
	return d.at[a] < d.at[b] || d.at[a] == d.at[b] && a < b
}

func (d *dues) rise(i int) {
	x := d.order[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !d.before(x, d.order[parent]) {
			break
		}
		d.put(i, d.order[parent])
		i = parent
	}
	d.put(i, x)
}

func (d *dues) sink(i int) {
	x := d.order[i]
	for {
		child := 2*i + 1
		if child >= len(d.order) {
			break
		}
		if right := child + 1; right < len(d.order) && d.before(d.order[right], d.order[child]) {
			child = right
		}
		if !d.before(d.order[child], x) {
			break
		}
		d.put(i, d.order[child])
		i = child
	}
	d.put(i, x)
}

func (d *dues) put(i int, host int32) { d.order[i], d.place[host] = host, int32(i) }
