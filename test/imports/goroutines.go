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
var confining = []string{
	"internal/anchor",
	"internal/slowpath", "internal/slowpath/conns", "internal/slowpath/h1", "internal/slowpath/policy", "internal/slowpath/tunnel", "internal/slowpath/watchdog",
}

// mayConfine reports a folder whose package is confining as soon as it starts a goroutine.
func mayConfine(folder string) bool {
	return isWithin(folder, "internal/anchor") || isWithin(folder, "internal/slowpath")
}

const (
	closes    = "ends connections or a context, and does nothing else"
	servesAll = "serves all: what a panic leaves behind is unknown"
)

// unconfined are the functions that start a goroutine which does not recover from panics, and why: a reason for each.
var unconfined = map[string][]string{
	"internal/anchor/closings.go closeSoon":          {"each connection that it closes recovers"},
	"internal/anchor/listener.go acceptInBackground": {servesAll},
	"internal/anchor/listener.go beginAccepting":     {servesAll},
	"internal/anchor/queue.go Ready":                 {servesAll},
	"internal/anchor/set.go Go":                      {"runs what it is given; those who call it are looked at"},
	"internal/anchor/set.go New":                     {servesAll},
	"internal/slowpath/conns/conn.go Begin":          {closes},
	"internal/slowpath/conns/connect.go Connect":     {closes},
	"internal/slowpath/conns/idle.go start":          {servesAll},
	"internal/slowpath/policy/breaker.go passOrWait": {servesAll},
	"internal/slowpath/proxy.go Serve":               {closes},
	"internal/slowpath/proxy.go Shutdown":            {"waits for all others"},
	"internal/slowpath/relay.go Relay":               {closes},
	"internal/slowpath/send.go use":                  {closes},
	"internal/slowpath/tcp.go serveTCP":              {closes},
	"internal/slowpath/tunnel/tunnel.go Run":         {closes},
}

// parsedPackage is the files of one folder by their names from the root of the tree.
type parsedPackage struct {
	fset  *token.FileSet
	files map[string]*ast.File
	// crash is package internal/crash.
	crash *types.Package
}

// goroutines returns what p starts without recovery, once for each, as "file function", or "file variable" where that has the function; and how many
// goroutines it starts.
func (p *parsedPackage) goroutines() (unrecovered []string, started int) {
	names := slices.Sorted(maps.Keys(p.files))
	known := p.resolve(names)
	for _, name := range names {
		for _, d := range p.files[name].Decls {
			called := map[ast.Node]bool{}
			ast.Inspect(d, func(n ast.Node) bool {
				if call, isCall := n.(*ast.CallExpr); isCall {
					called[ast.Unparen(call.Fun)] = true
				}
				f := startedBy(n, called[n])
				if f == nil {
					return true
				}
				if started++; !known.recovers(known.body(f)) {
					unrecovered = append(unrecovered, name+" "+declared(d, n))
				}
				return true
			})
		}
	}
	return unrecovered, started
}

// declared is the name of the function or variable that a declaration has at n.
func declared(d ast.Decl, n ast.Node) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Name.Name
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, isValue := s.(*ast.ValueSpec); isValue && v.Pos() <= n.Pos() && n.Pos() < v.End() {
				return v.Names[0].Name
			}
		}
	}
	return "?"
}

// startedBy is the function that a statement or a call has run in a goroutine of its own; nil: it starts none. Where what starts goroutines is not called but
// is a value, it is that itself: what it will be given is not known.
func startedBy(n ast.Node, isCalled bool) ast.Expr {
	switch n := n.(type) {
	case *ast.GoStmt:
		return n.Call.Fun
	case *ast.CallExpr:
		if starts(ast.Unparen(n.Fun)) && len(n.Args) > 0 {
			return n.Args[len(n.Args)-1]
		}
	case *ast.SelectorExpr:
		if starts(n) && !isCalled {
			return n
		}
	}
	return nil
}

func starts(n ast.Node) bool {
	s, isSelector := n.(*ast.SelectorExpr)
	return isSelector && (s.Sel.Name == "Go" || s.Sel.Name == "AfterFunc")
}

// resolved is what is known of the names in a package. Of the packages that it imports internal/crash alone is read, so that other types are not known.
type resolved struct {
	info   *types.Info
	bodies map[types.Object]*ast.BlockStmt
}

func (p *parsedPackage) resolve(names []string) *resolved {
	r := &resolved{
		&types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}},
		map[types.Object]*ast.BlockStmt{},
	}
	var files []*ast.File
	for _, name := range names {
		files = append(files, p.files[name])
	}
	check := types.Config{Importer: unread{p.crash}, Error: func(error) {}}
	_, _ = check.Check("p", p.fset, files, r.info) // errors are of what is not read
	for _, f := range files {
		for _, d := range f.Decls {
			if d, isFunction := d.(*ast.FuncDecl); isFunction {
				r.bodies[r.info.Defs[d.Name]] = d.Body
			}
		}
	}
	return r
}

// body is that of a function that an expression names, or is; nil: it is not of the package, or not known.
func (r *resolved) body(e ast.Expr) *ast.BlockStmt {
	switch e := ast.Unparen(e).(type) {
	case *ast.FuncLit:
		return e.Body
	case *ast.Ident:
		return r.bodies[r.info.Uses[e]]
	case *ast.SelectorExpr:
		return r.bodies[r.info.Uses[e.Sel]]
	}
	return nil
}

// recovers reports whether a function begins by deferring the recovery of package crash. Nothing but what is deferred goes before, and nothing is called for
// that: receiver and arguments are evaluated where the recovery is not in place yet.
func (r *resolved) recovers(body *ast.BlockStmt) bool {
	if body == nil {
		return false
	}
	for _, s := range body.List {
		d, isDefer := s.(*ast.DeferStmt)
		if !isDefer || !areNamed(d.Call.Fun) || !areNamed(d.Call.Args...) {
			return false
		}
		if f, isSelector := d.Call.Fun.(*ast.SelectorExpr); isSelector && r.isRecover(f) {
			return true
		}
	}
	return false
}

func (r *resolved) isRecover(f *ast.SelectorExpr) bool {
	method, isFunction := r.info.Uses[f.Sel].(*types.Func)
	return isFunction && method.FullName() == "(*"+crashPath+".Log).Recover"
}

// areNamed reports expressions that are names, constants or functions alone.
func areNamed(list ...ast.Expr) bool {
	return !slices.ContainsFunc(list, func(e ast.Expr) bool {
		switch e := ast.Unparen(e).(type) {
		case *ast.Ident, *ast.BasicLit, *ast.FuncLit:
			return false
		case *ast.SelectorExpr:
			return !areNamed(e.X)
		}
		return true
	})
}

// crashPath is the package that recovers.
const crashPath = "github.com/xlb-project/xlb/internal/crash"

// crashPackage is what those files of it declare.
func crashPackage(fset *token.FileSet, files []*ast.File) *types.Package {
	check := types.Config{Importer: unread{}, Error: func(error) {}}
	p, _ := check.Check(crashPath, fset, files, nil) // errors are of what is not read
	return p
}

// unread imports packages without what they have, but for crash.
type unread struct{ crash *types.Package }

func (u unread) Import(name string) (*types.Package, error) {
	if name == crashPath && u.crash != nil {
		return u.crash, nil
	}
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
