// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"strings"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// KernelLimit says why the kernel hands a request over that comes as far as a route: what
// the route asks, or does, is more than the kernel can tell or do. It is empty when the
// kernel decides, or knows that the route does not match. What only the whole table
// shows, such as too many conditions, stands in the notes of Compile. The route is
// compiled, which takes a hostile expression some 10 ms: ask MayReach before.
func KernelLimit(route *model.Route, r *matcher.Request) string {
	t, notes := compileTable("", &model.RouteTable{VirtualHosts: []*model.VirtualHost{
		{Domains: []string{"*"}, Routes: []*model.Route{route}},
	}})
	if _, verdict := t.Route(r); verdict != maps.HandoverRouteSlow || len(notes) == 0 {
		return ""
	}
	reason, _, _ := strings.Cut(notes[0].Reason, ";")
	return reason
}

// MayReach reports whether the beginning of a request's path allows a route, as far as that is a matter of bytes. What it
// excludes the kernel excludes too.
func MayReach(route *model.Route, r *matcher.Request) bool {
	return strings.HasPrefix(r.Path, stemOf(route.Path, literalPrefix))
}
