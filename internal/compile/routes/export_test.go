// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// World draws tables and requests for the tests that are outside of the package, because
// they import what imports it.
type World struct{ world }

// NewWorld returns the world of a seed.
func NewWorld(seed uint64) World { return World{newWorld(seed)} }

// Table draws a route table.
func (w World) Table() *model.RouteTable { return w.table() }

// Request draws a request.
func (w World) Request() *matcher.Request { return w.request() }

// Seed is that of the flag, or 0.
func Seed() uint64 { return *seedFlag }

// Describe writes what a difference is to be understood by.
func Describe(rt *model.RouteTable, r *matcher.Request) string {
	t, _ := compileTable("table", rt)
	return describe(rt, &t, r)
}
