// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strconv"
	"strings"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
)

// ChooseCluster takes one of the route's clusters, before anything of the request is changed.
func ChooseCluster(r *headers.Request) {
	r.Share = chooseShare(r)
	r.Target = r.Share.Name
	if r.Share.Header == "" {
		return
	}
	// A name that a client makes up must not become a label of a metric.
	if name := headers.First(r.Values(r.Share.Header)); r.Clusters(name) != nil {
		r.Target = name
	}
}

// chooseShare draws among the route's clusters in proportion to their weights,
// with the number that has decided over fractions before: as in Envoy a route to 50 of
// 100 requests and to two clusters of equal weight sends all of them to the first.
func chooseShare(r *headers.Request) *model.WeightedCluster {
	draw := r.Draw
	if r.Route.DrawByHash {
		asked := r.Asked()
		if hash, ok := r.Route.Hash.Hash(&asked, model.HashSource{IP: sourceIP(r), Pace: r.Pacer.Pace}); ok {
			draw = hash
		}
	}
	if r.Route.DrawHeader != "" {
		draw = drawOf(r.Values(r.Route.DrawHeader), draw)
	}
	return r.Route.Share(draw)
}

// drawOf is the number that a header holds once. As in Envoy anything else leaves it to chance.
func drawOf(values []string, chance uint64) uint64 {
	if len(values) != 1 {
		return chance
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(values[0], "+"), 10, 64)
	if err != nil {
		return chance
	}
	return n
}

// ShareWith is the route's share with that cluster, or nil. Of several, with subsets of one cluster, it is that which the draw has chosen.
func ShareWith(cluster string, route *model.Route, drawn *model.WeightedCluster) *model.WeightedCluster {
	if drawn != nil && drawn.Name == cluster {
		return drawn
	}
	i := slices.IndexFunc(route.Clusters, func(w model.WeightedCluster) bool { return w.Name == cluster })
	if i < 0 {
		return nil
	}
	return &route.Clusters[i]
}
