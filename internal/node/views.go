// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/source"
	"github.com/xlb-project/xlb/internal/status"
	"github.com/xlb-project/xlb/internal/viewctl"
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
	if o.Views == nil {
		return out, nil
	}
	for _, v := range o.Views.Views {
		checked := v.Checkable()
		one, err := o.loadView(ctx, checked)
		if err != nil {
			return nil, fmt.Errorf("view %s: %w", checked.Name, err)
		}
		if !v.IsTemplate() {
			out.others = append(out.others, one)
		}
	}
	return out, nil
}

// loadView reads the bootstrap of a view. Options.Node is the daemon's own: a view that it named would have the identity of another one.
func (o *Options) loadView(ctx context.Context, v views.View) (*source.Bootstrap, error) {
	return source.Load(ctx, source.File{View: v.View, Path: v.Config, Node: v.Node, EnvoyHeaders: o.EnvoyHeaders})
}

// Served is what of the host views may select.
func (o *Options) Served() views.Served {
	return views.Served{Others: o.OtherNamespaces, Host: !o.NoOwnNamespace, Pods: o.NRI != ""}
}

// newViews has views come and go from now on, if there are any; nil: there is the shared one alone. The kernel programs look for service addresses in the view of
// the network namespace that connects.
func (n *Node) newViews() *viewctl.Controller {
	if n.o.Views == nil {
		return nil
	}
	atomic.StoreUint32(&n.datapath.Shared.Control.Views, 1)
	return viewctl.New(viewctl.Config{
		Logger: n.log, Served: n.o.Served(), Load: n.o.loadView, Sources: n.source, Await: n.awaitViews, ChooseViews: func() { n.workloads.ChooseViews() },
		Facts: func() []workload.Facts { return n.workloads.Facts() }, Seen: func() map[uint32]bool { return n.workloads.Views() },
		InUse: func() map[uint32]bool { return n.anchors.Views() }, NewTicker: n.newTicker,
	}, n.o.Views)
}

// awaitViews returns when every endpoint has been asked for its health, or they have had their chance.
func (n *Node) awaitViews(ctx context.Context) {
	n.awaitEndpoints(ctx, func() bool { return true })
}

// serveReloads puts changes of files in force until ctx ends.
func (n *Node) serveReloads(ctx context.Context, reload <-chan os.Signal) {
	if n.views == nil {
		n.source.ServeReloads(ctx, reload)
		return
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	toViews, toSources := make(chan os.Signal, 1), make(chan os.Signal, 1)
	serving.Go(func() { n.views.Serve(ctx, toViews) })
	serving.Go(func() { copySignals(ctx, reload, toViews, toSources) })
	n.source.ServeReloads(ctx, toSources)
}

// copySignals sends each signal to all of these, until ctx ends. One that has yet to receive the signal before does not keep others waiting.
func copySignals(ctx context.Context, from <-chan os.Signal, to ...chan<- os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case signal := <-from:
			for _, one := range to {
				select {
				case one <- signal:
				default:
				}
			}
		}
	}
}

// viewsChanged has the connections of workloads follow the views that these see.
func (n *Node) viewsChanged(list []*workload.Workload) {
	for _, w := range list {
		if err := n.anchors.Look(w); err != nil {
			w.Logger(n.log).Error("new connections of a network namespace see its former view", "err", err)
		}
	}
	n.anchors.ViewsChanged()
}

// showViews has the status know views.
func (n *Node) showViews(c *status.Config) {
	if n.views != nil {
		c.ViewName, c.Views, c.DescribeView = n.views.NameOf, n.views.Names, n.source.DescribeView
	}
}
