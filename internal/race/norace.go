//go:build !race

// Package race tells tests whether the race detector is on, under which sync.Pool
// forgets at random and everything takes longer.
package race

// Enabled says whether the race detector is on.
const Enabled = false
