// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/queue"
)

// leastRow is what the least case adds to a row: requests under way at the slow station, and at the others, and the slow one's share
// of all requests in percent.
type leastRow struct {
	P999          *Spread `json:"p99.9_us"`
	SlowShare     *Spread `json:"slow_share_percent"`
	SlowMean      *Spread `json:"slow_outstanding_mean"`
	SlowDeviation *Spread `json:"slow_outstanding_deviation"`
	SlowMax       *Spread `json:"slow_outstanding_max"`
	FastMean      *Spread `json:"fast_outstanding_mean"`
	FastDeviation *Spread `json:"fast_outstanding_deviation"`
	FastMax       *Spread `json:"fast_outstanding_max"`
	// Ratios of the 99th percentile, built within each round.
	P99ToEnvoy    *Spread `json:"p99_to_envoy"`
	P99ToSidecars *Spread `json:"p99_to_sidecars"`
}

func leastRowOf(measurements []Measurement, like Measurement) *leastRow {
	own := selectPeer(measurements, like, like.Peer)
	of := func(figure func(m Measurement) float64) *Spread { return spreadOf(values(own, figure)) }
	p99To := func(peer string) *Spread {
		return spreadOf(ratios(own, selectPeer(measurements, like, peer), func(m Measurement) float64 { return m.P99 }))
	}
	mean := func(a queue.Account) float64 { return a.Mean }
	deviation := func(a queue.Account) float64 { return a.Deviation }
	most := func(a queue.Account) float64 { return float64(a.Max) }
	return &leastRow{
		P999:          of(func(m Measurement) float64 { return m.P999 }),
		SlowShare:     of(Measurement.slowShare),
		SlowMean:      of(func(m Measurement) float64 { return m.slow(mean) }),
		SlowDeviation: of(func(m Measurement) float64 { return m.slow(deviation) }),
		SlowMax:       of(func(m Measurement) float64 { return m.slow(most) }),
		FastMean:      of(func(m Measurement) float64 { return m.fast(mean) }),
		FastDeviation: of(func(m Measurement) float64 { return m.fast(deviation) }),
		FastMax:       of(func(m Measurement) float64 { return m.fast(most) }),
		P99ToEnvoy:    p99To(peers.Envoy),
		P99ToSidecars: p99To(peers.Sidecars),
	}
}

// slowShare is in percent.
func (m Measurement) slowShare() float64 {
	var all, slow int64
	for i, a := range m.Stations {
		all += a.Requests
		if cases.IsSlow(i) {
			slow += a.Requests
		}
	}
	return 100 * float64(slow) / float64(max(all, 1))
}

// slow is a figure of the slow station, fast the largest of the others'.
func (m Measurement) slow(figure func(queue.Account) float64) float64 {
	for i, a := range m.Stations {
		if cases.IsSlow(i) {
			return figure(a)
		}
	}
	return 0
}

func (m Measurement) fast(figure func(queue.Account) float64) (largest float64) {
	for i, a := range m.Stations {
		if !cases.IsSlow(i) {
			largest = max(largest, figure(a))
		}
	}
	return largest
}
