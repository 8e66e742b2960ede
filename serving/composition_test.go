package serving_test

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"strings"
	"testing"
)

// A Server is made of parts that can be read by themselves: no type of the package holds the whole, and few
// methods see it.
func TestServerIsMadeOfParts(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fields, methods := 0, 0
	whole := func(x ast.Expr) bool {
		star, _ := x.(*ast.StarExpr)
		if star == nil {
			return false
		}
		name, _ := star.X.(*ast.Ident)
		return name != nil && name.Name == "Server"
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(gotoken.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.StructType:
				for _, field := range x.Fields.List {
					fields++
					if whole(field.Type) {
						t.Errorf("%s: a struct has a *Server; want what it needs of that", path)
					}
				}
			case *ast.FuncDecl:
				if x.Recv != nil && whole(x.Recv.List[0].Type) {
					methods++
				}
			}
			return true
		})
	}
	if fields == 0 || methods == 0 || methods > 35 {
		t.Errorf("%d fields, and %d methods of *Server; want at most 35, and those of parts on the parts", fields, methods)
	}
}
