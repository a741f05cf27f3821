// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"github.com/xlb-project/xlb/internal/compile/note"
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// compileTable compiles the only table of a configuration.
func compileTable(where string, rt *model.RouteTable) (tables.Table, []note.Note) {
	return Compile(NewSpace(NewCache(), nil), where, model.Scope{}, rt)
}

// Compile compiles one table, which calls clusters as its scope does, and takes what it needs of the space that is left. The notes name places in it behind where.
//
// It falls back to a slow table, which holds nothing but its flag, where the kernel would send on other headers than the slow path.
func Compile(left *Space, where string, scope model.Scope, rt *model.RouteTable) (tables.Table, []note.Note) {
	if rt.EnvoyHeaders != nil {
		return tables.Table{Flags: maps.TableSlow}, []note.Note{{Where: where, Reason: "--envoy-headers; the slow path serves the listener"}}
	}
	b := newTableBuilder(where, scope, left)
	b.add(rt)
	return b.finish(), b.notes
}
