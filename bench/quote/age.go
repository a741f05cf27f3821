// SPDX-License-Identifier: Apache-2.0

package quote

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// olderBound is how many commits may have changed the kernel's programs since a run before a page must say that it is of older code.
const olderBound = 10

// Age tells how many commits have changed the kernel's programs since a commit; false: it cannot tell.
type Age func(commit string) (commits int, known bool)

// GitAge asks the history of the work tree at root, once for each commit. A shallow copy has none.
func GitAge(root string) Age {
	type answer struct {
		commits int
		known   bool
	}
	answers := map[string]answer{}
	return func(commit string) (int, bool) {
		a, asked := answers[commit]
		if !asked {
			a.commits, a.known = commitsSince(root, commit)
			answers[commit] = a
		}
		return a.commits, a.known
	}
}

// commitsSince counts those that have changed the kernel's programs.
func commitsSince(root, commit string) (int, bool) {
	out, err := exec.Command("git", "-C", root, "rev-list", "--count", commit+"..HEAD", "--", "bpf").Output()
	if err != nil {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(out)))
	return n, err == nil
}

// code says of which code a run is, as "31c7a1d, older". What the history does not tell stays as said has it.
func (r *Run) code(age Age, said string) string {
	var commits []string
	dirty, older := false, false
	for _, revision := range r.revisions() {
		commit, changed := strings.CutSuffix(revision, "-dirty")
		dirty = dirty || changed
		n, known := age(commit)
		older = older || known && n > olderBound || !known && strings.Contains(said, "older")
		if commit == "dev" {
			commit = "an unknown commit"
		}
		commits = append(commits, commit)
	}
	text := strings.Join(commits, ", ")
	if dirty {
		text += " with uncommitted changes"
	}
	if older {
		text += ", older"
	}
	return text
}

// notice says in a sentence when runs were made, and of which code.
func (p *Pages) notice(names []string, said string) (string, error) {
	var days, commits []string
	older := false
	for _, name := range names {
		r, err := p.run(name)
		if err != nil {
			return "", err
		}
		days = appendNew(days, r.Started.Format("2 January 2006"))
		code, old := strings.CutSuffix(r.code(p.Age, said), ", older")
		older = older || old
		commits = appendNew(commits, code)
	}
	text := fmt.Sprintf("%s (%s)", strings.Join(days, " and "), strings.Join(commits, ", "))
	if older {
		text += ", older than this code"
	}
	return text, nil
}

func appendNew(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}
