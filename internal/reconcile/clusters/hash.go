// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/hashing"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/reconcile/indices"
)

// publishTable makes a group's table that finds endpoints by hash, for the daemon and, if it may have it and there is room, for the kernel: these
// are its places. Nobody reads them yet. A cluster without any there is served in user space.
func (r *Reconciler) publishTable(group uint32, of *clusters.Hashing) indices.Span {
	if of == nil {
		r.sh.HashTables[group].Store(nil)
		return indices.Span{}
	}
	table := of.Table()
	r.sh.HashTables[group].Store(&maps.HashTable{Table: table, Endpoints: of.Endpoints, BalanceFactor: of.BalanceFactor})
	if !of.InKernel(table.Len()) {
		return indices.Span{}
	}
	span, err := r.indices.HashPlaces.Take(uint32(table.Len()))
	if err != nil {
		r.log.Warn("a cluster that hashes is served in user space", "err", err)
		return indices.Span{}
	}
	writeTable(r.sh.HashPlaces[span.First:span.First+span.Count], table, of.Endpoints)
	return span
}

func writeTable(to []maps.HashPlace, table hashing.Table, endpoints []uint32) {
	switch t := table.(type) {
	case *hashing.Ring:
		for i, p := range t.Points() {
			to[i] = maps.HashPlace{Hash: p.Hash, Endpoint: endpoints[p.Host]}
		}
	case *hashing.Maglev:
		for i, host := range t.Places() {
			to[i] = maps.HashPlace{Endpoint: endpoints[host]}
		}
	}
}
