// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// compilePlain makes a table with one route for everything, which the connect programs look up (bpf/lib/plain.h).
func compilePlain(left *space, where string, p *model.TCPProxy) (Table, []Note) {
	table, notes := compileTableWithin(left, where, &model.RouteTable{VirtualHosts: []*model.VirtualHost{{
		Domains: []string{"*"},
		Routes:  []*model.Route{{Path: model.PathMatch{Kind: model.PathPrefix, Value: "/"}, Clusters: p.Clusters}},
	}}})
	table.Flags |= maps.TablePlain
	if why := p.InUserSpace(); why != "" {
		table.Flags |= maps.TableSlow
		notes = append(notes, Note{Where: where, Reason: why + "; the slow path serves the listener's connections"})
	}
	return table, notes
}
