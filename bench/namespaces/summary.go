// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/record"
)

// Row is the figures of a peer over so many connections; pages quote them from results.json.
type Row struct {
	Case        string `json:"case"`
	Topology    string `json:"topology"`
	Peer        string `json:"peer"`
	Connections int    `json:"connections"`

	OneRate  record.Spread `json:"one_requests_per_second"`
	PodsRate record.Spread `json:"pods_requests_per_second"`
	// RateToOne and P50ToOne are of the pods, to one namespace, within each round.
	RateToOne record.Spread `json:"rate_to_one"`
	P50ToOne  record.Spread `json:"p50_to_one"`
}

// summary has a row for each that has figures of both.
func (r *Report) summary() (rows []Row) {
	for _, topology := range r.Options.Topologies {
		for _, connections := range r.Options.Connections {
			for _, peer := range []string{peers.Direct, peers.XLB} {
				one, pods := series{topology, connections, peer, false}, series{topology, connections, peer, true}
				ratio, ok := r.ratio(pods, one, rate)
				if !ok {
					continue
				}
				p50ToOne, _ := r.ratio(pods, one, p50)
				rows = append(rows, Row{"namespaces", topology, peer, connections, r.figure(one, rate), r.figure(pods, rate), ratio, p50ToOne})
			}
		}
	}
	return rows
}
