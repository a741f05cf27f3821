// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/xlb-project/xlb/internal/limits"
)

const (
	// connStreams is how many streams of a connection of HTTP/2 may send as much as they may before it is read. Requests have no bodies, and those by
	// gRPC short ones.
	connStreams = 4
	frameSize   = 16 << 10
	// shutdownTimeout is how long answers being written may take when the daemon ends.
	shutdownTimeout = 2 * time.Second
)

// DefaultAddress is where the admin API listens, and is asked, unless somebody names another address. It is that of Envoy's documentation and examples.
const DefaultAddress = "127.0.0.1:9901"

// ListenError says that the admin address cannot be used. Its cause lies in the
// environment: another address, or the end of another process, is the remedy.
type ListenError struct {
	Address string
	Err     error
}

func (e *ListenError) Error() string {
	path, isUnix := strings.CutPrefix(e.Address, UnixScheme)
	switch {
	case isUnix && errors.Is(e.Err, syscall.EADDRINUSE):
		return fmt.Sprintf("admin address %s: a process listens there; stop it (ss -lxp src %s), or choose another path with --admin", e.Address, path)
	case isUnix:
		return fmt.Sprintf("admin address %s: %v", e.Address, e.Err)
	case errors.Is(e.Err, syscall.EADDRINUSE):
		return fmt.Sprintf("admin address %s: already in use; stop the process that listens there (ss -ltnp) or choose another with --admin", e.Address)
	}
	return fmt.Sprintf("admin address %s: %v; choose an address of this host with --admin", e.Address, e.Err)
}

func (e *ListenError) Unwrap() error { return e.Err }

// Listen takes the admin address: host:port, where an empty host means 127.0.0.1, or unix:PATH, a Unix socket with the mode UnixMode. Every
// error is a *ListenError.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	if path, is := strings.CutPrefix(address, UnixScheme); is {
		return ListenUnix(ctx, path, UnixMode)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &ListenError{Address: address, Err: err}
	}
	if host == "" {
		host = "127.0.0.1"
	}
	address = net.JoinHostPort(host, port)
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, &ListenError{Address: address, Err: errno(err)}
	}
	return l, nil
}

// errno drops the layers of net's errors that repeat the address.
func errno(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// Serve answers requests on l until ctx is done, and closes l. Requests have to be for an address, localhost, or one of names, which
// may have a port; those over a Unix socket may be for anything, and change something for root and the daemon's own user alone. Answers being written may
// finish. It returns nil after an orderly end.
func Serve(ctx context.Context, l net.Listener, names []string, handler http.Handler, log *slog.Logger) error {
	allowed := make([]string, len(names))
	for i, name := range names {
		allowed[i] = hostname(name)
	}
	// gRPC, which has services here, speaks HTTP/2.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	visitors := newConnLimiter(l, limits.Admin.Connections)
	if l.Addr().Network() == "unix" {
		handler = forPeers(handler)
	} else {
		handler = forHosts(allowed, handler)
	}
	server := &http.Server{
		Handler: countRequests(handler),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return withPeer(visitors.connContext(ctx, c), c)
		},
		Protocols: protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: limits.Admin.Streams, MaxReadFrameSize: frameSize,
			MaxReceiveBufferPerConnection: connStreams * limits.Admin.BodyBytes, MaxReceiveBufferPerStream: limits.Admin.BodyBytes,
		},
		ReadHeaderTimeout: limits.Admin.Head,
		ReadTimeout:       limits.Admin.Whole,
		WriteTimeout:      limits.Admin.Send,
		IdleTimeout:       limits.Admin.Idle,
		MaxHeaderBytes:    limits.Admin.HeadBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(visitors) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve admin API on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}

	// The caller's context is done; this bounds the end.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		log.Warn("admin connections cut off", "err", err)
		// Nobody is left to tell.
		_ = server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve admin API on %s: %w", l.Addr(), err)
	}
	return nil
}
