// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/xlb-project/xlb/internal/model"
)

// leftOutOf counts the endpoints of a cluster that are left out, by reason; nil: none is.
func leftOutOf(c *model.Cluster) map[string]uint64 {
	if len(c.LeftOut) == 0 {
		return nil
	}
	out := map[string]uint64{}
	for reason, n := range c.LeftOutBy() {
		if n > 0 {
			out[model.LeftOutReason(reason).String()] = uint64(n)
		}
	}
	return out
}

// maxLeftOutLines bounds what one change is logged with: a mesh has thousands of services.
const maxLeftOutLines = 10

// sayLeftOut logs endpoints that get no requests, for clusters of which the configuration before left out none for that reason: endpoints come and go.
func (n *Node) sayLeftOut(cfg *model.Config) {
	before, more := n.generation.Load(), 0
	for _, c := range cfg.Clusters {
		if len(c.LeftOut) == 0 || !isNewlyLeftOut(before.Cluster(c.Name), c) {
			continue
		}
		if more++; more <= maxLeftOutLines {
			n.log.Warn("endpoints get no requests", "cluster", c.Name, "reason", c.LeftOutText())
		}
	}
	if more > maxLeftOutLines {
		n.log.Warn("endpoints of more clusters get no requests; see /config_dump", "clusters", more-maxLeftOutLines)
	}
}

func isNewlyLeftOut(before, c *model.Cluster) bool {
	if len(c.LeftOut) == 0 || before == c {
		return false
	}
	var had [model.LeftOutReasons]int
	if before != nil {
		had = before.LeftOutBy()
	}
	for reason, n := range c.LeftOutBy() {
		if n > 0 && had[reason] == 0 {
			return true
		}
	}
	return false
}
