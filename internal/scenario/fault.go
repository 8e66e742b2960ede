package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Fault is one thing wrong with a scenario file, and where.
type Fault struct {
	File string
	Line int // from 1
	// Key is the path of the key at fault, such as tasks[1].deadline_ms; list
	// items count from 0. It is empty where the file as a whole is at fault.
	Key     string
	Message string
}

// Error is "file:line: key: message", the form that editors jump to.
func (f Fault) Error() string {
	if f.Key == "" {
		return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Message)
	}
	return fmt.Sprintf("%s:%d: %s: %s", f.File, f.Line, f.Key, f.Message)
}

// Faults is everything wrong with a scenario file, by line: the error type of
// [Parse] and [Load].
type Faults []Fault

// Error returns one line per fault.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// report collects the faults of one file and knows the line of every key.
type report struct {
	file   string
	lines  map[string]int
	texts  map[string]string // single values as they are written
	unread map[string]bool   // keys without a usable value
	broken map[string]bool   // the same, and all keys above them
	faults Faults

	implied map[string]string // by a key that the file only implies, the key that stands there
}

func newReport(file string) *report {
	return &report{file: file, lines: map[string]int{"": 1}, texts: map[string]string{}, unread: map[string]bool{}, broken: map[string]bool{}, implied: map[string]string{}}
}

// unreadable notes that a key has no usable value, which silences later
// judgements that would rest on it.
func (r *report) unreadable(key, format string, args ...any) {
	r.add(key, format, args...)
	r.breaks(key)
}

func (r *report) breaks(key string) {
	r.unread[key] = true
	for r.broken[key] = true; key != ""; r.broken[key] = true {
		key = parent(key)
	}
}

// judge notes a fault in a value that was read, unless it could not be read.
func (r *report) judge(key, format string, args ...any) {
	if r.sound(key) {
		r.add(key, format, args...)
	}
}

// judgeIf is judge where bad holds.
func (r *report) judgeIf(bad bool, key, format string, args ...any) {
	if bad {
		r.judge(key, format, args...)
	}
}

// sound reports whether the key, with all under it, holds what was read from the
// file or the default.
func (r *report) sound(key string) bool {
	if r.broken[key] {
		return false
	}
	for key != "" {
		if key = parent(key); r.unread[key] {
			return false
		}
	}
	return true
}

func (r *report) add(key, format string, args ...any) {
	line, written := r.line(key), r.written(key)
	if f := (Fault{r.file, line, written, fmt.Sprintf(format, args...)}); written == key || !slices.Contains(r.faults, f) {
		r.faults = append(r.faults, f) // one of a host that slots copy is reported once
	}
}

// written returns the key as it stands in the file.
func (r *report) written(key string) string {
	for at := key; at != ""; at = parent(at) {
		if from, ok := r.implied[at]; ok {
			return from + key[len(at):]
		}
	}
	return key
}

func (r *report) addAt(line int, key, format string, args ...any) {
	r.faults = append(r.faults, Fault{r.file, line, key, fmt.Sprintf(format, args...)})
}

// line returns where the key stands, or else the closest key above it.
func (r *report) line(key string) int {
	for {
		if line, ok := r.lines[key]; ok {
			return line
		}
		key = parent(key)
	}
}

// copyKeys copies the lines and faults of the keys below from to those below to, which the file only implies.
func (r *report) copyKeys(from, to string) {
	r.implied[to] = from
	for _, known := range []map[string]bool{r.unread, r.broken} {
		copyKeys(known, from, to)
	}
	copyKeys(r.lines, from, to)
	copyKeys(r.texts, from, to)
}

func copyKeys[T any](m map[string]T, from, to string) {
	for key, v := range maps.Clone(m) {
		if rest, below := strings.CutPrefix(key, from); below && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			m[to+rest] = v
		}
	}
}

// err is nil if nothing was found.
func (r *report) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(r.faults, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	return r.faults
}

// child, item and parent walk key paths. A map's own key may hold a dot, so
// that a parent may be no key at all; what stands above it still is one.
func child(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

func item(key string, i int) string { return fmt.Sprintf("%s[%d]", key, i) }

func parent(key string) string { return key[:max(0, strings.LastIndexAny(key, ".["))] }

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
