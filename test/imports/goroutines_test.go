// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A goroutine without the recovery ends the daemon by a panic that concerns one client.
func TestGoroutinesConfinePanics(t *testing.T) {
	packages := map[string]*parsedPackage{}
	for _, name := range sources(t, "../..") {
		file := filepath.ToSlash(strings.TrimPrefix(name, "../../"))
		folder := path.Dir(file)
		if !slices.Contains(confining, folder) {
			continue
		}
		if packages[folder] == nil {
			packages[folder] = &parsedPackage{fset: token.NewFileSet(), files: map[string]*ast.File{}}
		}
		p := packages[folder]
		p.files[file] = parseIn(t, p.fset, name, nil)
	}
	var unrecovered []string
	for _, folder := range confining {
		p := packages[folder]
		if p == nil {
			t.Fatalf("found no file in %s", folder)
		}
		found, started := p.goroutines()
		if started < 4 {
			t.Errorf("%s starts %d goroutines only", folder, started)
		}
		unrecovered = append(unrecovered, found...)
	}
	for _, line := range unconfinedLines(unrecovered, unconfined) {
		t.Error(line)
	}
}

func parseIn(t *testing.T, fset *token.FileSet, name string, text any) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(fset, name, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestGoroutinesWithoutRecoveryAreSeen(t *testing.T) {
	const text = `package p

import (
	"sync"
	"time"
)

type a struct{ log log }
type b struct{ log log }
type log struct{}

func (log) Recover(string, func()) {}

func (x *a) run(int) { defer x.log.Recover("a", func() {}); x.run(1) }
func (x *b) run(int) { x.run(1) }
func (x *a) late() { x.run(1); defer x.log.Recover("a", func() {}) }
func end() {}

func starts(list []*a, group *sync.WaitGroup) {
	for _, x := range list {
		go x.run(1)
		go func() { defer group.Done(); defer x.log.Recover("a", end) }()
		group.Go(func() { defer x.log.Recover("a", end) })
		time.AfterFunc(1, func() { defer x.log.Recover("a", end) })
	}
}

func method(x *b) { go x.run(1) }
func literal() { go func() { end() }() }
func late(x *a) { go x.late() }
func group(g *sync.WaitGroup) { g.Go(end) }
func timer() { time.AfterFunc(1, end) }
func variable(f func()) { func() { go f() }() }
func nested(x *a) { go func() { defer x.log.Recover("a", end); go end() }() }
`
	fset := token.NewFileSet()
	p := parsedPackage{fset, map[string]*ast.File{"p.go": parseIn(t, fset, "p.go", text)}}
	got, started := p.goroutines()
	want := []string{"p.go method", "p.go literal", "p.go late", "p.go group", "p.go timer", "p.go variable", "p.go nested"}
	if diff := cmp.Diff(want, got); diff != "" || started != len(want)+5 {
		t.Errorf("%d started; -want +got:\n%s", started, diff)
	}
	lines := unconfinedLines([]string{"f.go a", "f.go b", "f.go b"}, map[string][]string{"f.go b": {"because"}, "f.go gone": {"because"}})
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "f.go a starts") || !strings.HasPrefix(lines[1], "f.go b starts") || !strings.HasPrefix(lines[2], "f.go gone has an exception") {
		t.Errorf("got %q", lines)
	}
}
