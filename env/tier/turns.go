package tier

// turns has the requests of a model run one after the other on a host, in the order in which they
// came; those of different models share its cores. A nil one has all run at a time. Loads do not wait.
type turns struct {
	busy    []bool      // by model
	waiting [][]request // by model
	n       int         // that wait
}

func newTurns(models int) *turns {
	return &turns{busy: make([]bool, models), waiting: make([][]request, models)}
}

// waits reports whether the request waits for its turn, and keeps it if so.
func (t *turns) waits(r *request) bool {
	if t == nil || r.client == nobody {
		return false
	}
	if !t.busy[r.model] {
		t.busy[r.model] = true
		return false
	}
	t.waiting[r.model] = append(t.waiting[r.model], *r)
	t.n++
	return true
}

// next returns the request whose turn it is once another has ended; false if none waits.
func (t *turns) next(ended *request) (request, bool) {
	if t == nil || ended.client == nobody {
		return request{}, false
	}
	queue := t.waiting[ended.model]
	if len(queue) == 0 {
		t.busy[ended.model] = false
		return request{}, false
	}
	first := queue[0]
	t.waiting[ended.model] = queue[1:]
	t.n--
	return first, true
}

// clear has no request of the model wait or run any more, and returns those that waited.
func (t *turns) clear(model int) []request {
	if t == nil {
		return nil
	}
	queue := t.waiting[model]
	t.busy[model], t.waiting[model], t.n = false, nil, t.n-len(queue)
	return queue
}

// length is how many wait.
func (t *turns) length() int {
	if t == nil {
		return 0
	}
	return t.n
}
