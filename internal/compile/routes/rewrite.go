// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"strings"

	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// maxRewrites is how many different rewrites one configuration may have, in all tables. The map holds twice as many.
const maxRewrites = 16383

// rewriteOf returns what a route's prefix_rewrite does to paths, or says why the kernel cannot do it.
func (b *tableBuilder) rewriteOf(r *model.Route) (out tables.Rewrite, reason string) {
	text := r.Rewrite.Prefix
	switch {
	case text == "":
		return tables.Rewrite{}, ""
	case len(text) > int(maps.MaxRewrite):
		return tables.Rewrite{}, fmt.Sprintf("a path rewritten to %d bytes, more than %d", len(text), maps.MaxRewrite)
	case strings.Contains(text, "?") && len(r.Hash) > 0:
		// What is hashed is the query that the endpoint gets.
		return tables.Rewrite{}, "a query written into the path, and a hash policy"
	}
	out = tables.Rewrite{Text: text, Cut: uint32(len(r.Path.Value))}
	if r.ReplacesAll() {
		out.Cut = tables.WholePath
	}
	if !b.space.takeRewrite(out) {
		return tables.Rewrite{}, fmt.Sprintf("more than %d different rewrites of paths", maxRewrites)
	}
	return out, ""
}
