// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/reply"
)

// chooseCluster takes one of the route's clusters, before anything of the request is changed.
func (x *exchange) chooseCluster() {
	x.share = x.chooseShare()
	x.target = x.share.Name
	if x.share.Header == "" {
		return
	}
	// A name that a client makes up must not become a label of a metric.
	if name := first(x.requestValues(x.share.Header)); x.proxy.config.Cluster(name) != nil {
		x.target = name
	}
}

// chooseShare draws among the route's clusters in proportion to their weights,
// with the number that has decided over fractions before: as in Envoy a route to 50 of
// 100 requests and to two clusters of equal weight sends all of them to the first.
func (x *exchange) chooseShare() *model.WeightedCluster {
	draw := x.draw
	if x.route.DrawByHash {
		asked := x.asked()
		if hash, ok := x.route.Hash.Hash(&asked, model.HashSource{IP: x.sourceIP(), Pace: x.pace}); ok {
			draw = hash
		}
	}
	if x.route.DrawHeader != "" {
		draw = drawOf(x.requestValues(x.route.DrawHeader), draw)
	}
	return x.route.Share(draw)
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
	a.Status = cmp.Or(x.route.NotFound, a.Status)
	return a
}
