// SPDX-License-Identifier: Apache-2.0

package node

import (
	"math"
	"time"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/model"
)

// limits are those of connections to a listener; none when it has gone.
func (n *Node) limits(listener uint32) anchor.Limits { return n.directory.Load().limits[listener] }

// shortestLimit is the shortest time that any request may take, or stand still; 0 where there is no limit.
func shortestLimit(cfg *model.Config) time.Duration {
	shortest := time.Duration(math.MaxInt64)
	note := func(limits ...time.Duration) {
		for _, l := range limits {
			if l > 0 {
				shortest = min(shortest, l)
			}
		}
	}
	for _, l := range cfg.Listeners {
		note(l.Routes.HeadTimeout, l.Routes.RequestTimeout, l.Routes.MaxDuration)
		for _, h := range l.Routes.VirtualHosts {
			for _, r := range h.Routes {
				note(r.Timeout, r.Idle, r.MaxDuration)
			}
		}
	}
	for _, c := range cfg.Clusters {
		note(c.MaxDuration)
	}
	if shortest == math.MaxInt64 {
		return 0
	}
	return shortest
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
