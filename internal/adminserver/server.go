// SPDX-License-Identifier: Apache-2.0

package adminserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/model"
)

// Options say where the admin API is to listen.
type Options struct {
	// Address is what the command line names, host:port or unix:PATH; "" takes the configuration's, and Default when that has none.
	Address string
	// Default may be "": there is no admin API then. No operator has named this address: where it cannot be had there is no admin API.
	Default string
	// None takes neither.
	None bool
	// Hosts are names by which the admin API may be asked for, beside addresses, localhost and that of Address.
	Hosts []string
	// AddressPath is a file to write the address to, once the admin API listens; "" names no file.
	AddressPath string
	Logger      *slog.Logger
}

// Server is the admin API of a running daemon.
type Server struct {
	o        Options
	listener net.Listener
	// asked: an operator has named the address.
	asked bool
	// unasked is the admin API at the default address; nil: it has ended, or has another address. Serve and Yield alone use it.
	unasked *unaskedAPI
}

// Listen takes the address of the admin API; nil: there is none.
func Listen(ctx context.Context, o Options, cfg *model.Config) (*Server, error) {
	address, asked := o.addressFor(cfg)
	if address == "" {
		return nil, nil
	}
	l, err := o.listen(ctx, address, cfg)
	if err != nil && !asked {
		// As where a daemon starts beside another one.
		o.Logger.Warn("there is no admin API; name an address for it with --admin, or none", "err", err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if o.AddressPath != "" {
		if err := writeAddress(o.AddressPath, l.Addr().String()); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return &Server{o: o, listener: l, asked: asked}, nil
}

// listen takes an address. The mode of a Unix socket is the configuration's where that names it.
func (o *Options) listen(ctx context.Context, address string, cfg *model.Config) (net.Listener, error) {
	if pipe := cfg.AdminPipe; o.Address == "" && pipe.Path != "" {
		return admin.ListenUnix(ctx, pipe.Path, pipe.Mode)
	}
	return admin.Listen(ctx, address)
}

// Close gives the address up, where Serve has not been called.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	return s.listener.Close()
}

// addressFor is the address of the admin API, and whether an operator has named it; empty: there is to be none. What the command line says goes
// before what the configuration says, as with a daemon that starts beside the one with the same file.
func (o *Options) addressFor(cfg *model.Config) (address string, asked bool) {
	switch {
	case o.None:
		return "", false
	case o.Address != "":
		return o.Address, true
	case cfg.Admin.IsValid():
		return cfg.Admin.String(), true
	case cfg.AdminPipe.Path != "":
		return admin.UnixScheme + cfg.AdminPipe.Path, true
	case listenerAt(o.Default, cfg) != nil:
		return "", false
	}
	return o.Default, false
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

// unaskedAPI is the admin API at the default address, which no operator has named: it gives way to a listener that a later configuration has there.
type unaskedAPI struct {
	net.Listener
	end    context.CancelFunc
	once   sync.Once
	closed chan struct{}
}

// Close notes that the address is free.
func (u *unaskedAPI) Close() error {
	defer u.once.Do(func() { close(u.closed) })
	return u.Listener.Close()
}

// Serve begins to serve the admin API, and returns what serves it, to be run in a goroutine of its own: until ctx ends or, at the default address, a
// listener has the address. It is called once, and not beside Yield.
func (s *Server) Serve(ctx context.Context, h http.Handler) (run func()) {
	if s.asked {
		return func() { s.serve(ctx, s.listener, h) }
	}
	ctx, end := context.WithCancel(ctx)
	u := &unaskedAPI{Listener: s.listener, end: end, closed: make(chan struct{})}
	s.unasked = u
	return func() {
		defer end()
		s.serve(ctx, u, readOnly(h))
	}
}

func (s *Server) serve(ctx context.Context, l net.Listener, h http.Handler) {
	s.o.Logger.Info("admin API listens", "address", addressText(l.Addr()))
	if err := admin.Serve(ctx, l, append([]string{s.o.Address}, s.o.Hosts...), h, s.o.Logger); err != nil {
		s.o.Logger.Error("admin API has ended", "err", err)
	}
}

// addressText is an address as --admin takes it.
func addressText(a net.Addr) string {
	if a.Network() == "unix" {
		return admin.UnixScheme + a.String()
	}
	return a.String()
}

// Yield ends the admin API at the default address if a listener has the address, which is free then. Answers under way may finish. It does not
// come back when the listener goes: its clients need an address that stays. One call at a time; what Serve has returned runs, or will.
func (s *Server) Yield(cfg *model.Config) {
	if s.unasked == nil {
		return
	}
	address := s.unasked.Addr().String()
	l := listenerAt(address, cfg)
	if l == nil {
		return
	}
	s.o.Logger.Warn("the admin API ends, since a listener has its default address; name another one with --admin, or in admin of the bootstrap, and start the daemon anew",
		"address", address, "listener", l.Name)
	s.unasked.end()
	<-s.unasked.closed
	s.unasked = nil
}

// readOnly refuses to change anything, for the default address: every user of the host can connect to it, and no operator has named it.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if admin.Changes(r) {
			http.Error(w, "this is the default address of the admin API, which changes nothing; start the daemon with --admin to change the level of its log, or which network namespaces it serves", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
