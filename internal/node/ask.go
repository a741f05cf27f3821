// SPDX-License-Identifier: Apache-2.0

package node

import "context"

// ask follows the control plane until ctx ends.
func (d *dynamic) ask(ctx context.Context) {
	d.n.log.Error("no client for control planes")
	<-ctx.Done()
}
