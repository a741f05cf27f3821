// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// compileTable compiles the only table of a configuration.
func compileTable(where string, rt *model.RouteTable) (Table, []Note) {
	return compileTableWithin(newSpace(newCache()), where, rt)
}

// compileTableWithin falls back to a slow table, which holds nothing but its flag, where
// the kernel would send on other headers than the slow path.
func compileTableWithin(left *space, where string, rt *model.RouteTable) (Table, []Note) {
	if rt.Hop != nil {
		return Table{Flags: maps.TableSlow}, []Note{{Where: where, Reason: "--envoy-headers; the slow path serves the listener"}}
	}
	b := newTableBuilder(where, left)
	b.add(rt)
	return b.finish(), b.notes
}
