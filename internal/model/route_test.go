// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"

	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

func TestARewriteThatLeavesNothingOfAPathIsNone(t *testing.T) {
	for _, c := range []struct {
		name, prefix, regex, with string
		target, want              string
		ok                        bool
	}{
		{"none", "", "", "", "/a?q", "/a?q", false},
		{"nothing", "", "^.*$", "", "/a", "/a", false},
		{"nothing before a query", "", "^.*$", "", "/a?q", "/a?q", false},
		{"an empty group", "", "^/a(/.*)?$", `\1`, "/a", "/a", false},
		{"a group", "", "^/a(/.*)?$", `\1`, "/a/b?q", "/b?q", true},
		{"no match", "", "never", "", "/a", "/a", true},
		{"no slash", "", "^/", "", "/a?q", "a?q", true},
		{"a query in its place", "", "^.*$", "?x", "/a?q", "?x?q", true},
		{"a prefix", "/b", "", "", "/a/c?q", "/b/c?q", true},
		{"a prefix without a slash", "b", "", "", "/a?q", "b?q", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Route{Path: matcher.PathMatch{Value: "/a"}}
			w := rewrite.PathRewrite{Prefix: c.prefix}
			if c.regex != "" {
				var err error
				if w.Regex, err = matcher.NewSubstitution(c.regex, c.with); err != nil {
					t.Fatal(err)
				}
			}
			if got, ok := r.Target(c.target, w); got != c.want || ok != c.ok {
				t.Errorf("%s: got %s, %t, want %s, %t", c.target, got, ok, c.want, c.ok)
			}
		})
	}
}
