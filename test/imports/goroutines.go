// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
)

// confining are the packages of which a panic ends the connection that a goroutine serves, and not the daemon (internal/crash).
var confining = []string{"internal/anchor", "internal/slowpath"}

const (
	closes    = "ends connections or a context, and does nothing else"
	servesAll = "serves all: what a panic leaves behind is unknown"
)

// unconfined are the functions that start a goroutine which does not recover from panics, and why: a reason for each.
var unconfined = map[string][]string{
	"internal/anchor/listener.go beginAccepting": {servesAll},
	"internal/anchor/set.go Go":                  {"runs what it is given; those who call it are looked at"},
	"internal/anchor/set.go New":                 {servesAll},
	"internal/slowpath/breaker.go passOrWait":    {servesAll},
	"internal/slowpath/idle.go start":            {servesAll},
	"internal/slowpath/proxy.go Serve":           {closes},
	"internal/slowpath/proxy.go Shutdown":        {"waits for all others"},
	"internal/slowpath/relay.go Relay":           {closes},
	"internal/slowpath/send.go use":              {closes},
	"internal/slowpath/tcp.go servePlain":        {closes, closes},
	"internal/slowpath/upstream.go begin":        {closes},
	"internal/slowpath/upstream.go connect":      {closes},
}

// parsedPackage is the files of one folder by their names from the root of the tree.
type parsedPackage struct {
	fset  *token.FileSet
	files map[string]*ast.File
}

// goroutines returns what p starts without recovery, once for each, as "file function"; and how many goroutines it starts.
func (p *parsedPackage) goroutines() (unrecovered []string, started int) {
	names := slices.Sorted(maps.Keys(p.files))
	known := p.functions(names)
	for _, name := range names {
		for _, d := range p.files[name].Decls {
			in, isFunction := d.(*ast.FuncDecl)
			if !isFunction || in.Body == nil {
				continue
			}
			ast.Inspect(in.Body, func(n ast.Node) bool {
				f := startedBy(n)
				if f == nil {
					return true
				}
				if started++; !recovers(known(f)) {
					unrecovered = append(unrecovered, name+" "+in.Name.Name)
				}
				return true
			})
		}
	}
	return unrecovered, started
}

// startedBy is the function that a statement or a call has run in a goroutine of its own; nil: it starts none.
func startedBy(n ast.Node) ast.Expr {
	switch n := n.(type) {
	case *ast.GoStmt:
		return n.Call.Fun
	case *ast.CallExpr:
		s, isSelector := n.Fun.(*ast.SelectorExpr)
		if isSelector && (s.Sel.Name == "Go" || s.Sel.Name == "AfterFunc") && len(n.Args) > 0 {
			return n.Args[len(n.Args)-1]
		}
	}
	return nil
}

// recovers reports whether a function begins by deferring the recovery of package crash. Nothing but what is deferred goes before.
func recovers(body *ast.BlockStmt) bool {
	if body == nil {
		return false
	}
	for _, s := range body.List {
		d, isDefer := s.(*ast.DeferStmt)
		if !isDefer {
			return false
		}
		if f, isSelector := d.Call.Fun.(*ast.SelectorExpr); isSelector && f.Sel.Name == "Recover" && len(d.Call.Args) == 2 {
			return true
		}
	}
	return false
}

// functions tells the body of a function that an expression names, or is; nil: it is not of the package, or not known. Other packages are not read, so
// types of theirs are not known.
func (p *parsedPackage) functions(names []string) func(ast.Expr) *ast.BlockStmt {
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	files, bodies := []*ast.File{}, map[types.Object]*ast.BlockStmt{}
	for _, name := range names {
		files = append(files, p.files[name])
	}
	check := types.Config{Importer: unread{}, Error: func(error) {}}
	_, _ = check.Check("p", p.fset, files, info) // errors are of what is not read
	for _, f := range files {
		for _, d := range f.Decls {
			if d, isFunction := d.(*ast.FuncDecl); isFunction {
				bodies[info.Defs[d.Name]] = d.Body
			}
		}
	}
	return func(e ast.Expr) *ast.BlockStmt {
		switch e := ast.Unparen(e).(type) {
		case *ast.FuncLit:
			return e.Body
		case *ast.Ident:
			return bodies[info.Uses[e]]
		case *ast.SelectorExpr:
			return bodies[info.Uses[e.Sel]]
		}
		return nil
	}
}

// unread imports packages without what they have.
type unread struct{}

func (unread) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}

// unconfinedLines returns a line for each goroutine that does not recover and has no exception, and for each exception without one.
func unconfinedLines(unrecovered []string, exceptions map[string][]string) (lines []string) {
	left := maps.Clone(exceptions)
	for _, at := range unrecovered {
		if len(left[at]) == 0 {
			lines = append(lines, fmt.Sprintf("%s starts a goroutine that does not recover from panics: let it begin with defer ….Recover (internal/crash), or say in test/imports/goroutines.go why not", at))
			continue
		}
		left[at] = left[at][1:]
	}
	for _, at := range slices.Sorted(maps.Keys(left)) {
		if n := len(left[at]); n > 0 {
			lines = append(lines, fmt.Sprintf("%s has an exception too many (%d, test/imports/goroutines.go); take it out", at, n))
		}
	}
	return lines
}
