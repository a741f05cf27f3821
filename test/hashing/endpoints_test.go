// SPDX-License-Identifier: Apache-2.0

package hashing

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"
)

// startEndpoints runs n servers, at addresses of their own, that answer with their address.
func startEndpoints(t testing.TB, n int) []netip.AddrPort {
	t.Helper()
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
	})}
	t.Cleanup(func() { _ = server.Close() })
	addresses := make([]netip.AddrPort, n)
	for i := range addresses {
		l := listen(t)
		addresses[i] = netip.MustParseAddrPort(l.Addr().String())
		go func() {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		}()
	}
	return addresses
}

// listen listens at a random address of 127.0.0.0/8: keys of hosts are to differ from run to run.
func listen(t testing.TB) net.Listener {
	t.Helper()
	host := netip.AddrFrom4([4]byte{127, byte(100 + rand.IntN(100)), byte(rand.IntN(256)), byte(1 + rand.IntN(254))})
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", netip.AddrPortFrom(host, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// freeAddress is one that nobody listens at.
func freeAddress(t testing.TB) netip.AddrPort {
	t.Helper()
	l := listen(t)
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String())
}
