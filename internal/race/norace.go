//go:build !race

// Package race reports to tests whether the race detector is on, under which sync.Pool
// forgets at random and everything takes longer.
package race

// Enabled reports whether the race detector is on.
const Enabled = false
