// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/source"
	"github.com/xlb-project/xlb/internal/status"
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
		one, err := source.Load(ctx, source.File{View: v.View, Path: v.config, Node: o.Node, EnvoyHeaders: o.EnvoyHeaders})
		if err != nil {
			return nil, fmt.Errorf("view %s: %w", v.Name, err)
		}
		out.others = append(out.others, one)
	}
	return out, nil
}

// view is one with a configuration of its own.
type view struct {
	model.View
	config string
}

// views are numbered in the order of their file, from 1.
func (o *Options) views() (list []view) {
	if o.Views == nil {
		return nil
	}
	for i := range o.Views.Views {
		v := &o.Views.Views[i]
		list = append(list, view{model.View{Number: uint32(i) + 1, Name: v.Name}, v.Config})
	}
	return list
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
		if i := int(number) - 1; i < len(all) {
			return all[i].Name
		}
		return ""
	}
	c.Views = func() (names []string) {
		for _, v := range all {
			names = append(names, v.Name)
		}
		return names
	}
	c.DescribeView = n.source.DescribeView
}

// viewOf is the number of the view that a workload sees.
func (n *Node) viewOf(facts workload.Facts) uint32 {
	name := n.o.Views.Of(facts)
	for _, v := range n.o.views() {
		if v.Name == name {
			return v.Number
		}
	}
	return 0
}
