package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// word is a private metaphor that the code once used and that may not come back as an
// identifier: a reader who meets it cannot look it up.
type word struct {
	name    string
	instead string // what to write
	// loose words are plain English elsewhere, such as a line of text. Only packages and
	// types may not be called so, as a whole name. Any other word may be no part of any
	// name that is declared, also of a variable.
	loose bool
}

var words = []word{
	{name: "books", instead: "metrics"},
	{name: "crew", instead: "router replicas"},
	{name: "desk", instead: "decision"},
	{name: "departure", instead: "perturbation"},
	{name: "displaced", instead: "evicted"},
	{name: "ear", instead: "silence timer"},
	{name: "hark", instead: "silence timer"},
	{name: "hush", instead: "silence timer"},
	{name: "keeper", instead: "health controller"},
	{name: "lament", instead: "write a stream error"},
	{name: "lastcall", instead: "drain grace"},
	{name: "lineup", instead: "policy set"},
	{name: "outlook", instead: "marginal reward"},
	{name: "parked", instead: "waiting"},
	{name: "patrol", instead: "prober"},
	{name: "seat", instead: "bound policy"},
	{name: "squeeze", instead: "evict"},
	{name: "steward", instead: "reloader"},
	{name: "tape", instead: "recording"},
	{name: "told", instead: "reported, or what it holds"},
	{name: "unsound", instead: "failed probe"},
	{name: "witness", instead: "observer"},

	{name: "beat", instead: "probe loop", loose: true},
	{name: "claim", instead: "flow key", loose: true},
	{name: "kinds", instead: "priority classes", loose: true},
	{name: "library", instead: "response store", loose: true},
	{name: "line", instead: "queue", loose: true},
	{name: "live", instead: "settings, running, or real time", loose: true},
	{name: "move", instead: "reservation", loose: true},
	{name: "pace", instead: "perturbation of a host's speed, drift feed, or rates", loose: true},
	{name: "place", instead: "what it is the place of: a position, a location, a lease", loose: true},
	{name: "stand", instead: "state", loose: true},
	{name: "standing", instead: "status, verdict, or probe result", loose: true},
	{name: "tour", instead: "round", loose: true},
	{name: "walk", instead: "probe loop", loose: true},
	{name: "world", instead: "environment (rl), simulation (env)", loose: true},
}

// meant are the packages in which a word means what it says in every dictionary of the
// field.
var meant = map[string][]string{
	"rl/dqn": {"tape"}, // Gorgonia's machines that run a recorded graph are called so
}

// leftover are the words that are still to be replaced in a package and those below it. It
// only shrinks.
var leftover = map[string][]string{}

// TestWords finds words of the list among the names that are declared anywhere in the
// module: packages, types, functions, fields, constants and variables. The names of tests
// are sentences, and may use any word.
func TestWords(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.declared() {
			for _, w := range words {
				if w.forbids(d) && !slices.Contains(meant[s.room], w.name) && !isLeft(s.room, w.name) {
					t.Errorf("%s declares %s: write %s instead of %q", s.set.Position(d.id.Pos()), d.id.Name, w.instead, w.name)
				}
			}
		}
	}
}

