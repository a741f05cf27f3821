// SPDX-License-Identifier: Apache-2.0

package dialer

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/upstream"
)

// Inner implements slowpath.Config.DialInner.
func (d *Dialer) Inner(ctx context.Context, to netip.AddrPort, from upstream.Origin) (slowpath.InnerConn, error) {
	now := d.cfg.Generation()
	l := now.InnerListener(model.View{Name: from.View}, to)
	if l == nil {
		return nil, fmt.Errorf("no listener is at %s any more", to)
	}
	number, ok := now.ListenerNumber(l.FullName())
	if !ok {
		return nil, fmt.Errorf("%s at %s is left alone: its connections go where they would go without it", l.FullName(), to)
	}
	target := anchor.BoundTo{Listener: number, TCP: l.TCP != nil}
	if l.Bound && !l.Unlimited {
		target.Admits = d.cfg.Admits
	}
	conn, err := d.cfg.DialInner(ctx, to, target, from)
	if err != nil {
		return nil, err
	}
	counted, err := d.counted(conn.TCPConn, to)
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

// dialForCheck connects a health check. No request is behind it.
func (d *Dialer) dialForCheck(ctx context.Context, v model.View, to netip.AddrPort, inner bool) (net.Conn, error) {
	if !inner {
		var nd net.Dialer
		return nd.DialContext(ctx, "tcp", to.String())
	}
	conn, err := d.Inner(ctx, to, upstream.Origin{View: v.Name, Tenant: shares.Path{}, Depth: 1})
	if err != nil {
		return nil, err
	}
	return conn, nil
}
