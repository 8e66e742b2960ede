package clients

// pool keeps what is under way by numbers, which are used again.
type pool[T any] struct {
	list []T
	free []int32
}

// put keeps x, and returns its number.
func (p *pool[T]) put(x T) int {
	if n := len(p.free); n > 0 {
		at := p.free[n-1]
		p.free = p.free[:n-1]
		p.list[at] = x
		return int(at)
	}
	p.list = append(p.list, x)
	return len(p.list) - 1
}

// drop forgets what has the number.
func (p *pool[T]) drop(number int) { p.free = append(p.free, int32(number)) }
