// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// Compiler compiles configurations, one after another. It keeps what is made of expressions for the next one; what comes out
// depends on nothing but the configuration.
type Compiler struct{ known *known }

// NewCompiler returns a compiler.
func NewCompiler() *Compiler { return &Compiler{newKnown()} }

// Compile compiles the only configuration.
func Compile(cfg *model.Config) (*Image, []Note) { return NewCompiler().Compile(cfg) }

// Compile compiles a validated configuration. It always succeeds; the notes say
// what will be slower than it could be, in the order of the configuration.
func (c *Compiler) Compile(cfg *model.Config) (*Image, []Note) {
	defer c.known.endRound()
	im := &Image{}
	var notes []Note
	left := newSpace(c.known)
	left.noteSubsets(cfg)
	criteria := criteriaOf(cfg)
	for _, l := range cfg.Listeners {
		where := fmt.Sprintf("listener %q", l.Name)
		out := Listener{
			Name: l.Name, Address: unmapped(l.Address), Many: l.Many, PassesBy: cfg.PassesBy(l), Bound: l.Bound, Own: ownAddresses(cfg, l),
		}
		if !out.PassesBy {
			var more []Note
			out.Table, more = compileListener(left, where, cfg, l)
			notes = append(notes, more...)
		}
		im.Listeners = append(im.Listeners, out)
	}
	for _, c := range cfg.Clusters {
		cl, more := compileCluster(c)
		cl.addSubsets(c, criteria.of(c.Name))
		notes = append(notes, more...)
		im.Clusters = append(im.Clusters, cl)
	}
	im.addZones(cfg.Local)
	return im, notes
}

// ownAddresses are those of a listener that no other listener has.
func ownAddresses(cfg *model.Config, l *model.Listener) []netip.AddrPort {
	var out []netip.AddrPort
	for _, a := range l.Own {
		taken := func(other *model.Listener) bool { return unmapped(other.Address) == unmapped(a) }
		if !slices.ContainsFunc(cfg.Listeners, taken) {
			out = append(out, unmapped(a))
		}
	}
	return out
}

func compileListener(left *space, where string, cfg *model.Config, l *model.Listener) (Table, []Note) {
	if l.TCP != nil {
		return compilePlain(left, where, cfg, l)
	}
	t, notes := compileTableWithin(left, where, l.Routes)
	return t, append(notes, inspectionNotes(where, l)...)
}

// compileTable compiles the only table of a configuration.
func compileTable(where string, rt *model.RouteTable) (Table, []Note) {
	return compileTableWithin(newSpace(newKnown()), where, rt)
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
