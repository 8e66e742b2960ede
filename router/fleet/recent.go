package fleet

// RecentRequests is how many of the latest requests a ledger remembers.
const RecentRequests = 63

// Shortfalls are those of the latest requests, the latest first; see [Task.Shortfall].
type Shortfalls [RecentRequests]float32

// recent remembers how the latest requests went.
type recent struct {
	begun uint64
	ring  [RecentRequests + 1]float32 // by slot; the latest first, from the last one's slot on
	// best is what an answer in time falls short by, by task and, within that, by variant;
	// shared and read-only.
	best     []float32
	variants int
}

func newRecent(t *Table) recent {
	r := recent{variants: len(t.Variants)}
	for i := range t.Tasks {
		task := &t.Tasks[i]
		for v := range t.Variants {
			r.best = append(r.best, task.Shortfall(task.Weight*task.Quality[v]))
		}
	}
	return r
}

// begin remembers a request that the variant is to answer, and returns its number.
func (r *recent) begin(task, variant int) uint64 {
	r.begun++
	*r.slot(r.begun) = r.best[task*r.variants+variant]
	return r.begun
}

// slot is where request n is remembered. The ring is filled backwards, so that a copy of it
// needs no loop.
func (r *recent) slot(n uint64) *float32 { return &r.ring[-n%uint64(len(r.ring))] }

func (r *recent) settle(number uint64, shortfall float32) {
	if number > 0 && r.begun-number < RecentRequests {
		*r.slot(number) = shortfall
	}
}

// copyTo writes the latest first.
func (r *recent) copyTo(to *Shortfalls) {
	n := copy(to[:], r.ring[-r.begun%uint64(len(r.ring)):])
	copy(to[n:], r.ring[:])
}

// Known are the shortfalls up to the last that is not 0, sharing memory.
func (s *Shortfalls) Known() []float32 {
	n := len(s)
	for n > 0 && s[n-1] == 0 {
		n--
	}
	return s[:n]
}

// Sum is what the latest n requests fell short by together.
func (s *Shortfalls) Sum(n int) float64 {
	var sum float64
	for _, x := range s[:n] {
		sum += float64(x)
	}
	return sum
}
