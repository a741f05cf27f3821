// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"net/netip"
	"slices"

	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/compile/note"
	"github.com/xlb-project/xlb/internal/compile/routes"
	"github.com/xlb-project/xlb/internal/model"
)

// Compiler compiles configurations, one after another. What is the same in the next one, by its pointer, is not compiled again, so nothing
// of the model may be changed once it has been compiled. What comes out depends on nothing but the configuration.
type Compiler struct {
	cache    *routes.Cache
	previous build
}

// NewCompiler returns a compiler.
func NewCompiler() *Compiler { return &Compiler{cache: routes.NewCache()} }

// Compile compiles the only configuration.
func Compile(cfg *model.Config) (*Image, []note.Note) { return NewCompiler().Compile(cfg) }

// Compile compiles a validated configuration. It always succeeds; the notes say
// what will be slower than it could be, in the order of the configuration.
func (c *Compiler) Compile(cfg *model.Config) (*Image, []note.Note) {
	now := build{listeners: cfg.Listeners, names: cfg.Names, sources: cfg.Clusters}
	changed := model.ChangeOf(c.previous.sources, cfg.Clusters)
	if !c.previous.serves(&now, &changed) {
		c.compileListeners(&now, cfg)
	}
	now.addClusters(&c.previous, &changed)
	c.previous = now
	notes := slices.Clip(now.notes)
	for _, k := range now.clusters {
		notes = append(notes, k.notes...)
	}
	return &Image{Listeners: now.compiled, Clusters: now.image(cfg)}, notes
}

// compileListeners compiles those that are not as before. They share what there is room for, so that those taken over take theirs once more.
func (c *Compiler) compileListeners(now *build, cfg *model.Config) {
	defer c.cache.EndRound()
	before := c.previous.byListener()
	left, find := routes.NewSpace(c.cache, cfg.Clusters), newFinder(cfg)
	now.criteria, now.proxied, now.tables = newCriteriaSet(), proxiedBy(cfg), []*cachedTable{}
	for _, l := range cfg.Listeners {
		t := before[l]
		if t == nil || !t.serves(left, find, l) {
			t = compileListener(left, find, l)
		}
		now.tables = append(now.tables, t)
		now.criteria.join(cfg.In(l.View), t.criteria)
		now.notes = append(now.notes, t.notes...)
		now.compiled = append(now.compiled, Listener{
			View: l.View, Name: l.Name, Address: clusters.Unmapped(l.Address), Many: l.Many, PassesBy: t.table == nil, Bound: l.Bound,
			Own: ownAddresses(cfg, l), Table: t.table,
		})
	}
}

// ownAddresses are those of a listener that no other listener has.
func ownAddresses(cfg *model.Config, l *model.Listener) []netip.AddrPort {
	var out []netip.AddrPort
	for _, a := range l.Own {
		taken := func(other *model.Listener) bool {
			return other.View == l.View && clusters.Unmapped(other.Address) == clusters.Unmapped(a)
		}
		if !slices.ContainsFunc(cfg.Listeners, taken) {
			out = append(out, clusters.Unmapped(a))
		}
	}
	return out
}
