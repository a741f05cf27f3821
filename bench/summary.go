// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"github.com/xlb-project/xlb/bench/lab"
)

// spread summarises one figure over the rounds.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// spreadOf returns nil when there are no values.
func spreadOf(values []float64) *spread {
	if len(values) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + median) / 2
	}
	return &spread{Median: median, Min: sorted[0], Max: sorted[len(sorted)-1]}
}

// row summarises a peer under one load in one topology. A nil figure was not
// measured.
type row struct {
	Topology lab.Topology `json:"topology"`
	load
	Peer      string  `json:"peer"`
	Rate      *spread `json:"requests_per_second"`
	P50       *spread `json:"p50_us"`
	P99       *spread `json:"p99_us"`
	CPU       cpuRow  `json:"cpu_us_per_request"`
	FastShare *spread `json:"fast_share,omitempty"`
	// Ratios are built within each round, then summarised.
	RateToDirect *spread `json:"rate_to_direct"`
	P50ToDirect  *spread `json:"p50_to_direct"`
	P99ToDirect  *spread `json:"p99_to_direct"`
	MeanToDirect *spread `json:"mean_to_direct"`
	RateToSpread *spread `json:"rate_to_spread,omitempty"`
	RateToEnvoy  *spread `json:"rate_to_envoy"`
	RateToEnvoy2 *spread `json:"rate_to_envoy2,omitempty"`
	MeanToEnvoy2 *spread `json:"mean_to_envoy2,omitempty"`
	// Of the routes case: the peer's own figures to those with its smallest table.
	P50ToFewest *spread `json:"p50_to_fewest_routes,omitempty"`
	CPUToFewest *spread `json:"cpu_to_fewest_routes,omitempty"`
	// Least is of the least case only.
	Least *leastRow `json:"least,omitempty"`
	// Scale is of the cases that vary one thing.
	Scale    *scaleRow `json:"scale,omitempty"`
	Errors   int64     `json:"errors"`
	Failures int       `json:"failures"`
}

// cpuRow holds processor time in microseconds per request.
type cpuRow struct {
	Machine *spread `json:"machine"`
	// Lab is clients, endpoints and balancer together.
	Lab       *spread `json:"lab"`
	Clients   *spread `json:"clients"`
	Endpoints *spread `json:"endpoints"`
	Balancer  *spread `json:"balancer"`
}

// summarise makes a row for each topology, load and peer, in the order of their
// first measurement.
func summarise(measurements []measurement) []row {
	var rows []row
	for _, m := range measurements {
		known := slices.ContainsFunc(rows, func(r row) bool {
			return r.Topology == m.Topology && r.load == m.load && r.Peer == m.Peer
		})
		if !known {
			rows = append(rows, rowOf(measurements, m))
		}
	}
	return rows
}

// rowOf summarises the measurements that differ from like in the round only.
func rowOf(measurements []measurement, like measurement) row {
	r := row{Topology: like.Topology, load: like.load, Peer: like.Peer}
	of := func(peer string) []measurement { return selectPeer(measurements, like, peer) }
	own, direct, envoy, envoy2 := of(like.Peer), of(peerDirect), of(peerEnvoy), of(peerEnvoy2)
	for _, m := range own {
		r.Errors += m.Errors
		if m.Failure != "" {
			r.Failures++
		}
	}
	rate := func(m measurement) float64 { return m.Rate }
	p50 := func(m measurement) float64 { return m.P50 }
	p99 := func(m measurement) float64 { return m.P99 }
	mean := func(m measurement) float64 { return m.Mean }
	r.Rate = spreadOf(figures(own, rate))
	r.P50 = spreadOf(figures(own, p50))
	r.P99 = spreadOf(figures(own, p99))
	r.CPU = cpuRowOf(own)
	r.FastShare = spreadOf(shares(own))
	r.RateToDirect = spreadOf(ratios(own, direct, rate))
	r.P50ToDirect = spreadOf(ratios(own, direct, p50))
	r.P99ToDirect = spreadOf(ratios(own, direct, p99))
	r.MeanToDirect = spreadOf(ratios(own, direct, mean))
	r.RateToSpread = spreadOf(ratios(own, of(peerSpread), rate))
	r.RateToEnvoy = spreadOf(ratios(own, envoy, rate))
	r.RateToEnvoy2 = spreadOf(ratios(own, envoy2, rate))
	r.MeanToEnvoy2 = spreadOf(ratios(own, envoy2, mean))
	if like.Case == caseLeast {
		r.Least = leastRowOf(measurements, like)
	}
	if like.isScaled() {
		r.Scale = scaleRowOf(measurements, like)
	}
	if like.Case == caseRoutes {
		like.load = fewestRoutes(measurements, like)
		fewest := selectPeer(measurements, like, like.Peer)
		r.P50ToFewest = spreadOf(ratios(own, fewest, p50))
		r.CPUToFewest = spreadOf(ratios(own, fewest, func(m measurement) float64 { return m.CPU.lab() }))
	}
	return r
}

// fewestRoutes is the load of the same kind with the smallest table.
func fewestRoutes(measurements []measurement, like measurement) load {
	fewest := like.load
	for _, m := range measurements {
		same := m.load
		same.Routes = fewest.Routes
		if same == fewest && m.Routes < fewest.Routes {
			fewest = m.load
		}
	}
	return fewest
}

func cpuRowOf(own []measurement) cpuRow {
	of := func(figure func(perRequest) float64) *spread {
		return spreadOf(figures(own, func(m measurement) float64 { return figure(m.CPU) }))
	}
	return cpuRow{
		Machine:   of(func(c perRequest) float64 { return c.Machine }),
		Lab:       of(perRequest.lab),
		Clients:   of(func(c perRequest) float64 { return c.Clients }),
		Endpoints: of(func(c perRequest) float64 { return c.Endpoints }),
		Balancer:  of(func(c perRequest) float64 { return c.Balancer }),
	}
}

func selectPeer(measurements []measurement, like measurement, peer string) []measurement {
	var selected []measurement
	for _, m := range measurements {
		if m.Topology == like.Topology && m.load == like.load && m.Peer == peer {
			selected = append(selected, m)
		}
	}
	return selected
}

// figures leaves out turns that failed.
func figures(measurements []measurement, figure func(measurement) float64) []float64 {
	var values []float64
	for _, m := range measurements {
		if m.Failure == "" {
			values = append(values, figure(m))
		}
	}
	return values
}

func shares(measurements []measurement) []float64 {
	var values []float64
	for _, m := range measurements {
		if m.Failure == "" && m.FastShare != nil {
			values = append(values, *m.FastShare)
		}
	}
	return values
}

// ratios divides the figures of the same round; rounds that lack either have none.
func ratios(own, base []measurement, figure func(measurement) float64) []float64 {
	var values []float64
	for _, m := range own {
		i := slices.IndexFunc(base, func(b measurement) bool { return b.Round == m.Round })
		if i < 0 || m.Failure != "" || base[i].Failure != "" || figure(base[i]) == 0 {
			continue
		}
		values = append(values, figure(m)/figure(base[i]))
	}
	return values
}
