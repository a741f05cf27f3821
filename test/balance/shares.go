// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/model"
)

// Failed stands for a request that got no endpoint.
var Failed netip.AddrPort

// Differ says how counts differ from shares, by Pearson's chi-square. The bound is six standard deviations above its mean: one run
// of millions fails by chance.
func Differ(counts map[netip.AddrPort]int, shares map[netip.AddrPort]float64) string {
	var n int
	for _, count := range counts {
		n += count
	}
	for a, count := range counts {
		if shares[a] == 0 {
			return fmt.Sprintf("%s got %d requests, want none", a, count)
		}
	}
	var sum float64
	for a, share := range shares {
		expected := share * float64(n)
		difference := float64(counts[a]) - expected
		sum += difference * difference / expected
	}
	freedom := float64(len(shares) - 1)
	if bound := freedom + 6*math.Sqrt(2*freedom) + 12; sum > bound {
		return fmt.Sprintf("chi-square %.1f, at most %.1f was expected: got %v, shares %v", sum, bound, counts, shares)
	}
	return ""
}

// SubsetShares are what the endpoints of a route's shares are due.
func SubsetShares(im *compile.Image, route *model.Route) map[netip.AddrPort]float64 {
	due := map[netip.AddrPort]float64{}
	for i := range route.Clusters {
		w := &route.Clusters[i]
		c := &im.Clusters[slices.IndexFunc(im.Clusters, func(c compile.Cluster) bool { return c.Name == w.Name })]
		root := c.RootOf(partOf(c, w.Criteria), nil)
		part, left := float64(w.Weight)/float64(model.TotalWeight(route.Clusters)), 1.0
		for j, share := range root.Shares(len(c.Endpoints)) {
			if share > 0 {
				due[c.Endpoints[j].Address] += share * part
				left -= share
			}
		}
		if left > 1e-9 {
			due[Failed] += left * part
		}
	}
	return due
}

func partOf(c *compile.Cluster, criteria model.Metadata) int {
	i := slices.IndexFunc(c.Subsets, func(s compile.Subset) bool { return s.Criteria == criteria })
	if i < 0 {
		return 0
	}
	return c.Subsets[i].Part
}
