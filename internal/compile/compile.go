// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"fmt"
	"net/netip"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// Compile compiles a validated configuration. It always succeeds; the notes say
// what will be slower than it could be, in the order of the configuration.
func Compile(cfg *model.Config) (*Image, []Note) {
	im := &Image{}
	var notes []Note
	left := newSpace()
	for _, l := range cfg.Listeners {
		where := fmt.Sprintf("listener %q", l.Name)
		t, more := compileListener(left, where, l)
		notes = append(notes, more...)
		im.Listeners = append(im.Listeners, Listener{Name: l.Name, Address: unmapped(l.Address), Table: t})
	}
	for _, c := range cfg.Clusters {
		cl, more := compileCluster(c)
		notes = append(notes, more...)
		im.Clusters = append(im.Clusters, cl)
	}
	return im, notes
}

func compileListener(left *space, where string, l *model.Listener) (Table, []Note) {
	if l.TCP == nil {
		return compileTableWithin(left, where, l.Routes)
	}
	return compilePlain(left, where, l.TCP)
}

// compileTable compiles the only table of a configuration.
func compileTable(where string, rt *model.RouteTable) (Table, []Note) {
	return compileTableWithin(newSpace(), where, rt)
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

// unmapped gives an address the one form in which it is compared.
func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
