//go:build race

package router_test

// raced says whether the race detector is on, under which sync.Pool forgets at
// random.
const raced = true
