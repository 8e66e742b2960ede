package env

// turns has the requests of a slot run one after the other on a host, in the order in which they
// came; those of different slots share its cores. A nil one has all run at a time. Loads do not wait.
type turns struct {
	busy    []bool            // by slot
	waiting [][]sharedRequest // by slot
	n       int               // that wait
}

func newTurns(slots int) *turns {
	return &turns{busy: make([]bool, slots), waiting: make([][]sharedRequest, slots)}
}

// waits reports whether the request waits for its turn, and keeps it if so.
func (t *turns) waits(r *sharedRequest) bool {
	if t == nil || r.loads() {
		return false
	}
	if !t.busy[r.slot] {
		t.busy[r.slot] = true
		return false
	}
	t.waiting[r.slot] = append(t.waiting[r.slot], *r)
	t.n++
	return true
}

// next returns the request whose turn it is once another has ended; false if none waits.
func (t *turns) next(ended *sharedRequest) (sharedRequest, bool) {
	if t == nil || ended.loads() {
		return sharedRequest{}, false
	}
	queue := t.waiting[ended.slot]
	if len(queue) == 0 {
		t.busy[ended.slot] = false
		return sharedRequest{}, false
	}
	first := queue[0]
	t.waiting[ended.slot] = queue[1:]
	t.n--
	return first, true
}

// clear has no request of the slot wait or run any more, and returns those that waited.
func (t *turns) clear(slot int) []sharedRequest {
	if t == nil {
		return nil
	}
	queue := t.waiting[slot]
	t.busy[slot], t.waiting[slot], t.n = false, nil, t.n-len(queue)
	return queue
}

// length is how many wait.
func (t *turns) length() int {
	if t == nil {
		return 0
	}
	return t.n
}

// each calls f for each request of the slot that waits.
func (t *turns) each(slot int, f func(r *sharedRequest)) {
	if t != nil {
		for i := range t.waiting[slot] {
			f(&t.waiting[slot][i])
		}
	}
}