// isLeft reports whether the package may still use the word.
func isLeft(room, name string) bool {
	for below, names := range leftover {
		if within(room, below) && slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// TestWordsAreFound checks the search itself: whole words alone are found, in any case and
// in the plural, and loose ones in packages and types only.
func TestWordsAreFound(t *testing.T) {
	for name, want := range map[string]bool{
		"crew": true, "newCrew": true, "CREW": true, "Crews": true, "crewOf": true, "crewStream": true,
		"screw": false, "screwed": false, "outline": false, "world": false, "worldOf": false,
	} {
		d := declaration{id: ast.NewIdent(name)}
		if got := slices.ContainsFunc(words, func(w word) bool { return w.forbids(d) }); got != want {
			t.Errorf("variable %s: found %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]bool{"world": true, "World": true, "worldOf": false, "line": true, "outline": false} {
		d := declaration{id: ast.NewIdent(name), named: true}
		if got := slices.ContainsFunc(words, func(w word) bool { return w.forbids(d) }); got != want {
			t.Errorf("type %s: found %v, want %v", name, got, want)
		}
	}
}

// declaration is one name that a file declares.
type declaration struct {
	id    *ast.Ident
	named bool // a package or a type, not a function, field, constant or variable
}

// declared lists the names that the file declares, except those of tests and benchmarks.
func (s source) declared() []declaration {
	list := []declaration{{s.tree.Name, true}}
	add := func(ids ...*ast.Ident) {
		for _, id := range ids {
			list = append(list, declaration{id: id})
		}
	}
	ast.Inspect(s.tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			list = append(list, declaration{n.Name, true})
		case *ast.FuncDecl:
			if !s.test || !sentence(n.Name.Name) {
				add(n.Name)
			}
		case *ast.ValueSpec:
			add(n.Names...)
		case *ast.Field: // of a struct, an interface, or parameters and results
			add(n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				add(identifiers(n.Lhs...)...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(identifiers(n.Key, n.Value)...)
			}
		}
		return true
	})
	return list
}

// identifiers are those of the expressions that are some.
func identifiers(list ...ast.Expr) (ids []*ast.Ident) {
	for _, e := range list {
		if id, ok := e.(*ast.Ident); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// sentence reports whether a function of a test file is a test, whose name says what holds.
func sentence(name string) bool {
	return slices.ContainsFunc([]string{"Test", "Benchmark", "Fuzz", "Example"}, func(kind string) bool { return strings.HasPrefix(name, kind) })
}

// forbids reports whether the name uses the word.
func (w word) forbids(d declaration) bool {
	if w.loose {
		return d.named && strings.EqualFold(d.id.Name, w.name)
	}
	return slices.ContainsFunc(parts(d.id.Name), func(p string) bool { return p == w.name || p == w.name+"s" })
}

// parts splits a name at its capitals, in lower case: newCrew is new and crew. A run of
// capitals is one part.
func parts(name string) (list []string) {
	var last rune
	for _, r := range name {
		if !unicode.IsLetter(r) {
			last = 0
			continue
		}
		if last == 0 || unicode.IsUpper(r) && !unicode.IsUpper(last) {
			list = append(list, "")
		}
		list[len(list)-1] += string(unicode.ToLower(r))
		last = r
	}
	return list
}

// oneMeaning are names of types that several packages once declared, each with a meaning of
// its own. At most one package may.
var oneMeaning = []string{"live", "move", "place", "standing", "world"}

// TestTypesOfOneName keeps a reader from carrying the meaning of a type over to another
// package that uses its name for something else.
func TestTypesOfOneName(t *testing.T) {
	rooms := map[string][]string{}
	for _, s := range sources(t) {
		for _, d := range s.declared()[1:] {
			name := strings.ToLower(d.id.Name)
			if d.named && slices.Contains(oneMeaning, name) && !slices.Contains(rooms[name], s.room) {
				rooms[name] = append(rooms[name], s.room)
			}
		}
	}
	for name, in := range rooms {
		if len(in) > 1 {
			t.Errorf("types called %s are in %v; call them by what they are", name, in)
		}
	}
}

// TestOneFleet keeps what a fleet is made of declared once: planners and controllers read package fleet, or have
// numbers of their own by other names.
func TestOneFleet(t *testing.T) {
	for _, room := range []string{"router", "env", "internal/scenario", "serving/control"} {
		in := map[string][]string{}
		for _, s := range sources(t) {
			if s.test || s.room != room && !strings.HasPrefix(s.room, room+"/") {
				continue
			}
			for _, d := range s.declared()[1:] {
				if d.named && slices.Contains([]string{"Host", "Replica", "Model", "Application"}, d.id.Name) {
					in[d.id.Name] = append(in[d.id.Name], s.room)
				}
			}
		}
		for name, list := range in {
			if len(list) > 1 {
				t.Errorf("%s is declared in %v; read package fleet, or call it by what it is", name, list)
			}
		}
	}
}

// most is how many files a package may have, its tests not counted: a reader finds the way
// in what fits on a screen.
const most = 25

// TestSmallPackages counts files, whatever their build tags.
func TestSmallPackages(t *testing.T) {
	files := map[string]int{}
	for _, s := range sources(t) {
		if !s.test {
			files[s.room]++
		}
	}
	for room, n := range files {
		if n > most {
			t.Errorf("%s has %d files, want at most %d: split it by what its files are about", room, n, most)
		}
	}
}

// longest is how many lines a function may have: what is longer does not fit on a screen.
const longest = 60

// TestShortFunctions counts the lines of functions, but for tests.
func TestShortFunctions(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.tree.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && !s.test {
				if n := s.set.Position(f.End()).Line - s.set.Position(f.Pos()).Line + 1; n > longest {
					t.Errorf("%s: %s has %d lines, want at most %d", s.set.Position(f.Pos()), f.Name.Name, n, longest)
				}
			}
		}
	}
}
