package queue

// Tenants is how many tenants of a class are remembered.
func (q *Queue[T]) Tenants(class int) int { return len(q.classes[class].tenants) }
