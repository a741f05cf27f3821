// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"time"

	"github.com/xlb-project/xlb/internal/nri"
)

// runtimePatience is how long a start waits for a container runtime to report its pods. Without that, pods whose labels opt out are balanced until it does.
const runtimePatience = time.Second

// newRuntime makes the connection to a container runtime, which followPods begins.
func (n *Node) newRuntime() (err error) {
	if n.o.NRI != "" {
		n.runtime, err = nri.New(nri.Config{Socket: n.o.NRI, Optional: n.o.OptionalNRI, Pods: n.workloads, Logger: n.log})
	}
	return err
}

// followPods has a container runtime report its pods, and waits for those that there are.
func (n *Node) followPods() {
	if n.runtime == nil {
		return
	}
	ctx, leave := context.WithCancel(context.Background())
	n.leaveRuntime = leave
	n.spawn(func() { n.runtime.Run(ctx) })
	patience := time.NewTimer(runtimePatience)
	defer patience.Stop()
	select {
	case <-n.runtime.Synchronized():
	case <-patience.C:
	case <-n.ending:
	}
}
