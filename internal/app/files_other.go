//go:build !unix

package app

// fileLimit returns how many files the process may have open; zero is unknown.
func fileLimit() int { return 0 }
