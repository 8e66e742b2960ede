package archtest

import (
	"go/ast"
	"path"
	"slices"
	"testing"
)

// timeless are the rooms where time and randomness are arguments: the same
// history gives the same decisions, in a simulation and in a live router.
var timeless = []string{"router", "env", "workloads", "rl"}

// taboo is a package's identifiers that timeless rooms do not touch.
type taboo struct {
	names []string
	not   bool // names are the exceptions instead
	why   string
}

var taboos = map[string]taboo{
	"time": {
		names: []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
		why:   "time is an argument, a Duration from an epoch of the caller's choice",
	},
	"math/rand/v2": {
		names: []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "PCG", "ChaCha8", "Zipf"},
		not:   true,
		why:   "randomness comes from a source that the caller seeded",
	},
	"log/slog": {
		names: []string{"Debug", "DebugContext", "Info", "InfoContext", "Warn", "WarnContext", "Error", "ErrorContext",
			"Log", "LogAttrs", "Default", "SetDefault", "With"},
		why: "a logger is handed in",
	},
	"crypto/rand": {
		not: true,
		why: "what it returns cannot be had again from a seed",
	},
}

// TestTimeless finds clocks, global random sources and global loggers.
func TestTimeless(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || !within(s.room, timeless...) {
			continue
		}
		named := s.packageNames()
		ast.Inspect(s.tree, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			qualifier, ok := selector.X.(*ast.Ident)
			if !ok {
				return true
			}
			of := named[qualifier.Name]
			if rule, ok := taboos[of]; ok && slices.Contains(rule.names, selector.Sel.Name) != rule.not {
				t.Errorf("%s uses %s.%s: %s", s.set.Position(selector.Pos()), of, selector.Sel.Name, rule.why)
			}
			return true
		})
	}
}

// packageNames maps the names that the file's imports go by to their paths, for
// the packages with taboos. A dot import has no name and counts as a fault of
// its own for the linter.
func (s source) packageNames() map[string]string {
	named := map[string]string{}
	for i, p := range s.imports() {
		name := path.Base(p)
		if name == "v2" {
			name = path.Base(path.Dir(p))
		}
		if alias := s.tree.Imports[i].Name; alias != nil {
			name = alias.Name
		}
		named[name] = p
	}
	return named
}
