// SPDX-License-Identifier: Apache-2.0

package interference

import (
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/record"
)

// Row is the figures of the watched clients behind a peer beside a neighbour; pages quote them from results.json. Ratios are nil where one of both is absent.
type Row struct {
	Case      string `json:"case"`
	Topology  string `json:"topology"`
	Peer      string `json:"peer"`
	Neighbour int    `json:"neighbour"`

	P50           record.Spread  `json:"p50_us"`
	P99           record.Spread  `json:"p99_us"`
	Got           record.Spread  `json:"neighbour_requests_per_second"`
	P50ToDirect   *record.Spread `json:"p50_to_direct"`
	P99ToDirect   *record.Spread `json:"p99_to_direct"`
	P99ToSidecars *record.Spread `json:"p99_to_sidecars"`
	P99ToAlone    *record.Spread `json:"p99_to_alone"`
	GotToDirect   *record.Spread `json:"neighbour_rate_to_direct"`
}

// summary has a row for each peer beside each neighbour that has figures.
func (r *Report) summary() (rows []Row) {
	for _, n := range r.Options.Neighbours {
		for _, peer := range Peers() {
			s := series{peer, n}
			if len(r.loads(s)) == 0 {
				continue
			}
			direct, sidecars := series{peers.Direct, n}, series{peers.Redirected, n}
			rows = append(rows, Row{
				"interference", string(lab.SameHost), peer, n, r.figure(s, p50), r.figure(s, p99), r.figure(s, got),
				orNil(r.ratio(s, direct, p50)), orNil(r.ratio(s, direct, p99)), orNil(r.ratio(s, sidecars, p99)), orNil(r.ratio(s, series{peer, 0}, p99)), orNil(r.ratio(s, direct, got)),
			})
		}
	}
	return rows
}

func orNil(s record.Spread, ok bool) *record.Spread {
	if !ok {
		return nil
	}
	return &s
}
