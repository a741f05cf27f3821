// SPDX-License-Identifier: Apache-2.0

package node

import (
	"time"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/model"
)

// limits are those of connections to a listener; none when it has gone.
func (n *Node) limits(listener uint32) anchor.Limits { return n.directory.Load().limits[listener] }

// shortestLimit is the shortest time that any request may take, or stand still; 0 where there is no limit. That of the listeners is known.
func shortestLimit(cfg *model.Config, ofListeners time.Duration) time.Duration {
	shortest := shortestOf{ofListeners}
	for _, c := range cfg.Clusters {
		shortest.note(c.MaxDuration)
	}
	return shortest.limit
}

// shortestOfRequests is that of the requests to some listeners, whatever their cluster says.
func shortestOfRequests(listeners []*model.Listener) time.Duration {
	var shortest shortestOf
	for _, l := range listeners {
		shortest.note(l.Routes.HeadTimeout, l.Routes.RequestTimeout, l.Routes.MaxDuration)
		for _, h := range l.Routes.VirtualHosts {
			for _, r := range h.Routes {
				shortest.note(r.Timeout, r.Idle, r.MaxDuration)
			}
		}
	}
	return shortest.limit
}

// shortestOf limits; 0 is none.
type shortestOf struct{ limit time.Duration }

func (s *shortestOf) note(limits ...time.Duration) {
	for _, l := range limits {
		if l > 0 && (s.limit == 0 || l < s.limit) {
			s.limit = l
		}
	}
}

func limitsOf(l *model.Listener) anchor.Limits {
	c := &l.Routes.Connections
	out := anchor.Limits{Idle: c.Idle, Age: c.Age, Drain: c.Drain}
	i := l.Inspection
	if i == nil {
		return out
	}
	// What serves those that have not begun in time.
	proxy, http := i.Serves(&model.Opening{})
	if !i.Continue || !http {
		out.Opening, out.Unopened = i.Timeout, i.Continue && proxy != nil
	}
	return out
}
