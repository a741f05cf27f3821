// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/xlb-project/xlb/internal/compile/note"
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// tableBuilder collects one table.
type tableBuilder struct {
	table      tables.Table
	conditions conditionSet
	notes      []note.Note
	space      *Space
	scope      model.Scope
	// where is the place that is being compiled, for notes.
	where string
	// routes and lists number what is already in table.Routes; splits likewise.
	routes map[tables.Route]uint32
	lists  map[string]uint32
	key    []byte // of a list; kept for the next one
	tuples map[string]uint32
	splits map[string]uint32
	// retries are places in table.Retries, plus 1.
	retries map[tables.Retry]uint32
}

func newTableBuilder(where string, scope model.Scope, left *Space) *tableBuilder {
	return &tableBuilder{
		space:   left,
		where:   where,
		scope:   scope,
		routes:  map[tables.Route]uint32{},
		lists:   map[string]uint32{},
		tuples:  map[string]uint32{},
		splits:  map[string]uint32{},
		retries: map[tables.Retry]uint32{},
	}
}

func (b *tableBuilder) add(rt *model.RouteTable) {
	table := b.where
	b.table.Flags |= pathFlags(rt)
	b.table.RequestTimeout, b.table.MaxRequests = rt.RequestTimeout, rt.Connections.Requests
	b.addHosts(rt)
	hosts, splits := make([][]asked, len(rt.VirtualHosts)), make([]corsSplit, len(rt.VirtualHosts))
	for i, vh := range rt.VirtualHosts {
		splits[i] = splitByCORS(vh.Routes)
		hosts[i] = askedByAll(splits[i].routes)
	}
	b.conditions.survey(hosts, b.space)
	for i, vh := range rt.VirtualHosts {
		b.where = fmt.Sprintf("%s: virtual host %q", table, vh.Name)
		b.addRoutes(uint32(i)+1, &splits[i], hosts[i])
	}
	b.where = table
}

func (b *tableBuilder) finish() tables.Table {
	b.conditions.layout(&b.table)
	for i := range b.table.Fields {
		b.table.Flags |= tables.KindOf(b.table.Fields[i].Name)
	}
	return b.table
}

// hasRoom says whether the table may hold so many more routes.
func (b *tableBuilder) hasRoom(routes int) bool { return len(b.table.Routes)+routes <= maxRoutes }

// addList returns where a list of candidates lies; equal lists lie in one place.
func (b *tableBuilder) addList(list []tables.Route) uint32 {
	b.key = b.key[:0]
	for _, r := range list {
		id, known := b.routes[r]
		if !known {
			id = uint32(len(b.routes))
			b.routes[r] = id
		}
		b.key = binary.LittleEndian.AppendUint32(b.key, id)
	}
	if first, known := b.lists[string(b.key)]; known {
		return first
	}
	first := uint32(len(b.table.Routes))
	b.table.Routes = append(b.table.Routes, list...)
	b.lists[string(b.key)] = first
	return first
}

// compileRoute gives a route its action; reason says why it cannot have one.
func (b *tableBuilder) compileRoute(r *model.Route) (out tables.Route, reason string) {
	if what := r.Beyond(); what != "" {
		return tables.Route{}, what
	}
	out = tables.Route{Timeout: r.Timeout, Idle: r.Idle, Flags: flagsOf(r)}
	if out.Rewrite, reason = b.rewriteOf(r); reason != "" {
		return tables.Route{}, reason
	}
	if out.Retry, reason = b.retryOf(r.Retry); reason != "" {
		return tables.Route{}, reason
	}
	if out.Hash, reason = b.conditions.hashProgram(r.Hash); reason != "" {
		return tables.Route{}, reason
	}
	shares := r.Clusters
	// The weight of a plain cluster is of no consequence.
	if len(shares) > 1 {
		shares = slices.DeleteFunc(slices.Clone(shares), func(c model.WeightedCluster) bool { return c.Weight == 0 })
	}
	switch {
	case len(shares) == 1:
		out.Cluster, out.Criteria = b.scope.Key(shares[0].Name), b.space.criteria(b.scope, &shares[0])
	case len(shares) > int(maps.MaxSplit):
		return tables.Route{}, fmt.Sprintf("%d weighted clusters, more than %d", len(shares), maps.MaxSplit)
	default:
		out.First, out.Total = b.addSplits(shares)
		out.Count = uint32(len(shares))
		b.table.Flags |= maps.TableDraw
	}
	return out, ""
}

// slowRoute stands for a route that only the slow path can choose or act on.
func slowRoute(position int) tables.Route {
	return tables.Route{Flags: maps.RouteSlow, Order: uint32(position)}
}

func flagsOf(r *model.Route) maps.RouteFlags {
	if r.Allows(model.UpgradeWebSocket) {
		return maps.RouteWebsocket
	}
	return 0
}

// addSplits returns where the shares lie and the sum of their weights.
func (b *tableBuilder) addSplits(shares []model.WeightedCluster) (first, total uint32) {
	splits := make([]tables.Split, 0, len(shares))
	var key []byte
	for i := range shares {
		s := &shares[i]
		asked := b.space.criteria(b.scope, s)
		total += s.Weight
		splits = append(splits, tables.Split{Below: total, Cluster: b.scope.Key(s.Name), Criteria: asked})
		key = binary.LittleEndian.AppendUint32(key, s.Weight)
		key = binary.LittleEndian.AppendUint32(key, uint32(len(s.Name)))
		key = append(key, s.Name...)
		key = binary.LittleEndian.AppendUint32(key, uint32(len(asked)))
		key = append(key, asked...)
	}
	if first, known := b.splits[string(key)]; known {
		return first, total
	}
	first = uint32(len(b.table.Splits))
	b.table.Splits = append(b.table.Splits, splits...)
	b.splits[string(key)] = first
	return first, total
}
