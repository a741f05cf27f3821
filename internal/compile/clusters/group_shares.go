// SPDX-License-Identifier: Apache-2.0

package clusters

// Shares returns the part of the requests that each of so many endpoints gets, while none is down and none is busier than the others. What
// is missing in the sum fails.
func (g *Group) Shares(endpoints int) []float64 {
	shares := make([]float64, endpoints)
	g.addShares(shares, 1)
	return shares
}

func (g *Group) addShares(shares []float64, of float64) {
	of /= float64(len(g.Schedule))
	for _, entry := range g.Schedule {
		if len(g.Groups) > 0 {
			g.Groups[entry].addShares(shares, of)
		} else {
			shares[entry] += of
		}
	}
}
