// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// page is a Markdown file, by its path from the root.
type page struct{ path, text string }

// tree reads all pages but those of measured results, and all other files of text in one.
func tree(t *testing.T) (pages []page, sources string) {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || path == "bin" || path == "bench/results" || entry.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if !entry.Type().IsRegular() || !slices.Contains([]string{".md", ".go", ".c", ".h", ""}, filepath.Ext(path)) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if filepath.Ext(path) == ".md" {
			pages = append(pages, page{path, string(text)})
		} else {
			all.Write(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages, all.String()
}

var (
	link    = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	// linked is the text of a link in a heading, and dropped what an anchor leaves out.
	linked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	dropped = regexp.MustCompile(`[^\w\- ]`)
	// named is a test, or the like, that a page says holds something.
	named = regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz)[A-Z]\w+`)
	// target is what make is to do.
	target = regexp.MustCompile("`make ([a-z][a-z0-9-]*)")
)

func TestLinksLeadSomewhere(t *testing.T) {
	pages, _ := tree(t)
	if len(pages) == 0 {
		t.Fatal("found no page")
	}
	for _, p := range pages {
		for _, m := range link.FindAllStringSubmatch(p.text, -1) {
			to, anchor := m[1], m[2]
			if strings.Contains(to, "://") {
				continue
			}
			path := p.path
			if to != "" {
				path = filepath.Join(filepath.Dir(p.path), to)
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s: %s: %v", p.path, m[0], err)
				continue
			}
			i := slices.IndexFunc(pages, func(other page) bool { return other.path == path })
			if anchor != "" && i >= 0 && !slices.Contains(anchors(pages[i].text), anchor) {
				t.Errorf("%s: %s: no such heading", p.path, m[0])
			}
		}
	}
}

// anchors are those of a page's headings, as GitHub makes them.
func anchors(text string) []string {
	var list []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		title := dropped.ReplaceAllString(strings.ToLower(linked.ReplaceAllString(m[1], "$1")), "")
		list = append(list, strings.ReplaceAll(strings.TrimSpace(title), " ", "-"))
	}
	return list
}

func TestTestsThatPagesNameAreThere(t *testing.T) {
	pages, sources := tree(t)
	for _, p := range pages {
		for _, name := range named.FindAllString(p.text, -1) {
			if !strings.Contains(sources, "func "+name+"(") {
				t.Errorf("%s names %s, which is nowhere", p.path, name)
			}
		}
	}
}

func TestTargetsThatPagesNameAreThere(t *testing.T) {
	pages, _ := tree(t)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		for _, m := range target.FindAllStringSubmatch(p.text, -1) {
			name := m[1]
			if name == "bench-" { // make bench-NAME
				continue
			}
			known := regexp.MustCompile(`(?m)^` + name + `:|^BENCH_CASES :=.*\b` + strings.TrimPrefix(name, "bench-") + `\b`)
			if !known.Match(makefile) {
				t.Errorf("%s: %s: the Makefile has no such target", p.path, m[0])
			}
		}
	}
}
