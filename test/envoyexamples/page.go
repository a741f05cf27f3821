// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// page is what is written: the examples of a commit, judged by a release of Envoy.
type page struct {
	commit, envoy string
	examples      []example
}

// String is the page in Markdown.
func (p *page) String() string {
	accepted, runs, both := 0, 0, 0
	for _, e := range p.examples {
		accepted += one(len(e.problems) == 0)
		runs += one(e.envoy == "")
		both += one(e.envoy == "" && len(e.problems) == 0)
	}
	var text strings.Builder
	fmt.Fprintf(&text, `# Envoy's examples

Each bootstrap in [Envoy's examples](https://github.com/envoyproxy/examples) (commit %s), checked as it is by Envoy %s
(`+"`envoy --mode validate`"+`) and by XLB (`+"`xlb check --config`"+`). `+"`make envoy-examples EXAMPLES=CHECKOUT`"+` writes this page.

**Of %d files Envoy accepts %d, and XLB %d of these.**%s What Envoy refuses here names files that the example makes later, or an extension that
this build of Envoy does not have.

`, p.commit, p.envoy, len(p.examples), runs, both, others(accepted-both))
	p.writeReasons(&text)
	p.writeFiles(&text)
	return text.String()
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// others says how many files XLB accepts that Envoy does not.
func others(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" XLB accepts %d more.", n)
}

// cause is a reason and the files refused for it.
type cause struct {
	finding
	files int
	// alone counts the files that are refused for nothing else.
	alone int
}

// causes are the reasons among files that Envoy accepts, those that refuse most files first.
func (p *page) causes() []*cause {
	var list []*cause
	for _, e := range p.examples {
		if e.envoy != "" {
			continue
		}
		for _, f := range e.problems {
			i := slices.IndexFunc(list, func(c *cause) bool { return c.finding == f })
			if i < 0 {
				i = len(list)
				list = append(list, &cause{finding: f})
			}
			list[i].files++
			list[i].alone += one(len(e.problems) == 1)
		}
	}
	slices.SortStableFunc(list, func(a, b *cause) int {
		return cmp.Or(b.files-a.files, b.alone-a.alone, strings.Compare(a.field, b.field), strings.Compare(a.reason, b.reason))
	})
	return list
}

func (p *page) writeReasons(text *strings.Builder) {
	text.WriteString("## Why XLB refuses\n\nOf the files that Envoy accepts. *Alone* are those that XLB would accept but for this reason.\n\n" +
		"| field | reason | files | alone |\n|---|---|---|---|\n")
	for _, c := range p.causes() {
		fmt.Fprintf(text, "| %s | %s | %d | %d |\n", code(c.field), cell(c.reason), c.files, c.alone)
	}
}

func (p *page) writeFiles(text *strings.Builder) {
	text.WriteString("\n## The files\n\n| file | Envoy | XLB |\n|---|---|---|\n")
	for _, e := range p.examples {
		envoy := "accepts"
		if e.envoy != "" {
			envoy = "refuses: " + cell(e.envoy)
		}
		fmt.Fprintf(text, "| %s | %s | %s |\n", e.file, envoy, verdict(e.problems))
	}
}

// verdict says in a cell what XLB makes of a file.
func verdict(problems []finding) string {
	if len(problems) == 0 {
		return "accepts"
	}
	var parts []string
	for _, f := range problems {
		part := cell(f.reason)
		if f.field != "" {
			part = code(f.field) + ": " + part
		}
		parts = append(parts, part)
	}
	return "refuses: " + strings.Join(parts, "; ")
}

func code(field string) string {
	if field == "" {
		return ""
	}
	return "`" + field + "`"
}

// cell keeps a text from ending a cell, or from being taken for markup.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;", "\n", " ").Replace(text)
}
