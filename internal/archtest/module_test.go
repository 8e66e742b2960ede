package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	module = "gearshift"
	root   = "../.."
)

// source is one Go file of the module, whatever its build tags.
type source struct {
	name string // slash-separated, from the module's root
	room string // the directory it lies in
	test bool
	tree *ast.File
	set  *token.FileSet
}

// sources returns every Go file of the module, which the tests only read.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := parseAll()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parseAll parses every Go file of the module, once. Reading the files here, rather than
// asking the go command, sees all build tags at once and lets the test cache notice a
// change.
var parseAll = sync.OnceValues(func() (all []source, err error) {
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skipped(d.Name()) && file != root {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		s, err := parse(file)
		all = append(all, s)
		return err
	})
	return all, err
})

func skipped(dir string) bool {
	return dir == "testdata" || dir == "node_modules" || strings.HasPrefix(dir, ".") || strings.HasPrefix(dir, "_")
}

func parse(file string) (source, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return source{}, err
	}
	name, err := filepath.Rel(root, file)
	if err != nil {
		return source{}, err
	}
	name = filepath.ToSlash(name)
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	return source{name, path.Dir(name), strings.HasSuffix(name, "_test.go"), tree, set}, err
}

// imports lists the import paths of the file.
func (s source) imports() []string {
	var paths []string
	for _, spec := range s.tree.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// within reports whether the slash-separated path is one of the prefixes or lies
// below it.
func within(p string, prefixes ...string) bool {
	for _, prefix := range prefixes {
		if p == prefix || strings.HasPrefix(p, prefix+"/") {
			return true
		}
	}
	return false
}
