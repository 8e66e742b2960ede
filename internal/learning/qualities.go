package learning

import (
	"math"
	"slices"
	"sync"

	"gearshift/router/fleet"
)

const (
	// Scores of a variant's answers that its mean rests on at least, and keys that give some before any
	// counts, unless one key sends all requests or is trusted.
	leastScores, leastKeys = 30, 3
	// keyScores are those that a key must have given before it counts.
	keyScores = 20
	// mostKeys bounds the keys whose scores are kept.
	mostKeys = 64
	// certain is the number of standard errors that two means must differ by, 95 % of a normal law.
	certain = 1.96
)

// Qualities learns the mean scores of answers by task and variant, for routers without a predictor. Its
// methods may be called from any goroutine.
type Qualities struct {
	table   *fleet.Table
	trusted func(key string) bool

	mu   sync.Mutex // protects all below
	keys map[string][][]scores
}

// scores are those of one key for a task and a variant.
type scores struct {
	n            int
	sum, squares float64
}

func (s *scores) mean() float64 { return s.sum / float64(s.n) }

// NewQualities has learned nothing yet. Trusted reports whether a key's scores need no others.
func NewQualities(t *fleet.Table, trusted func(key string) bool) *Qualities {
	return &Qualities{table: t, trusted: trusted, keys: map[string][][]scores{}}
}

// Add takes in the score of an answer, from 0 to 1, by the key that asked.
func (q *Qualities) Add(key string, task, variant int, score float64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	of := q.keys[key]
	if of == nil {
		if len(q.keys) >= mostKeys {
			return
		}
		of = make([][]scores, len(q.table.Tasks))
		for i := range of {
			of[i] = make([]scores, len(q.table.Variants))
		}
		q.keys[key] = of
	}
	s := &of[task][variant]
	s.n++
	s.sum += score
	s.squares += score * score
}

// Mean is the mean score of a variant's answers to a task.
type Mean struct {
	Mean, Error  float64 // and its standard error
	Scores, Keys int
}

// Task returns the mean scores of all variants that answer the task, by variant. It reports false until each
// has enough scores, and the means of those next to each other differ for certain.
func (q *Qualities) Task(task int, alone bool) ([]Mean, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	counted := q.counted(alone)
	list := make([]Mean, len(q.table.Variants))
	before := -1
	for v := range list {
		if !q.table.Answers(task, v) {
			continue
		}
		list[v] = q.mean(counted, task, v)
		if list[v].Scores < leastScores {
			return nil, false
		}
		if before >= 0 {
			apart := math.Hypot(list[v].Error, list[before].Error)
			if math.Abs(list[v].Mean-list[before].Mean) <= certain*apart {
				return nil, false
			}
		}
		before = v
	}
	return list, before >= 0
}

// counted returns the keys whose scores count: the trusted ones, or else those with enough scores where
// there are enough of them, or the only one.
func (q *Qualities) counted(alone bool) (list []string) {
	var enough []string
	for key, of := range q.keys {
		if q.trusted(key) {
			list = append(list, key)
		}
		n := 0
		for _, task := range of {
			for _, s := range task {
				n += s.n
			}
		}
		if n >= keyScores {
			enough = append(enough, key)
		}
	}
	if len(list) == 0 && (len(enough) >= leastKeys || alone && len(q.keys) == 1) {
		list = enough
	}
	slices.Sort(list)
	return list
}

// mean returns the median of the keys' means, which a minority of them cannot move beyond what others gave,
// with the standard error of all their scores.
func (q *Qualities) mean(keys []string, task, variant int) (m Mean) {
	var means []float64
	var all scores
	for _, key := range keys {
		s := q.keys[key][task][variant]
		if s.n == 0 {
			continue
		}
		means = append(means, s.mean())
		all.n, all.sum, all.squares = all.n+s.n, all.sum+s.sum, all.squares+s.squares
	}
	if m.Scores, m.Keys = all.n, len(means); len(means) == 0 {
		return m
	}
	slices.Sort(means)
	half := len(means) / 2
	m.Mean = means[half]
	if len(means)%2 == 0 {
		m.Mean = (means[half-1] + means[half]) / 2
	}
	n := float64(all.n)
	variance := max(0, all.squares/n-all.mean()*all.mean()) + 1/(4*n) // of scores that are all alike, too
	m.Error = math.Sqrt(variance / n)
	return m
}

// Predictions returns the means as what is predicted for each request of a task, by task. Tasks without
// certain means have none.
func (q *Qualities) Predictions(alone bool) []fleet.Prediction {
	list := make([]fleet.Prediction, len(q.table.Tasks))
	for t := range list {
		means, ok := q.Task(t, alone)
		if !ok || len(means) > fleet.MostPredicted {
			continue
		}
		list[t].Known = true
		for v, m := range means {
			list[t].Quality[v], list[t].Low[v] = float32(m.Mean), float32(max(0, m.Mean-certain*m.Error))
		}
	}
	return list
}
