package archtest

import (
	"slices"
	"strings"
	"testing"
)

// TestImportTable holds each package to its row of the table, and its tests to
// the rooms above it.
func TestImportTable(t *testing.T) {
	for _, s := range sources(t) {
		if slices.Contains(wiring, s.room) {
			continue
		}
		row := slices.IndexFunc(table, func(r room) bool { return r.path == s.room })
		if row < 0 {
			t.Errorf("%s: package %s has no row in the import table; add one, with its reason", s.name, s.room)
			continue
		}
		for _, p := range s.imports() {
			target, own := strings.CutPrefix(p, module+"/")
			if own && !allowed(row, target, s.test) {
				t.Errorf("%s imports %s. %s may import %v: %s", s.name, target, s.room, table[row].may, table[row].why)
			}
		}
	}
}

// allowed reports whether the room of the row may import the target. Tests may
// also import their own package, whatever stands above it in the table, and the
// kits.
func allowed(row int, target string, test bool) bool {
	if slices.Contains(table[row].may, target) {
		return true
	}
	above := slices.ContainsFunc(table[:row+1], func(r room) bool { return r.path == target })
	return test && (above || slices.Contains(kits, target))
}

// TestTableIsOrdered keeps the table a proof that imports have no cycle.
func TestTableIsOrdered(t *testing.T) {
	above := map[string]bool{}
	for _, r := range table {
		for _, p := range r.may {
			if !above[p] {
				t.Errorf("%s may import %s, which does not stand above it", r.path, p)
			}
		}
		if above[r.path] {
			t.Errorf("%s has two rows", r.path)
		}
		if r.why == "" {
			t.Errorf("%s has no reason", r.path)
		}
		above[r.path] = true
	}
}

// TestTableIsCurrent fails on a row whose package is gone.
func TestTableIsCurrent(t *testing.T) {
	all := sources(t)
	for _, r := range table {
		if !slices.ContainsFunc(all, func(s source) bool { return s.room == r.path }) {
			t.Errorf("%s has a row in the import table but no Go file", r.path)
		}
	}
}

// TestFences keeps libraries within their rooms. Tests may reach across: they
// start servers and read stores to look at them.
func TestFences(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, p := range s.imports() {
			for _, f := range fences {
				if within(p, f.packages...) && !excused[p] && !within(s.room, f.only...) {
					t.Errorf("%s imports %s, which stays within %v: %s", s.name, p, f.only, f.why)
				}
			}
		}
	}
}
