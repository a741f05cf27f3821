// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/upstream"
)

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
		target.Admits = n.bound.Admits
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
