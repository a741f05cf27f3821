// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBytesOfOthersAreReadByBytes(t *testing.T) {
	seen := 0
	for _, name := range sources(t, "../..") {
		path, err := filepath.Rel("../..", name)
		if err != nil {
			t.Fatal(err)
		}
		if layer := layerOf(filepath.ToSlash(path)); layer == "" || isTest(filepath.ToSlash(filepath.Dir(path))) {
			continue
		}
		seen++
		for _, line := range unfitCalls(filepath.ToSlash(path), parsed(t, name, nil)) {
			t.Error(line)
		}
	}
	if seen < 100 {
		t.Errorf("looked into %d files only", seen)
	}
}

func TestExceptionsAreOfFilesThatExist(t *testing.T) {
	files := sources(t, "../..")
	for name := range excepted {
		if !slices.Contains(files, filepath.Join("../..", name)) {
			t.Errorf("%s has exceptions (test/imports/calls.go) and does not exist; take them out", name)
		}
	}
}

func TestUnfitCallsAreSeen(t *testing.T) {
	const text = `package p

import (
	"fmt"
	"strings"
	"unicode"
	other "bytes"
	"net/url"
)

type text struct{}

func (text) ToLower(string) string { return "" }

func f(s string) {
	fmt.Println(strings.EqualFold(s, "a"), unicode.IsSpace('a'), other.TrimSpace(nil))
	same := strings.ToLower
	{
		strings := text{}
		same = strings.ToUpper
	}
	var _ url.Values
	_ = strings.Contains(s, "b")
}
`
	want := []string{"bytes.TrimSpace", "strings.EqualFold", "strings.ToLower", "unicode.IsSpace"}
	if diff := cmp.Diff(want, calls(parsed(t, "p.go", text))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := unfitCalls("internal/p/p.go", parsed(t, "p.go", text)); len(got) != len(want) {
		t.Errorf("%d lines for %d calls: %q", len(got), len(want), got)
	}
	if got := unfitCalls("internal/model/matcher/header.go", parsed(t, "p.go", "package p")); len(got) != 1 {
		t.Errorf("an exception without a use makes %q", got)
	}
}

func parsed(t *testing.T, name string, text any) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
