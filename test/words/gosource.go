// SPDX-License-Identifier: Apache-2.0

package words

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// readGo is what a Go file declares, and its comments and string literals: nothing of one that a program has written.
func readGo(file, text string) (src source, isGenerated bool, err error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, false, fmt.Errorf("parse: %w", err)
	}
	if ast.IsGenerated(parsed) {
		return source{}, true, nil
	}
	r := goReader{set: set}
	for _, decl := range parsed.Decls {
		r.declaration(decl)
	}
	ast.Inspect(parsed, r.visit)
	for _, group := range parsed.Comments {
		r.comment(group)
	}
	return r.source, false, nil
}

type goReader struct {
	set *token.FileSet
	source
}

func (r *goReader) line(at token.Pos) int { return r.set.Position(at).Line }

func (r *goReader) declare(ids ...*ast.Ident) {
	for _, id := range ids {
		r.names = append(r.names, name{words: splitName(id.Name), line: r.line(id.Pos())})
	}
}

// declaration takes functions, methods, constants and variables of the package. Those of a function are seen by its reader alone, and not counted.
func (r *goReader) declaration(decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		r.declare(d.Name)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if values, ok := spec.(*ast.ValueSpec); ok {
				r.declare(values.Names...)
			}
		}
	}
}

// visit takes types, fields, methods of interfaces and literals, wherever they stand.
func (r *goReader) visit(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.ImportSpec:
		return false // a path is not prose
	case *ast.TypeSpec:
		r.declare(n.Name)
	case *ast.StructType:
		r.fields(n.Fields)
	case *ast.InterfaceType:
		r.fields(n.Methods)
	case *ast.Field:
		if n.Tag != nil { // it is no prose either: of a field only the type is left to look at
			ast.Inspect(n.Type, r.visit)
			return false
		}
	case *ast.BasicLit:
		r.literal(n)
	}
	return true
}

func (r *goReader) fields(list *ast.FieldList) {
	for _, field := range list.List {
		r.declare(field.Names...)
	}
}

// literal takes the words of a string. In one with escapes every word is said to stand in the first line.
func (r *goReader) literal(lit *ast.BasicLit) {
	if lit.Kind != token.STRING {
		return
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return // the parser has accepted it, so this does not happen
	}
	words := splitProse(text, r.line(lit.Pos()))
	if !strings.HasPrefix(lit.Value, "`") {
		for i := range words {
			words[i].line = r.line(lit.Pos())
		}
	}
	r.prose = append(r.prose, words...)
}

// comment joins the lines of a group: a phrase may begin in one and end in the next.
func (r *goReader) comment(group *ast.CommentGroup) {
	first := r.line(group.Pos())
	var text strings.Builder
	line := first
	for _, c := range group.List {
		for ; line < r.line(c.Pos()); line++ {
			text.WriteByte('\n')
		}
		text.WriteString(c.Text)
		line += strings.Count(c.Text, "\n")
	}
	r.prose = append(r.prose, splitProse(text.String(), first)...)
}
