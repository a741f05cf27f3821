// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/upstream"
)

// inners finds the endpoints that are the address of a listener of the same configuration, wherever they come from: the file, a control plane, DNS.
// The slow path enters those listeners. Nobody listens at a service address, and this process is not intercepted.
type inners struct {
	n *Node
	// inner are the listeners of the last configuration, clusters its clusters, marked those with such endpoints, by what they were made of. All
	// need n.updates.
	inner    *model.Inner
	marked   map[*model.Cluster]*model.Cluster
	clusters []*model.Cluster
	// cut are the marked clusters of which some endpoints lead in a circle.
	cut map[*model.Cluster]cutting

	mu sync.Mutex
	// said is when the log was told last that requests go in a circle, by where the last of them was to go.
	said map[circle]time.Time
}

// circle is where a request was to go that had passed too many listeners.
type circle struct {
	cluster  string
	endpoint netip.AddrPort
}

func newInners(n *Node) *inners {
	return &inners{n: n, inner: model.InnerOf(nil), marked: map[*model.Cluster]*model.Cluster{}, said: map[circle]time.Time{}}
}

// mark marks endpoints, and takes those away that lead in a circle. It changes a copy; what is the same as before is the same pointer. Needs
// n.updates.
func (h *inners) mark(cfg *model.Config) *model.Config {
	h.follow(cfg.Listeners)
	known := h.marked
	h.marked = map[*model.Cluster]*model.Cluster{}
	changed := model.ChangeOf(h.clusters, cfg.Clusters)
	first, behind := changed.First, changed.First+len(changed.Added)
	h.clusters = cfg.Clusters
	marked := *cfg
	marked.Clusters = nil
	for i, c := range cfg.Clusters {
		with := known[c]
		if with == nil && first <= i && i < behind {
			with = h.inner.Mark(c)
		}
		if with == nil || with == c {
			continue
		}
		if marked.Clusters == nil {
			marked.Clusters = slices.Clone(cfg.Clusters)
		}
		h.marked[c], marked.Clusters[i] = with, with
	}
	if marked.Clusters == nil {
		h.cut = nil
		return cfg
	}
	h.cutCircles(&marked)
	return &marked
}

// cutting is a cluster without the endpoints that lead in a circle.
type cutting struct {
	left []model.LeftOut
	out  *model.Cluster
}

// cutCircles takes endpoints away that lead in a circle, whatever the request: they came with other resources than the listeners, or the file would
// have been refused. cfg is a copy of which the clusters may be exchanged.
func (h *inners) cutCircles(cfg *model.Config) {
	left := map[*model.Cluster][]model.LeftOut{}
	for _, passage := range cfg.Circles(h.inner) {
		one := model.LeftOut{Host: passage.Endpoint.Addr().String(), Port: passage.Endpoint.Port(), Reason: model.LeftOutCircle, Socket: passage.To.Name}
		if !slices.Contains(left[passage.Cluster], one) {
			left[passage.Cluster] = append(left[passage.Cluster], one)
		}
	}
	now := map[*model.Cluster]cutting{}
	for i, c := range cfg.Clusters {
		if left[c] == nil {
			continue
		}
		k := h.cut[c]
		if !slices.Equal(k.left, left[c]) {
			k = cutting{left[c], cutOf(c, left[c])}
			h.n.log.Warn("endpoints get no requests", "cluster", c.Name, "reason", k.out.LeftOutText())
		}
		now[c], cfg.Clusters[i] = k, k.out
	}
	h.cut = now
}

// cutOf makes a cluster without some endpoints.
func cutOf(c *model.Cluster, left []model.LeftOut) *model.Cluster {
	out := *c
	out.LeftOut = append(slices.Clone(c.LeftOut), left...)
	out.Endpoints = slices.DeleteFunc(slices.Clone(c.Endpoints), func(e model.Endpoint) bool {
		return slices.ContainsFunc(left, func(l model.LeftOut) bool { return l.Host == e.Address.Addr().String() && l.Port == e.Address.Port() })
	})
	return &out
}

