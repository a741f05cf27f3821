// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A goroutine without the recovery ends the daemon by a panic that concerns one client.
func TestGoroutinesConfinePanics(t *testing.T) {
	packages, crash := map[string]*parsedPackage{}, parseCrash(t)
	for _, name := range sources(t, "../..") {
		file := filepath.ToSlash(strings.TrimPrefix(name, "../../"))
		folder := path.Dir(file)
		if !mayConfine(folder) || isTest(folder) {
			continue
		}
		if packages[folder] == nil {
			packages[folder] = &parsedPackage{fset: token.NewFileSet(), files: map[string]*ast.File{}, crash: crash}
		}
		p := packages[folder]
		p.files[file] = parseIn(t, p.fset, name, nil)
	}
	for folder, p := range packages {
		if _, started := p.goroutines(); started > 0 && !slices.Contains(confining, folder) {
			t.Errorf("%s starts a goroutine: name it among those that confine panics (test/imports/goroutines.go)", folder)
		}
	}
	var unrecovered []string
	for _, folder := range confining {
		p := packages[folder]
		if p == nil {
			t.Fatalf("found no file in %s", folder)
		}
		found, started := p.goroutines()
		if started == 0 {
			t.Errorf("%s starts no goroutine", folder)
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

func parseCrash(t *testing.T) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	p := crashPackage(fset, []*ast.File{parseIn(t, fset, "../../internal/crash/crash.go", nil)})
	if p.Scope().Lookup("Log") == nil {
		t.Fatal("internal/crash has no Log")
	}
	return p
}

func TestGoroutinesWithoutRecoveryAreSeen(t *testing.T) {
	const text = `package p

import (
	"context"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/crash"
)

type a struct{ log *crash.Log }
type b struct{ log *crash.Log }
type embeds struct{ *crash.Log }
type own struct{}

func (own) Recover(string, func()) {}

func (x *a) run(int) { defer x.log.Recover("a", func() {}); x.run(1) }
func (x *b) run(int) { x.run(1) }
func (x *a) late() { x.run(1); defer x.log.Recover("a", func() {}) }
func end() {}

func name() string { return "" }
func ending() func() { return end }

var confined = func(x *a) { go func() { defer x.log.Recover("a", end) }() }
var bare = func() { go end() }
var (
	first  = 1
	second = map[int]func(){1: func() { time.AfterFunc(1, end) }}
)

func starts(list []*a, group *sync.WaitGroup) {
	for _, x := range list {
		go x.run(1)
		go func() { defer group.Done(); defer x.log.Recover("a", end) }()
		group.Go(func() { defer x.log.Recover("a", end) })
		time.AfterFunc(1, func() { defer x.log.Recover("a", end) })
		go func(e embeds) { defer e.Recover("a", end) }(embeds{})
	}
}

func method(x *b) { go x.run(1) }
func literal() { go func() { end() }() }
func late(x *a) { go x.late() }
func group(g *sync.WaitGroup) { g.Go(end) }
func timer() { time.AfterFunc(1, end) }
func variable(f func()) { func() { go f() }() }
func nested(x *a) { go func() { defer x.log.Recover("a", end); go end() }() }
func given(f func()) { context.AfterFunc(nil, f) }
func parenthesized() { (time.AfterFunc)(1, end) }
func value() { f := time.AfterFunc; f(1, end) }
func field(x *struct{ onLoss any }) { x.onLoss = context.AfterFunc }
func ofGroup(g *sync.WaitGroup) { f := g.Go; f(end) }
func another(x own) { go func() { defer x.Recover("a", end) }() }
func unknown(x context.Log) { go func() { defer x.Recover("a", end) }() }
func argument(x *a) { go func() { defer x.log.Recover(name(), end) }() }
func calledEnd(x *a) { go func() { defer x.log.Recover("a", ending()) }() }
func index(x []*a) { go func() { defer x[1].log.Recover("a", end) }() }
func before(x *a) { go func() { defer ending()(); defer x.log.Recover("a", end) }() }
func argumentBefore(x *a) { go func() { defer close([]chan int{}[1]); defer x.log.Recover("a", end) }() }
`
	fset := token.NewFileSet()
	p := parsedPackage{fset, map[string]*ast.File{"p.go": parseIn(t, fset, "p.go", text)}, parseCrash(t)}
	got, started := p.goroutines()
	const recovered = 7
	want := []string{
		"p.go bare", "p.go second", "p.go method", "p.go literal", "p.go late", "p.go group", "p.go timer", "p.go variable", "p.go nested",
		"p.go given", "p.go parenthesized", "p.go value", "p.go field", "p.go ofGroup", "p.go another", "p.go unknown", "p.go argument", "p.go calledEnd",
		"p.go index", "p.go before", "p.go argumentBefore",
	}
	if diff := cmp.Diff(want, got); diff != "" || started != len(want)+recovered {
		t.Errorf("%d started; -want +got:\n%s", started, diff)
	}
	lines := unconfinedLines([]string{"f.go a", "f.go b", "f.go b"}, map[string][]string{"f.go b": {"because"}, "f.go gone": {"because"}})
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "f.go a starts") || !strings.HasPrefix(lines[1], "f.go b starts") || !strings.HasPrefix(lines[2], "f.go gone has an exception") {
		t.Errorf("got %q", lines)
	}
}
