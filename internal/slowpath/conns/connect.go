// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/workload"
)

// ErrWorkloadLeft says that nothing can be connected from the client's network namespace, which is no fault of the endpoint.
var ErrWorkloadLeft = errors.New("the client's network namespace is not, or no longer, served")

// DialError marks a failure before anything was sent.
type DialError struct {
	Endpoint netip.AddrPort
	// From is the workload in whose network namespace it was tried.
	From workload.ID
	// TimedOut: the time to connect was up.
	TimedOut bool
	Err      error
}

// Error implements error.
func (e *DialError) Error() string {
	return fmt.Sprintf("connect to endpoint %s: %v", e.Endpoint, e.Err)
}

// Unwrap is the cause.
func (e *DialError) Unwrap() error { return e.Err }

// group are the connections of a workload to an address. Other workloads may have another server there, and know nothing of these.
type group struct {
	workload workload.ID
	address  netip.AddrPort
}

// peer is where a connection leads, from where, and how it is secured. Connections to one peer serve the same requests.
type peer struct {
	group
	// tls tells how it is secured, and sni the name that is asked for; empty: it is plain text.
	tls, sni string
	// host is what the endpoint's certificate was checked for; empty: it need not have the name of the request's host.
	host string
	// inner: it leads to a listener of this process, of that view.
	inner bool
	view  string
}

// Target is what a connection is secured for.
type Target struct {
	// TLS is not nil.
	TLS *model.UpstreamTLS
	// Hostname is that of the endpoint, Host what the request is for; both may be empty.
	Hostname, Host string
	// HTTP: requests are sent.
	HTTP bool
}

// Destination is an endpoint that is connected to.
type Destination struct {
	// Workload is the client's network namespace, from which it is connected to.
	Workload workload.ID
	Address  netip.AddrPort
	// Target is nil where connections are plain text.
	Target *Target
	// Inner: it is a listener of this process. From is for whom it is connected to, which that listener has to know.
	Inner bool
	From  upstream.Origin
}

// InnerConn is a connection to a listener of this process. Carry says whose request follows; it goes before the first byte of that.
type InnerConn interface {
	upstream.TCP
	Carry(from upstream.Origin)
}

func (d *Destination) peer() peer {
	p := peer{group: group{d.Workload, d.Address}, inner: d.Inner}
	if d.Inner {
		p.view = d.From.View
	}
	if d.Target == nil {
		return p
	}
	p.tls = d.Target.TLS.Key
	switch {
	case d.Target.TLS.AutoHostSNI && d.Target.Hostname != "":
		p.sni = d.Target.Hostname
	case d.Target.TLS.AutoSNI:
		p.sni = d.Target.Host
	}
	if d.Target.TLS.HostSAN {
		p.host = d.Target.Host
	}
	return p
}

// Connect opens a connection to an endpoint within the timeout, which is a cluster's connect_timeout; 0 means its default. A
// failure is a DialError.
func (p *Pool) Connect(ctx context.Context, to Destination, timeout time.Duration) (*Conn, error) {
	if timeout <= 0 {
		timeout = model.DefaultConnectTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer context.AfterFunc(p.config.Base, cancel)()
	conn, err := p.dialInRoom(ctx, &to)
	inner, _ := conn.(InnerConn)
	if err == nil && to.Target != nil {
		conn, err = p.secure(ctx, conn, to.Target)
	}
	if err != nil {
		var ne net.Error
		timedOut := ctx.Err() == context.DeadlineExceeded || errors.As(err, &ne) && ne.Timeout()
		return nil, &DialError{Endpoint: to.Address, From: to.Workload, TimedOut: timedOut, Err: err}
	}
	c := newConn(conn, to.peer())
	c.inner = inner
	return c, nil
}

// secure is Config.Secure, which owns the connection, unless it panics.
func (p *Pool) secure(ctx context.Context, conn net.Conn, to *Target) (net.Conn, error) {
	returned := false
	defer func() {
		if !returned {
			Abort(conn)
		}
	}()
	secured, err := p.config.Secure(ctx, conn, *to)
	returned = true
	return secured, err
}

// dialInRoom makes room where it is short: the workload's own idle connections close first, and those of all only where it had none that helped. Ports are
// those of its network namespace, which no other has, while descriptors and memory are the daemon's.
func (p *Pool) dialInRoom(ctx context.Context, to *Destination) (net.Conn, error) {
	conn, err := p.dial(ctx, to)
	if upstream.IsShortage(err) && p.shedOf(to.Workload) > 0 {
		conn, err = p.dial(ctx, to)
	}
	if upstream.IsShortage(err) && !upstream.IsPortShortage(err) && p.Shed() > 0 {
		conn, err = p.dial(ctx, to)
	}
	return conn, err
}

func (p *Pool) dial(ctx context.Context, to *Destination) (net.Conn, error) {
	if !to.Inner {
		return p.config.Dial(ctx, to.Workload, to.Address)
	}
	conn, err := p.config.DialInner(ctx, to.Address, to.From)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// Reuse takes a connection that no request uses, or nil.
func (p *Pool) Reuse(to *Destination) *Conn {
	c := p.take(to.peer())
	if c != nil && c.inner != nil {
		c.inner.Carry(to.From)
	}
	return c
}

// Dial is a Config.Dial from this process's network namespace, for its own clients alone.
func Dial(ctx context.Context, from workload.ID, endpoint netip.AddrPort) (net.Conn, error) {
	if from != workload.Host {
		return nil, ErrWorkloadLeft
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", endpoint.String())
}