// follow has all clusters looked at again where listeners have come or gone.
func (h *inners) follow(listeners []*model.Listener) {
	inner := model.InnerOf(listeners)
	if !inner.Same(h.inner) {
		h.marked, h.clusters = nil, nil
	}
	h.inner = inner
}

// dropTurned closes idle connections of the slow path to endpoints that have become, or were, the address of a listener: they lead elsewhere. Needs
// n.updates.
func (n *Node) dropTurned(before *generation.Generation, changes *reconcile.Changes) {
	var turned, kept []netip.AddrPort
	for i := range changes.Endpoints {
		e := &changes.Endpoints[i]
		old := before.EndpointAt(e.Index)
		if old == nil || old.Inner == e.Inner {
			continue
		}
		turned = append(turned, e.Address)
		if n.kept[e.Address] > 0 {
			kept = append(kept, e.Address)
		}
	}
	if len(turned) > 0 {
		n.proxy.KeepConnections(nil, turned)
		n.proxy.KeepConnections(kept, nil)
	}
}

// dialInner implements slowpath.Config.DialInner.
func (n *Node) dialInner(ctx context.Context, to netip.AddrPort, from upstream.Origin) (slowpath.InnerConn, error) {
	now := n.generation.Load()
	l := now.InnerListener(to)
	if l == nil {
		return nil, fmt.Errorf("no listener is at %s any more", to)
	}
	number, ok := now.ListenerNumber(l.Name)
	if !ok {
		return nil, fmt.Errorf("listener %q at %s is left alone: its connections go where they would go without it", l.Name, to)
	}
	target := anchor.BoundTo{Listener: number, Plain: l.TCP != nil}
	if l.Bound && !l.Unlimited {
		target.Admits = n.doors.admits
	}
	conn, err := n.anchors.DialInner(ctx, to, target, from)
	if err != nil {
		return nil, err
	}
	counted, err := n.dialer.counted(conn.TCPConn, to)
	if err != nil {
		conn.Leave()
		return nil, err
	}
	return &innerConn{countedConn: counted, inner: conn}, nil
}

// innerConn is a connection from one listener to another.
type innerConn struct {
	*countedConn
	inner *anchor.InnerConn
}

// Close ends the connection; its source is another's afterwards.
func (c *innerConn) Close() error {
	c.inner.Leave()
	return c.countedConn.Close()
}

// Carry implements slowpath.InnerConn.
func (c *innerConn) Carry(from upstream.Origin) { c.inner.Carry(from) }

// dialForCheck connects a health check. Nobody's request is behind it.
func (n *Node) dialForCheck(ctx context.Context, to netip.AddrPort, inner bool) (net.Conn, error) {
	if !inner {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", to.String())
	}
	conn, err := n.dialInner(ctx, to, upstream.Origin{Tenant: shares.Path{}, Depth: 1})
	if err != nil {
		return nil, err
	}
	return conn, nil
}

const (
	// circlePace is how often the log is told of one circle, maxCircles of how many it remembers that.
	circlePace = time.Minute
	maxCircles = 256
)

// circled logs that a request has passed too many listeners. It implements slowpath.Config.Circled.
func (h *inners) circled(cluster string, endpoint netip.AddrPort) {
	if h.maySay(circle{cluster, endpoint}, time.Now()) {
		h.n.log.Warn("requests go in a circle; they get 503: have one of these listeners lead elsewhere", "cluster", cluster, "endpoint", endpoint,
			"listeners_passed", slowpath.MaxDepth)
	}
}

// maySay reports whether the log is to be told of a circle now.
func (h *inners) maySay(at circle, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	last, known := h.said[at]
	if now.Sub(last) < circlePace || !known && len(h.said) == maxCircles {
		return false
	}
	h.said[at] = now
	return true
}
