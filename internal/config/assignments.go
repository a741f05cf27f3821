// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// assembled is the last configuration, as far as it can become the next by a change of endpoints alone.
type assembled struct {
	cfg *model.Config
	// users are the paths of the clusters that have an assignment, by its name, and at the places of clusters. Made when first asked for.
	users map[string][]string
	at    map[*model.Cluster]int
}

// AssembleAssignments is Assemble where nothing but these assignments differs from the resources that were assembled last, whatever became of those.
// The rest of the configuration is then that of the last, and takes no time.
func (b *Bootstrap) AssembleAssignments(r Resources, names []string) (*model.Config, error) {
	if cfg := b.withAssignments(&r, names); cfg != nil {
		return cfg, nil
	}
	return b.Assemble(r)
}

// withAssignments is nil, and has changed nothing, where more than endpoints may have to change.
func (b *Bootstrap) withAssignments(r *Resources, names []string) *model.Config {
	last := b.last
	if last == nil {
		return nil
	}
	last.index(b.cache)
	p := problem.NewList()
	t := newTranslator(p, b)
	t.resources, t.next, t.nextCache, t.dynamicPart = r, bodies{}, map[string]cachedResource{}, true
	for _, name := range names {
		for _, path := range last.users[name] {
			if _, again := t.nextCache[path]; again {
				continue
			}
			before := b.cache[path].cluster
			if strings.HasPrefix(path, staticPath) || last.cfg.Local != nil && last.cfg.Local.Cluster == before.Name {
				return nil
			}
			c := t.dynamicCluster(before.Name, r.Clusters[before.Name])
			if _, good := t.nextCache[path]; !good || c.MaxDuration > 0 {
				return nil
			}
		}
	}
	if len(p.All())+len(t.originals)+len(t.files) > 0 {
		return nil
	}
	next := *last.cfg
	next.Clusters = slices.Clone(last.cfg.Clusters)
	for path, k := range t.nextCache {
		before := b.cache[path].cluster
		place := last.at[before]
		next.Clusters[place] = k.cluster
		delete(last.at, before)
		last.at[k.cluster] = place
		b.cache[path] = k
	}
	last.cfg = &next
	return &next
}

// index finds out which clusters have which assignments.
func (a *assembled) index(all map[string]cachedResource) {
	if a.at != nil {
		return
	}
	a.users, a.at = map[string][]string{}, make(map[*model.Cluster]int, len(a.cfg.Clusters))
	for i, c := range a.cfg.Clusters {
		a.at[c] = i
	}
	for path, k := range all {
		for _, u := range k.uses {
			if k.cluster != nil && u.kind == Assignments && u.from.ads {
				a.users[u.name] = append(a.users[u.name], path)
			}
		}
	}
}

// remember keeps a configuration that has come about without problems, if a change of endpoints changes nothing else of it.
func (b *Bootstrap) remember(t *translator, cfg *model.Config) {
	b.last = nil
	if len(t.p.All()) == 0 && !t.timed && len(t.originals) == 0 {
		// The caller may change its own.
		last := *cfg
		b.last = &assembled{cfg: &last}
	}
}
