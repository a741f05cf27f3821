// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"slices"

	"github.com/xlb-project/xlb/bench/record"
)

// Spread summarises one figure over the rounds.
type Spread = record.Spread

// spreadOf returns nil when there are no values.
func spreadOf(values []float64) *Spread {
	s, ok := record.SpreadOf(values)
	if !ok {
		return nil
	}
	return &s
}

func selectPeer(measurements []Measurement, like Measurement, peer string) []Measurement {
	var selected []Measurement
	for _, m := range measurements {
		if m.Topology == like.Topology && m.Load == like.Load && m.Peer == peer {
			selected = append(selected, m)
		}
	}
	return selected
}

// values leaves out turns that failed.
func values(measurements []Measurement, figure func(Measurement) float64) []float64 {
	var values []float64
	for _, m := range measurements {
		if m.Failure == "" {
			values = append(values, figure(m))
		}
	}
	return values
}

func shares(measurements []Measurement) []float64 {
	var values []float64
	for _, m := range measurements {
		if m.Failure == "" && m.FastShare != nil {
			values = append(values, *m.FastShare)
		}
	}
	return values
}

// ratios divides the figures of the same round; rounds that lack either have none.
func ratios(own, base []Measurement, figure func(Measurement) float64) []float64 {
	var values []float64
	for _, m := range own {
		i := slices.IndexFunc(base, func(b Measurement) bool { return b.Round == m.Round })
		if i < 0 || m.Failure != "" || base[i].Failure != "" || figure(base[i]) == 0 {
			continue
		}
		values = append(values, figure(m)/figure(base[i]))
	}
	return values
}
