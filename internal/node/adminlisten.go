// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/model"
)

// listenAdmin takes the address of the admin API; nil: there is none.
func listenAdmin(ctx context.Context, o Options, cfg *model.Config) (net.Listener, error) {
	address, asked := adminAddressOf(o, cfg)
	if address == "" {
		return nil, nil
	}
	l, err := admin.Listen(ctx, address)
	if err != nil && !asked {
		// As where a daemon starts beside another one.
		o.Logger.Warn("there is no admin API; name an address for it with --admin, or none", "err", err)
		return nil, nil
	}
	if err != nil || o.AdminAddressPath == "" {
		return l, err
	}
	if err := writeAddress(o.AdminAddressPath, l.Addr().String()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// adminAddressOf is the address of the admin API, and whether somebody has asked for it; empty: there is to be none. What the command line says goes
// before what the configuration says, as with a daemon that starts beside the one with the same file.
func adminAddressOf(o Options, cfg *model.Config) (address string, asked bool) {
	switch {
	case o.NoAdmin:
		return "", false
	case o.Admin != "":
		return o.Admin, true
	case cfg.Admin.IsValid():
		return cfg.Admin.String(), true
	case listenerAt(o.AdminDefault, cfg) != nil:
		return "", false
	}
	return o.AdminDefault, false
}

// listenerAt is the listener to which connections to an address belong, in place of the admin API; nil: there is no such one. One at :: has the
// addresses of IPv6 alone; what it has of IPv4 (ipv4_compat) is a listener of its own.
func listenerAt(address string, cfg *model.Config) *model.Listener {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil
	}
	ip := a.Addr().Unmap()
	for _, l := range cfg.Listeners {
		own := l.Address.Addr()
		if l.Address.Port() == a.Port() && (own == ip || own.IsUnspecified() && own.Is4() == ip.Is4()) {
			return l
		}
	}
	return nil
}

// unaskedAdmin is the admin API at the default address, which no operator has named: it gives way to a listener that a later configuration has there.
type unaskedAdmin struct {
	net.Listener
	end    context.CancelFunc
	once   sync.Once
	closed chan struct{}
}

// serveUnasked serves the admin API at the default address until ctx ends or a listener has the address. Needs n.updates.
func (n *Node) serveUnasked(ctx context.Context, l net.Listener, h http.Handler) {
	ctx, end := context.WithCancel(ctx)
	u := &unaskedAdmin{Listener: l, end: end, closed: make(chan struct{})}
	n.unasked = u
	n.goes(func() {
		defer end()
		n.serveAdmin(ctx, u, readOnly(h))
	})
}

// Close notes that the address is free.
func (u *unaskedAdmin) Close() error {
	defer u.once.Do(func() { close(u.closed) })
	return u.Listener.Close()
}

// yieldAdmin ends the admin API at the default address if a listener has the address, which is free then. Answers under way may finish. It does not
// come back when the listener goes: its clients need an address that stays. Needs n.updates.
func (n *Node) yieldAdmin(cfg *model.Config) {
	if n.unasked == nil {
		return
	}
	address := n.unasked.Addr().String()
	l := listenerAt(address, cfg)
	if l == nil {
		return
	}
	n.log.Warn("the admin API ends, since a listener has its default address; name another one with --admin, or in admin of the bootstrap, and start the daemon anew",
		"address", address, "listener", l.Name)
	n.unasked.end()
	<-n.unasked.closed
	n.unasked = nil
}

// readOnly refuses to change anything, for the default address: every user of the host can connect to it, and no operator has named it.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == admin.LogPath && r.URL.Query().Has("level") {
			http.Error(w, "this is the default address of the admin API, which changes nothing; start the daemon with --admin to change the level of its log", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
