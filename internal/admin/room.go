// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// room bounds the connections of a listener. When one more comes than it has place for, the one that has waited longest without a request under
// way is closed: clients that send nothing, or half a head, keep nobody out. While all are served, new ones wait.
type room struct {
	net.Listener

	mu    sync.Mutex
	left  sync.Cond // a connection has gone or waits again, or the listener is closed
	size  int
	conns map[*guest]struct{}
	clock uint64
	ended bool
}

// guest is one connection. Its fields are the room's.
type guest struct {
	net.Conn
	room    *room
	serving int    // requests under way: more than one with HTTP/2
	since   uint64 // when it began to wait, by the room's clock
}

func newRoom(l net.Listener, size int) *room {
	r := &room{Listener: l, size: size, conns: map[*guest]struct{}{}}
	r.left.L = &r.mu
	return r
}

func (r *room) Accept() (net.Conn, error) {
	c, err := r.Listener.Accept()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.conns) >= r.size && !r.ended {
		if g := r.longestWaiting(); g != nil {
			delete(r.conns, g)
			// Nobody is left to tell.
			_ = g.Conn.Close()
			continue
		}
		r.left.Wait()
	}
	if r.ended {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	r.clock++
	g := &guest{Conn: c, room: r, since: r.clock}
	r.conns[g] = struct{}{}
	return g, nil
}

// longestWaiting is nil while all are served. The caller holds mu.
func (r *room) longestWaiting() *guest {
	var oldest *guest
	for g := range r.conns {
		if g.serving == 0 && (oldest == nil || g.since < oldest.since) {
			oldest = g
		}
	}
	return oldest
}

func (r *room) Close() error {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.left.Broadcast()
	return r.Listener.Close()
}

func (g *guest) Close() error {
	g.room.mu.Lock()
	delete(g.room.conns, g)
	g.room.mu.Unlock()
	g.room.left.Broadcast()
	return g.Conn.Close()
}

// serve counts a request that begins, or with -1 one that has ended.
func (g *guest) serve(change int) {
	g.room.mu.Lock()
	g.serving += change
	g.room.clock++
	g.since = g.room.clock
	g.room.mu.Unlock()
	g.room.left.Broadcast()
}

type guestKey struct{}

// connContext is http.Server's.
func (r *room) connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, c)
}

// counted tells the room of requests under way.
func counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g, ok := r.Context().Value(guestKey{}).(*guest); ok {
			g.serve(1)
			defer g.serve(-1)
		}
		next.ServeHTTP(w, r)
	})
}
