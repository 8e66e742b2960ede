package fleet

// RecentRequests is how many of the latest requests a ledger remembers.
const RecentRequests = 63

// Shortfalls are those of the latest requests, the latest first; see [Task.Shortfall].
type Shortfalls [RecentRequests]float32

// recent remembers how the latest requests went.
type recent struct {
	begun uint64
	ring  [RecentRequests + 1]float32 // of request n at n mod its length
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
	r.ring[r.begun%uint64(len(r.ring))] = r.best[task*r.variants+variant]
	return r.begun
}

func (r *recent) settle(number uint64, shortfall float32) {
	if number > 0 && r.begun-number < RecentRequests {
		r.ring[number%uint64(len(r.ring))] = shortfall
	}
}

// copyTo writes the latest first.
func (r *recent) copyTo(to *Shortfalls) {
	at := int(r.begun % uint64(len(r.ring)))
	n := 0
	for i := at; i >= 0 && n < RecentRequests; i-- {
		to[n] = r.ring[i]
		n++
	}
	for i := len(r.ring) - 1; n < RecentRequests; i-- {
		to[n] = r.ring[i]
		n++
	}
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
