// SPDX-License-Identifier: Apache-2.0

package quote

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Pages of a work tree, and the runs that they quote.
type Pages struct {
	// Root of the tree, and Age of its commits.
	Root string
	Age  Age
	runs map[string]*Run
}

var (
	// figure is a number and the marker behind it.
	figure = regexp.MustCompile(`(-?[0-9][0-9,]*(?:\.[0-9]+)?)?<!--figure ([^>]*)-->`)
	// block is text that is made from runs.
	block = regexp.MustCompile(`(?s)<!--(table|notice) ([^>]*)-->(.*?)<!--end-->`)
	// opened is a marker of any kind, right or wrong.
	opened = regexp.MustCompile(`<!--\s*(figure|table|notice)\b`)
)

// Paths are the pages that quote results, from the root: README.md, two of the benchmark's and those of docs/.
func (p *Pages) Paths() ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(p.Root, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	for i := range paths {
		if paths[i], err = filepath.Rel(p.Root, paths[i]); err != nil {
			return nil, err
		}
	}
	return append([]string{"README.md", "bench/README.md", "bench/METHOD.md"}, paths...), nil
}

// Update writes all pages anew whose figures are not those of their runs, and names them.
func (p *Pages) Update() (changed []string, err error) {
	paths, err := p.Paths()
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		name := filepath.Join(p.Root, path)
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		updated, err := p.apply(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if updated == string(text) {
			continue
		}
		if err := os.WriteFile(name, []byte(updated), 0o644); err != nil {
			return nil, err
		}
		changed = append(changed, path)
	}
	return changed, nil
}

// Replace has all pages quote another run: in markers and in links. Names are directories of bench/results.
func (p *Pages) Replace(old, run string) error {
	if _, err := p.run(run); err != nil {
		return err
	}
	paths, err := p.Paths()
	if err != nil {
		return err
	}
	for _, path := range paths {
		name := filepath.Join(p.Root, path)
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(replaceRun(string(text), old, run)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// replaceRun leaves names alone that only begin or end alike.
func replaceRun(text, old, run string) string {
	name := regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(old) + `($|-->|[^\w-])`)
	// A match ends before the next one can begin: a second pass finds those that share a space.
	for range 2 {
		text = name.ReplaceAllString(text, "${1}"+run+"${2}")
	}
	return text
}

// Check says what is wrong with a page.
func (p *Pages) Check(path, text string) (faults []string) {
	quoted, faults := p.checkFigures(text)
	shown, told, wrong := p.checkBlocks(text)
	faults = append(faults, wrong...)
	if len(opened.FindAllString(text, -1)) != len(figure.FindAllString(text, -1))+len(block.FindAllString(text, -1)) {
		faults = append(faults, "a marker that is none: want <!--figure RUN ... PATH--> with nothing else in it, or <!--table NAME RUN-->, <!--notice RUN--> and <!--end-->")
	}
	maps.Copy(quoted, shown)
	for _, run := range slices.Sorted(maps.Keys(quoted)) {
		if !told[run] {
			faults = append(faults, fmt.Sprintf("%s: no <!--notice--> and no table of runs says of which code it is", run))
		}
	}
	for i, fault := range faults {
		faults[i] = path + ": " + fault
	}
	return faults
}

// checkFigures says which figures are not those of their runs, and which runs they name.
func (p *Pages) checkFigures(text string) (quoted map[string]bool, faults []string) {
	quoted = map[string]bool{}
	for _, m := range figure.FindAllStringSubmatch(text, -1) {
		written, words := m[1], strings.Fields(m[2])
		want, err := p.figure(written, words)
		switch {
		case err != nil:
			faults = append(faults, fmt.Sprintf("%s: %v", m[0], err))
		case written != want:
			faults = append(faults, fmt.Sprintf("%s: the run says %s", m[0], want))
		}
		if len(words) > 0 {
			quoted[words[0]] = true
		}
	}
	return quoted, faults
}

// checkBlocks says which tables and notices are not what the runs say, whose figures tables show, and of which runs the page tells the code.
func (p *Pages) checkBlocks(text string) (shown, told map[string]bool, faults []string) {
	shown, told = map[string]bool{}, map[string]bool{}
	for _, m := range block.FindAllStringSubmatch(text, -1) {
		kind, words, was := m[1], strings.Fields(m[2]), m[3]
		want, err := p.block(kind, words, was)
		switch {
		case err != nil:
			faults = append(faults, fmt.Sprintf("%s %s: %v", kind, m[2], err))
			continue
		case want != was:
			faults = append(faults, fmt.Sprintf("%s %s: the runs say\n%s", kind, m[2], want))
		}
		runs, into := words, told
		if kind == "table" {
			runs = words[1:]
			if words[0] != tableOfRuns {
				into = shown
			}
		}
		for _, run := range runs {
			into[run] = true
		}
	}
	return shown, told, faults
}

// apply returns the text with what its runs say.
func (p *Pages) apply(text string) (string, error) {
	var failed error
	text = figure.ReplaceAllStringFunc(text, func(found string) string {
		m := figure.FindStringSubmatch(found)
		number, err := p.figure(m[1], strings.Fields(m[2]))
		if err != nil && failed == nil {
			failed = fmt.Errorf("%s: %w", found, err)
		}
		return number + found[len(m[1]):]
	})
	text = block.ReplaceAllStringFunc(text, func(found string) string {
		m := block.FindStringSubmatch(found)
		made, err := p.block(m[1], strings.Fields(m[2]), m[3])
		if err != nil && failed == nil {
			failed = fmt.Errorf("%s %s: %w", m[1], m[2], err)
		}
		return fmt.Sprintf("<!--%s %s-->%s<!--end-->", m[1], m[2], made)
	})
	return text, failed
}

// figure is what the run says, rounded as written.
func (p *Pages) figure(written string, words []string) (string, error) {
	if written == "" {
		return "", fmt.Errorf("no number stands before the marker")
	}
	if len(words) == 0 {
		return "", fmt.Errorf("the marker names no run")
	}
	r, err := p.run(words[0])
	if err != nil {
		return "", err
	}
	q, err := parseQuery(words[1:])
	if err != nil {
		return "", err
	}
	v, err := r.value(q)
	if err != nil {
		return "", err
	}
	_, decimals, _ := strings.Cut(written, ".")
	return grouped(strconv.FormatFloat(v, 'f', len(decimals), 64)), nil
}

// grouped has a comma before each three digits.
func grouped(number string) string {
	whole, rest := number, ""
	if i := strings.IndexByte(number, '.'); i >= 0 {
		whole, rest = number[:i], number[i:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return whole + rest
}

// block makes the text of a table or a notice; was is what stands there.
func (p *Pages) block(kind string, words []string, was string) (string, error) {
	if kind == "notice" {
		return p.notice(words, was)
	}
	return p.table(words, was)
}

func (p *Pages) run(name string) (*Run, error) {
	if r := p.runs[name]; r != nil {
		return r, nil
	}
	r, err := readRun(filepath.Join(p.Root, "bench", "results"), name)
	if err != nil {
		return nil, err
	}
	if p.runs == nil {
		p.runs = map[string]*Run{}
	}
	p.runs[name] = r
	return r, nil
}
