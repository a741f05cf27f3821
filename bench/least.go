// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/queue"
)

// How LEAST_REQUEST chooses.
const (
	choiceOfTwo = "two"
	choiceOfAll = "all"
)

var choices = []string{choiceOfTwo, choiceOfAll}

// The least case: so many client processes ask stations of which the last is slow.
const (
	leastClients           = 8
	leastClientConnections = 8
	stations               = 4
	stationWorkers         = 4
	fastService            = time.Millisecond
	slowService            = 20 * time.Millisecond
	// leastRate is that of the project's targets, in requests a second: the slow station can serve an eighth of it, the others seven
	// times as much.
	leastRate = 1600
)

// peerSidecars is of the least case only.
const peerSidecars = "envoy-sidecars"

// sidecarsAdmin is the port of the first client's sidecar's admin API; the next ones follow.
const sidecarsAdmin = 9910

// sidecarOfClient is where the i-th client's sidecar listens, the first at the service address.
func sidecarOfClient(i int) netip.AddrPort {
	return netip.AddrPortFrom(serviceAddress.Addr(), serviceAddress.Port()+uint16(i))
}

// sidecarProcess is an Envoy with one worker, of one client.
func sidecarProcess(i int) process {
	return process{
		name: fmt.Sprintf("sidecar%d", i), tool: "envoy", template: "envoy.yaml.tmpl",
		args: func(_ site, file string) []string {
			return []string{"-c", file, "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "error"}
		},
		settings: func(s site) settings {
			out := service(s)
			out.Admin = netip.AddrPortFrom(adminAddress.Addr(), uint16(sidecarsAdmin+i))
			out.Listeners[0].Address = sidecarOfClient(i)
			return out
		},
	}
}

func sidecars() peer {
	p := peer{name: peerSidecars, about: "an Envoy for each client process"}
	for i := range leastClients {
		p.processes = append(p.processes, sidecarProcess(i))
		p.serves = append(p.serves, sidecarOfClient(i))
	}
	return p
}

// stationProcess is the i-th endpoint of the least case.
func stationProcess(i int) process {
	took := fastService
	if isSlow(i) {
		took = slowService
	}
	return process{
		name: endpointName(i), tool: toolSelf, host: lab.ServerHost,
		args: func(s site, _ string) []string {
			return []string{"station", "--listen", s.endpoints[i].String(), "--service", took.String(), "--workers", strconv.Itoa(stationWorkers)}
		},
	}
}

// isSlow tells the slow station.
func isSlow(station int) bool { return station == stations-1 }

// balancesLeast reports whether a peer balances over the endpoints by requests under way, in one hop.
func (p peer) balancesLeast() bool {
	return p.name != peerDirect && p.name != peerEnvoy2 && !p.isFilter()
}

// accounts takes what the stations have seen; nil where the endpoints are others.
func (b *bed) accounts(ctx context.Context, l load) ([]queue.Account, error) {
	if l.Case != caseLeast {
		return nil, nil
	}
	list := make([]queue.Account, len(b.site.endpoints))
	for i, endpoint := range b.site.endpoints {
		text, err := b.get(ctx, "http://"+endpoint.String()+queue.AccountPath)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(text), &list[i]); err != nil {
			return nil, fmt.Errorf("account of %s: %w", endpointName(i), err)
		}
	}
	return list, nil
}

// leastRow is what the least case adds to a row: requests under way at the slow station, and at the others, and the slow one's share
// of all requests in percent.
type leastRow struct {
	P999          *spread `json:"p99.9_us"`
	SlowShare     *spread `json:"slow_share_percent"`
	SlowMean      *spread `json:"slow_outstanding_mean"`
	SlowDeviation *spread `json:"slow_outstanding_deviation"`
	SlowMax       *spread `json:"slow_outstanding_max"`
	FastMean      *spread `json:"fast_outstanding_mean"`
	FastDeviation *spread `json:"fast_outstanding_deviation"`
	FastMax       *spread `json:"fast_outstanding_max"`
	// Ratios of the 99th percentile, built within each round.
	P99ToEnvoy    *spread `json:"p99_to_envoy"`
	P99ToSidecars *spread `json:"p99_to_sidecars"`
}

func leastRowOf(measurements []measurement, like measurement) *leastRow {
	own := selectPeer(measurements, like, like.Peer)
	of := func(figure func(m measurement) float64) *spread { return spreadOf(figures(own, figure)) }
	p99To := func(peer string) *spread {
		return spreadOf(ratios(own, selectPeer(measurements, like, peer), func(m measurement) float64 { return m.P99 }))
	}
	mean := func(a queue.Account) float64 { return a.Mean }
	deviation := func(a queue.Account) float64 { return a.Deviation }
	most := func(a queue.Account) float64 { return float64(a.Max) }
	return &leastRow{
		P999:          of(func(m measurement) float64 { return m.P999 }),
		SlowShare:     of(measurement.slowShare),
		SlowMean:      of(func(m measurement) float64 { return m.slow(mean) }),
		SlowDeviation: of(func(m measurement) float64 { return m.slow(deviation) }),
		SlowMax:       of(func(m measurement) float64 { return m.slow(most) }),
		FastMean:      of(func(m measurement) float64 { return m.fast(mean) }),
		FastDeviation: of(func(m measurement) float64 { return m.fast(deviation) }),
		FastMax:       of(func(m measurement) float64 { return m.fast(most) }),
		P99ToEnvoy:    p99To(peerEnvoy),
		P99ToSidecars: p99To(peerSidecars),
	}
}

// slowShare is in percent.
func (m measurement) slowShare() float64 {
	var all, slow int64
	for i, a := range m.Stations {
		all += a.Requests
		if isSlow(i) {
			slow += a.Requests
		}
	}
	return 100 * float64(slow) / float64(max(all, 1))
}

// slow is a figure of the slow station, fast the largest of the others'.
func (m measurement) slow(figure func(queue.Account) float64) float64 {
	for i, a := range m.Stations {
		if isSlow(i) {
			return figure(a)
		}
	}
	return 0
}

func (m measurement) fast(figure func(queue.Account) float64) (largest float64) {
	for i, a := range m.Stations {
		if !isSlow(i) {
			largest = max(largest, figure(a))
		}
	}
	return largest
}

// leastHeader names the columns of the least case's tables; leastCells fills them. Requests under way are mean ± deviation (maximum).
var leastHeader = []string{
	"peer", "req/s", "p50 us (min-max)", "p99 us (min-max)", "p99.9 us (min-max)", "p99 x envoy", "p99 x sidecars",
	"under way at the slow endpoint", "at the busiest other", "to the slow endpoint, %", "CPU us/req of lab", "fast", "errors",
}

func leastCells(r row) []string {
	l := r.Least
	underWay := func(mean, deviation, most *spread) string {
		return fmt.Sprintf("%s ± %s (%s)", median(mean, "%.2f"), median(deviation, "%.2f"), median(most, "%.0f"))
	}
	return []string{
		r.Peer, median(r.Rate, "%.0f"), withRange(r.P50), withRange(r.P99), withRange(l.P999),
		median(l.P99ToEnvoy, "%.2f"), median(l.P99ToSidecars, "%.2f"),
		underWay(l.SlowMean, l.SlowDeviation, l.SlowMax), underWay(l.FastMean, l.FastDeviation, l.FastMax),
		median(l.SlowShare, "%.1f"), median(r.CPU.Lab, "%.1f"), median(r.FastShare, "%.3f"), errorsOf(r),
	}
}
