// SPDX-License-Identifier: Apache-2.0

package source

import (
	"maps"

	"github.com/xlb-project/xlb/internal/metrics"
)

// pastCounts are the counts of views that have gone: a sum over views would be smaller without them, and counters only grow.
type pastCounts struct {
	// dynamic are by the names of statistics, refused by where something came from.
	dynamic map[string]uint64
	refused map[metrics.OriginKey]uint64
}

// with returns these Sources, in which some are no more.
func (r *roster) with(views, gone []*viewSource) *roster { return &roster{views, r.past.add(gone)} }

// add returns those counts and the ones of further views that go.
func (p *pastCounts) add(gone []*viewSource) *pastCounts {
	out := &pastCounts{dynamic: map[string]uint64{}, refused: map[metrics.OriginKey]uint64{}}
	maps.Copy(out.dynamic, p.dynamic)
	maps.Copy(out.refused, p.refused)
	for _, v := range gone {
		for name, n := range metrics.CountersOf(v.DynamicStats()) {
			out.dynamic[name] += n
		}
		for _, o := range v.OriginsByKind() {
			if o.Refused > 0 {
				out.refused[o.OriginKey] += o.Refused
			}
		}
	}
	return out
}

// addDynamic adds to the statistics of the views that there are; nil: none has dynamic resources.
func (p *pastCounts) addDynamic(stats map[string]uint64) {
	for name := range stats {
		stats[name] += p.dynamic[name]
	}
}

// addRefused adds to the origins of the views that there are.
func (p *pastCounts) addRefused(list []metrics.Origin) {
	for i := range list {
		list[i].Refused += p.refused[list[i].OriginKey]
	}
}
