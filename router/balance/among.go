package balance

import "math/rand/v2"

// among is the replicas that may be chosen now. The zero value is all of them.
type among struct {
	some bool
	list []int    // if only some may be
	turn uint32   // of the list
	in   []uint32 // by replica, the last turn in whose list it was
}

// Restrict begins a list of the replicas that may be chosen, which [Knowledge.Allow] fills.
func (k *Knowledge) Restrict() {
	a := &k.among
	if a.in == nil {
		a.in, a.list = make([]uint32, len(k.Own)), make([]int, 0, len(k.Own))
	}
	a.some, a.list = true, a.list[:0]
	if a.turn++; a.turn == 0 { // it has come round
		clear(a.in)
		a.turn = 1
	}
}

// Allow adds a replica to those that may be chosen.
func (k *Knowledge) Allow(replica int) {
	k.among.list, k.among.in[replica] = append(k.among.list, replica), k.among.turn
}

// Size returns how many replicas may be chosen.
func (k *Knowledge) Size() int {
	if k.among.some {
		return len(k.among.list)
	}
	return len(k.Own)
}

// Candidate returns the n-th replica that may be chosen, of [Knowledge.Size].
func (k *Knowledge) Candidate(n int) int {
	if k.among.some {
		return k.among.list[n]
	}
	return n
}

// Allowed reports whether the replica may be chosen.
func (k *Knowledge) Allowed(replica int) bool {
	return !k.among.some || k.among.in[replica] == k.among.turn
}

// draw appends so many distinct replicas that may be chosen, each set equally likely, by
// Floyd's algorithm; all if there are no more.
func (k *Knowledge) draw(wanted int, random *rand.Rand, buf []int) []int {
	n, first := k.Size(), len(buf)
	if wanted >= n {
		for i := range n {
			buf = append(buf, k.Candidate(i))
		}
		return buf
	}
	for j := n - wanted; j < n; j++ {
		x := k.Candidate(random.IntN(j + 1))
		for _, taken := range buf[first:] {
			if taken == x {
				x = k.Candidate(j)
				break
			}
		}
		buf = append(buf, x)
	}
	return buf
}
