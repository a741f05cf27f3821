// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"cmp"
	"math"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// locality is what a priority has in one locality.
type locality struct {
	name   model.Locality
	weight uint32
	// hosts are those that are not excluded; eligible are the healthy ones, or the degraded ones.
	hosts    int
	eligible []Member
}

// localities is the group of a priority's localities, which take turns by effective weight: the configured one, or less where
// the eligible hosts of a locality, times the overprovisioning factor, are fewer than its hosts. Without a weight anywhere it is as if
// localities had none, as in Envoy.
func (c *Cluster) localities(p *priority, eligible []Member) Group {
	factor := float64(cmp.Or(c.Balancing.Overprovisioning, model.DefaultOverprovisioning)) / 100
	root := Group{Policy: maps.PolicyRoundRobin}
	var weights []float64
	for _, l := range localitiesOf(p, eligible) {
		if l.weight == 0 || len(l.eligible) == 0 {
			continue
		}
		weights = append(weights, float64(l.weight)*min(1, factor*float64(len(l.eligible))/float64(l.hosts)))
		root.Groups = append(root.Groups, c.group(l.eligible))
	}
	switch len(root.Groups) {
	case 0:
		return c.zoned(p, eligible)
	case 1:
		return root.Groups[0]
	}
	root.Schedule = scheduleOf(whole(weights))
	return root
}

// localitiesOf are those of a priority, in the order of their first hosts.
func localitiesOf(p *priority, eligible []Member) []*locality {
	at := map[model.Locality]*locality{}
	var list []*locality
	for _, h := range p.all {
		l := at[h.Locality]
		if l == nil {
			l = &locality{name: h.Locality, weight: h.LocalityWeight}
			at[h.Locality] = l
			list = append(list, l)
		}
		l.hosts++
	}
	for _, h := range p.excluded {
		at[h.Locality].hosts--
	}
	for _, h := range eligible {
		at[h.Locality].eligible = append(at[h.Locality].eligible, h)
	}
	return list
}

const (
	// maxMultiple bounds what weights are multiplied by to make them whole.
	maxMultiple = 1000
	// largestWhole is the largest weight where no multiple makes all of them whole.
	largestWhole = 1 << 24
)

// whole returns whole numbers in the proportion of positive weights: exactly if a small multiple of them is whole, and otherwise to
// within one part in largestWhole of the largest.
func whole(weights []float64) []uint64 {
	var largest float64
	for _, w := range weights {
		largest = max(largest, w)
	}
	factor := largestWhole / largest
	for k := 1.0; k <= maxMultiple; k++ {
		if isWhole(weights, k) {
			factor = k
			break
		}
	}
	out := make([]uint64, len(weights))
	for i, w := range weights {
		out[i] = max(1, uint64(math.Round(w*factor)))
	}
	return out
}

func isWhole(weights []float64, factor float64) bool {
	for _, w := range weights {
		if n := w * factor; n < 0.5 || math.Abs(n-math.Round(n)) > 1e-9+n*1e-12 {
			return false
		}
	}
	return true
}
