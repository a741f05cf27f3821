// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/model"
)

// limits are those of connections to a listener; none when it has gone.
func (n *Node) limits(listener uint32) anchor.Limits { return n.directory.Load().limits[listener] }

func limitsOf(table *model.RouteTable) anchor.Limits {
	c := &table.Connections
	return anchor.Limits{Idle: c.Idle, Age: c.Age, Drain: c.Drain}
}
