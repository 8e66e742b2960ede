package archtest

import (
	"slices"
	"strings"
	"testing"
)

// TestRooms holds each package to the row of its folder.
func TestRooms(t *testing.T) {
	for _, s := range sources(t) {
		row := rowOf(s.room)
		for _, p := range s.imports() {
			target, own := strings.CutPrefix(p, module+"/")
			switch {
			case !own || within(target, s.room) || within(target, leaves...):
			case within(target, "cmd") && !within(s.room, "cmd"):
				t.Errorf("%s imports %s: commands join everything, and nothing imports them", s.name, target)
			case s.test:
			case slices.Contains(kits, target):
				t.Errorf("%s imports %s, a kit for tests", s.name, target)
			case !within(target, row.path) && !within(target, row.may...) || row.path == "router" && !within(target, row.may...):
				t.Errorf("%s imports %s. %s may import %v: %s", s.name, target, row.path, row.may, row.why)
			}
		}
	}
}

// rowOf returns the row with the longest path that the package lies below.
func rowOf(path string) (row room) {
	for _, r := range rooms {
		if within(path, r.path) && len(r.path) > len(row.path) {
			row = r
		}
	}
	return row
}

// TestRoomsAreThere fails on a row whose folder is gone, and on a package without a row.
func TestRoomsAreThere(t *testing.T) {
	all := sources(t)
	for _, r := range rooms {
		if !slices.ContainsFunc(all, func(s source) bool { return within(s.room, r.path) }) {
			t.Errorf("%s has a row and no Go file", r.path)
		}
	}
	for _, s := range all {
		if rowOf(s.room).path == "" {
			t.Errorf("%s: no row of the table is about %s", s.name, s.room)
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
