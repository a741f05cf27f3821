// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"slices"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/peers"
)

// Row summarises a peer under one load in one topology. A nil figure was not
// measured.
type Row struct {
	Topology lab.Topology `json:"topology"`
	cases.Load
	Peer      string  `json:"peer"`
	Rate      *Spread `json:"requests_per_second"`
	P50       *Spread `json:"p50_us"`
	P99       *Spread `json:"p99_us"`
	CPU       cpuRow  `json:"cpu_us_per_request"`
	FastShare *Spread `json:"fast_share,omitempty"`
	// Ratios are built within each round, then summarised.
	RateToDirect *Spread `json:"rate_to_direct"`
	P50ToDirect  *Spread `json:"p50_to_direct"`
	P99ToDirect  *Spread `json:"p99_to_direct"`
	MeanToDirect *Spread `json:"mean_to_direct"`
	RateToSpread *Spread `json:"rate_to_spread,omitempty"`
	RateToEnvoy  *Spread `json:"rate_to_envoy"`
	RateToEnvoy2 *Spread `json:"rate_to_envoy2,omitempty"`
	MeanToEnvoy2 *Spread `json:"mean_to_envoy2,omitempty"`
	// Of the routes case: the peer's own figures to those with its smallest table.
	P50ToFewest *Spread `json:"p50_to_fewest_routes,omitempty"`
	CPUToFewest *Spread `json:"cpu_to_fewest_routes,omitempty"`
	// Least is of the least case only.
	Least *leastRow `json:"least,omitempty"`
	// Scale is of the cases that vary one thing.
	Scale    *scaleRow `json:"scale,omitempty"`
	Errors   int64     `json:"errors"`
	Failures int       `json:"failures"`
}

// cpuRow holds processor time in microseconds per request.
type cpuRow struct {
	Machine *Spread `json:"machine"`
	// Lab is clients, endpoints and balancer together.
	Lab       *Spread `json:"lab"`
	Clients   *Spread `json:"clients"`
	Endpoints *Spread `json:"endpoints"`
	Balancer  *Spread `json:"balancer"`
}

// Summarise makes a row for each topology, load and peer, in the order of their
// first measurement.
func Summarise(measurements []Measurement) []Row {
	var rows []Row
	for _, m := range measurements {
		known := slices.ContainsFunc(rows, func(r Row) bool {
			return r.Topology == m.Topology && r.Load == m.Load && r.Peer == m.Peer
		})
		if !known {
			rows = append(rows, rowOf(measurements, m))
		}
	}
	return rows
}

// rowOf summarises the measurements that differ from like in the round only.
func rowOf(measurements []Measurement, like Measurement) Row {
	r := Row{Topology: like.Topology, Load: like.Load, Peer: like.Peer}
	of := func(peer string) []Measurement { return selectPeer(measurements, like, peer) }
	own, direct, envoy, envoy2 := of(like.Peer), of(peers.Direct), of(peers.Envoy), of(peers.Envoy2)
	for _, m := range own {
		r.Errors += m.Errors
		if m.Failure != "" {
			r.Failures++
		}
	}
	rate := func(m Measurement) float64 { return m.Rate }
	p50 := func(m Measurement) float64 { return m.P50 }
	p99 := func(m Measurement) float64 { return m.P99 }
	mean := func(m Measurement) float64 { return m.Mean }
	r.Rate = spreadOf(values(own, rate))
	r.P50 = spreadOf(values(own, p50))
	r.P99 = spreadOf(values(own, p99))
	r.CPU = cpuRowOf(own)
	r.FastShare = spreadOf(shares(own))
	r.RateToDirect = spreadOf(ratios(own, direct, rate))
	r.P50ToDirect = spreadOf(ratios(own, direct, p50))
	r.P99ToDirect = spreadOf(ratios(own, direct, p99))
	r.MeanToDirect = spreadOf(ratios(own, direct, mean))
	r.RateToSpread = spreadOf(ratios(own, of(peers.Spread), rate))
	r.RateToEnvoy = spreadOf(ratios(own, envoy, rate))
	r.RateToEnvoy2 = spreadOf(ratios(own, envoy2, rate))
	r.MeanToEnvoy2 = spreadOf(ratios(own, envoy2, mean))
	if like.Case == cases.Least {
		r.Least = leastRowOf(measurements, like)
	}
	if like.IsScaled() {
		r.Scale = scaleRowOf(measurements, like)
	}
	if like.Case == cases.Routes {
		like.Load = fewestRoutes(measurements, like)
		fewest := selectPeer(measurements, like, like.Peer)
		r.P50ToFewest = spreadOf(ratios(own, fewest, p50))
		r.CPUToFewest = spreadOf(ratios(own, fewest, func(m Measurement) float64 { return m.CPU.lab() }))
	}
	return r
}

// fewestRoutes is the load of the same kind with the smallest table.
func fewestRoutes(measurements []Measurement, like Measurement) cases.Load {
	fewest := like.Load
	for _, m := range measurements {
		same := m.Load
		same.Routes = fewest.Routes
		if same == fewest && m.Routes < fewest.Routes {
			fewest = m.Load
		}
	}
	return fewest
}

func cpuRowOf(own []Measurement) cpuRow {
	of := func(figure func(PerRequest) float64) *Spread {
		return spreadOf(values(own, func(m Measurement) float64 { return figure(m.CPU) }))
	}
	return cpuRow{
		Machine:   of(func(c PerRequest) float64 { return c.Machine }),
		Lab:       of(PerRequest.lab),
		Clients:   of(func(c PerRequest) float64 { return c.Clients }),
		Endpoints: of(func(c PerRequest) float64 { return c.Endpoints }),
		Balancer:  of(func(c PerRequest) float64 { return c.Balancer }),
	}
}
