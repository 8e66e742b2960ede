// Package decoder answers requests by generating, token by token, with a model
// that computes: continuous batching, a KV cache with a bound, sampling, stop
// strings and cancellation. What computes comes in as a [Model].
package decoder

// Model computes for one running batch, whose KV cache it holds. One goroutine
// uses it.
type Model interface {
	// Layout is what the engine must know of the model.
	Layout() Layout
	// Bound says that the batch will never be of more rows, nor of more tokens, rows ×
	// the longest, so that no more memory need be kept for it. It is called once, at
	// first.
	Bound(rows, tokens int) error
	// Prefill computes a prompt by itself. It returns the prompt's cache, and
	// the logits of the next token, which are valid until the next call. Where it fails,
	// the running batch is as it was.
	Prefill(prompt []int64) (Row, []float32, error)
	// Compose changes the running batch: of its rows those with the indexes
	// stay, in that order, and the rows that join come after them. No row moves
	// back: stay[i] is at least i. Joined rows are the model's from then on.
	Compose(stay []int, join []Row) error
	// Decode adds one token to each row of the batch and returns the logits of
	// each next one, row by row, valid until the next call.
	Decode(tokens []int64) ([]float32, error)
	// Close frees everything.
	Close()
}

// Row is the cache of one sequence that is not yet in the batch.
type Row interface {
	// Release frees the row, if it has not joined.
	Release()
}

// Layout is the shape of a model.
type Layout struct {
	Vocabulary int
	// Context is how many tokens a sequence may have, 0 if the model does not
	// say.
	Context int
	// TokenBytes is what one token takes in the KV cache.
	TokenBytes int
	// WeightBytes is what the model file takes.
	WeightBytes int64
}
