package scenario

import (
	"fmt"
	"strings"
)

// closest returns the known name that a misspelt one most likely stands for, or ""
// if none is close or several are equally.
func closest(name string, known []string) string {
	best, found := 1+max(1, len(name)/3), ""
	for _, k := range known {
		switch d := distance(strings.ToLower(name), strings.ToLower(k)); {
		case d < best:
			best, found = d, k
		case d == best:
			found = ""
		}
	}
	return found
}

// Closest returns the known name that a misspelt one most likely stands for, or "" if none is
// close or several are equally.
func Closest(name string, known []string) string { return closest(name, known) }

// hint ends a message about an unknown name.
func hint(name string, known []string) string {
	if k := closest(name, known); k != "" {
		return fmt.Sprintf("did you mean %q?", k)
	}
	return "known here: " + strings.Join(known, ", ")
}

// distance counts the letters to insert, remove, replace or swap with their
// neighbour to turn a into b.
func distance(a, b string) int {
	var older []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			replaced := last[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(replaced, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], older[j-1]+1)
			}
		}
		older, last = last, row
	}
	return last[len(b)]
}

// Names lists n names, for messages.
func Names[T any](list []T, name func(T) string) string {
	return strings.Join(namesOf(list, name), ", ")
}
