// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/model"
)

// Failed stands for a request that got no endpoint.
var Failed netip.AddrPort

// chance is how likely a count may be, and still not be a coincidence. A run of all tests makes fewer than ten thousand comparisons of a
// count, so one of a million runs fails by chance.
const chance = 1e-10

// Differ says how counts differ from shares: that of an endpoint is as many standard deviations from what it is due, some 6.4, as a binomial
// distribution has them in less than that. Those who take turns deviate less.
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
	for a, share := range shares {
		if likely := Likelihood(n, counts[a], min(share, 1)); likely < chance {
			return fmt.Sprintf("%s got %d of %d requests, %.1f were expected (likelihood %.1g): got %v, shares %v", a, counts[a], n, share*float64(n), likely, counts, shares)
		}
	}
	return ""
}

// Likelihood is that of a count of n trials, each of which succeeds with probability p, to be as far from what is expected as this one, or
// farther on the same side.
func Likelihood(n, count int, p float64) float64 {
	if p <= 0 || p >= 1 {
		if float64(count) == p*float64(n) {
			return 1
		}
		return 0
	}
	step := 1
	if float64(count) < p*float64(n) {
		step = -1
	}
	var sum float64
	for i := count; i >= 0 && i <= n; i += step {
		term := binomial(n, i, p)
		sum += term
		if term < sum*1e-12 {
			break
		}
	}
	return sum
}

// binomial is the probability of exactly k successes.
func binomial(n, k int, p float64) float64 {
	lg := func(x int) float64 { v, _ := math.Lgamma(float64(x + 1)); return v }
	return math.Exp(lg(n) - lg(k) - lg(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

// SubsetShares are what the endpoints of a route's shares are due.
func SubsetShares(im *compile.Image, route *model.Route) map[netip.AddrPort]float64 {
	due := map[netip.AddrPort]float64{}
	for i := range route.Clusters {
		w := &route.Clusters[i]
		c := im.Clusters[slices.IndexFunc(im.Clusters, func(c *clusters.Cluster) bool { return c.Key.Name == w.Name })]
		root := c.RootOf(partOf(c, w.Criteria), clusters.Learned{})
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

func partOf(c *clusters.Cluster, criteria model.Metadata) int {
	i := slices.IndexFunc(c.Subsets, func(s clusters.Subset) bool { return s.Criteria == criteria })
	if i < 0 {
		return 0
	}
	return c.Subsets[i].Part
}
