// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
	"github.com/xlb-project/xlb/internal/slowpath/reply"
)

// chooseCluster takes one of the route's clusters, before anything of the request is changed.
func (x *exchange) chooseCluster() {
	x.Share = x.chooseShare()
	x.Target = x.Share.Name
	if x.Share.Header == "" {
		return
	}
	// A name that a client makes up must not become a label of a metric.
	if name := headers.First(x.Values(x.Share.Header)); x.proxy.config.Cluster(name) != nil {
		x.Target = name
	}
}

// chooseShare draws among the route's clusters in proportion to their weights,
// with the number that has decided over fractions before: as in Envoy a route to 50 of
// 100 requests and to two clusters of equal weight sends all of them to the first.
func (x *exchange) chooseShare() *model.WeightedCluster {
	draw := x.Draw
	if x.Route.DrawByHash {
		asked := x.Asked()
		if hash, ok := x.Route.Hash.Hash(&asked, model.HashSource{IP: x.sourceIP(), Pace: x.Pace}); ok {
			draw = hash
		}
	}
	if x.Route.DrawHeader != "" {
		draw = drawOf(x.Values(x.Route.DrawHeader), draw)
	}
	return x.Route.Share(draw)
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

// noCluster answers a request whose cluster does not exist.
func (x *exchange) noCluster() reply.Answer {
	a := ReplyNoCluster.answer()
	a.Status = cmp.Or(x.Route.NotFound, a.Status)
	return a
}
