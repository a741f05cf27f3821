// SPDX-License-Identifier: Apache-2.0

package source

import (
	"github.com/xlb-project/xlb/internal/model"
)

// maxLeftOutLines bounds what one change is logged with: a mesh has thousands of services.
const maxLeftOutLines = 10

// logLeftOut logs endpoints that get no requests, for clusters of which the configuration before left out none for that reason: endpoints come and go.
func (s *Source) logLeftOut(cfg *model.Config) {
	more := 0
	for _, c := range cfg.Clusters {
		if len(c.LeftOut) == 0 || !isNewlyLeftOut(s.cfg.Cluster(c.View, c.Name), c) {
			continue
		}
		if more++; more <= maxLeftOutLines {
			s.cfg.Logger.Warn("endpoints get no requests", "cluster", c.Name, "reason", c.LeftOutText())
		}
	}
	if more > maxLeftOutLines {
		s.cfg.Logger.Warn("endpoints of more clusters get no requests; see /config_dump", "clusters", more-maxLeftOutLines)
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
