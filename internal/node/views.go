// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/source"
	"github.com/xlb-project/xlb/internal/status"
	"github.com/xlb-project/xlb/internal/views"
	"github.com/xlb-project/xlb/internal/workload"
)

// bootstraps are those of the shared view, and of the others in their order.
type bootstraps struct {
	shared *source.Bootstrap
	others []*source.Bootstrap
}

// load reads the bootstrap, and that of each view.
func (o *Options) load(ctx context.Context) (*bootstraps, error) {
	shared, err := source.Load(ctx, o.file())
	if err != nil {
		return nil, err
	}
	out := &bootstraps{shared: shared}
	for _, v := range o.views() {
		// o.Node is the daemon's own: a view that it named would have the identity of another one.
		one, err := source.Load(ctx, source.File{View: v.View, Path: v.Config, EnvoyHeaders: o.EnvoyHeaders})
		if err != nil {
			return nil, fmt.Errorf("view %s: %w", v.Name, err)
		}
		out.others = append(out.others, one)
	}
	return out, nil
}

// views are those with a configuration of their own.
func (o *Options) views() []views.View {
	if o.Views == nil {
		return nil
	}
	return o.Views.Views
}

// seeViews has the kernel programs look for service addresses in the view of the network namespace that connects.
func (n *Node) seeViews() {
	if len(n.o.views()) > 0 {
		atomic.StoreUint32(&n.datapath.Shared.Control.Views, 1)
	}
}

// showViews has the status know views.
func (n *Node) showViews(c *status.Config) {
	all := n.o.views()
	if len(all) == 0 {
		return
	}
	c.ViewName = func(number uint32) string {
		for i := range all {
			if all[i].Number == number {
				return all[i].Name
			}
		}
		return ""
	}
	c.Views = func() (names []string) {
		for i := range all {
			names = append(names, all[i].Name)
		}
		return names
	}
	c.DescribeView = n.source.DescribeView
}

// viewOf is the number of the view that a workload sees.
func (n *Node) viewOf(facts workload.Facts) uint32 {
	return n.o.Views.Of(facts).Number
}
