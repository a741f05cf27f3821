// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/xlb-project/xlb/internal/compile/note"
	"github.com/xlb-project/xlb/internal/compile/routes"
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// compileTCP makes a table with one route for everything, which the connect programs look up (bpf/lib/plain.h).
func compileTCP(left *routes.Space, where string, find *finder, l *model.Listener) (tables.Table, []note.Note) {
	p := l.TCP
	table, notes := routes.Compile(left, where, find.cfg.In(l.View), &model.RouteTable{VirtualHosts: []*model.VirtualHost{{
		Domains: []string{"*"},
		Routes:  []*model.Route{{Path: matcher.PathMatch{Kind: matcher.PathPrefix, Value: "/"}, Clusters: p.Clusters}},
	}}})
	table.Flags |= maps.TablePlain
	if why := cmp.Or(inspects(l), p.InUserSpace(), followsClient(find, l), secured(find, l), otherFamily(find, l)); why != "" {
		table.Flags |= maps.TableSlow
		notes = append(notes, note.Note{Where: where, Reason: why + "; the slow path serves the listener's connections"})
	}
	return table, notes
}

// secured names a cluster with an endpoint that expects TLS, or that is a listener of this process, if there is one: only the slow path connects
// to it. It gets all connections, as with otherFamily.
func secured(find *finder, l *model.Listener) string {
	for _, share := range l.TCP.Clusters {
		c := find.of(l)(share.Name)
		if c == nil {
			continue
		}
		if slices.ContainsFunc(c.Endpoints, func(e model.Endpoint) bool { return e.TLS != nil }) {
			return fmt.Sprintf("an endpoint of cluster %s has TLS", c.Name)
		}
		if slices.ContainsFunc(c.Endpoints, func(e model.Endpoint) bool { return e.Inner }) {
			return fmt.Sprintf("an endpoint of cluster %s is the address of a listener", c.Name)
		}
	}
	return ""
}

// otherFamily names an endpoint whose address a socket of the listener's family cannot connect to, if there is one. If only the connections to it
// were the daemon's, it would choose anew for each, and the others got more than their share.
func otherFamily(find *finder, l *model.Listener) string {
	for _, share := range l.TCP.Clusters {
		cluster := find.of(l)(share.Name)
		if cluster == nil {
			continue
		}
		for _, e := range cluster.Endpoints {
			if e.Address.Addr().Unmap().Is4() != l.Address.Addr().Unmap().Is4() {
				return fmt.Sprintf("endpoint %s of cluster %s has another address family", e.Address, cluster.Name)
			}
		}
	}
	return ""
}

// inspects says that a connection's endpoint is not known before its first bytes are.
func inspects(l *model.Listener) string {
	if l.Inspection == nil {
		return ""
	}
	return "first bytes decide among filter chains"
}

// followsClient names a cluster whose endpoint is another one for each connection, if there is one.
func followsClient(find *finder, l *model.Listener) string {
	for _, share := range l.TCP.Clusters {
		if c := find.of(l)(share.Name); c != nil && c.FollowsClient() {
			return fmt.Sprintf("cluster %s is wherever the client connected to", c.Name)
		}
	}
	return ""
}

// inspectionNotes say what a listener with routes has no routes for.
func inspectionNotes(where string, l *model.Listener) []note.Note {
	if l.Inspection == nil || l.Inspection.ChainFor(&model.Opening{Protocols: []string{model.ProtocolHTTP2}}) == nil {
		return nil
	}
	to, http := l.Inspection.Serves(&model.Opening{Protocols: []string{model.ProtocolHTTP2}})
	if http || to == nil || l.Inspection.ChainFor(&model.Opening{Protocols: []string{model.ProtocolHTTP2}}).TCP != nil {
		return nil
	}
	return []note.Note{{Where: where, Reason: fmt.Sprintf("HTTP/2 without routes, to cluster %s", to.Clusters[0].Name)}}
}
