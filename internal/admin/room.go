// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// servedTime is how long requests are not given up for others, when all connections have some under way.
const servedTime = 500 * time.Millisecond

// sentTime is how long a connection is not given up for others once a request has ended: its answer is sent behind that.
const sentTime = 100 * time.Millisecond

// room bounds the connections of a listener. When one more comes than it has place for, the one that has waited longest without a request under
// way is closed: clients that send nothing, or half a head, keep nobody out. While all are served, new ones wait for a moment; then the one is closed on
// which no request has begun or ended for the longest time, such as a stream that nobody speaks on.
type room struct {
	net.Listener

	mu    sync.Mutex
	left  sync.Cond // a connection has gone or waits again, or the listener is closed
	size  int
	conns map[*guest]struct{}
	ended bool
}

// guest is one connection. Its fields are the room's.
type guest struct {
	net.Conn
	room    *room
	serving int       // requests under way: more than one with HTTP/2
	since   time.Time // when a request of it began or ended last
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
		g, age := r.oldest()
		if age >= g.patience() {
			delete(r.conns, g)
			// Nobody is left to tell.
			_ = g.Conn.Close()
			continue
		}
		again := time.AfterFunc(g.patience()-age, r.look)
		r.left.Wait()
		again.Stop()
	}
	if r.ended {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	g := &guest{Conn: c, room: r, since: time.Now()}
	r.conns[g] = struct{}{}
	return g, nil
}

// look has Accept look again. It waits for the lock, and so until Accept waits: a broadcast before that wakes nobody.
func (r *room) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left.Broadcast()
}

// patience is how long nothing has to begin or end on a connection before it is closed for another. The caller holds the room's mu.
func (g *guest) patience() time.Duration {
	if g.serving > 0 {
		return servedTime
	}
	return sentTime
}

// oldest is the connection on which nothing has begun or ended for the longest time, of those without a request under way if there are any, and
// how long that is. There is one. The caller holds mu.
func (r *room) oldest() (_ *guest, age time.Duration) {
	var out *guest
	for g := range r.conns {
		if out == nil || before(g, out) {
			out = g
		}
	}
	return out, time.Since(out.since)
}

func before(a, b *guest) bool {
	if waits := a.serving == 0; waits != (b.serving == 0) {
		return waits
	}
	return a.since.Before(b.since)
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
	g.since = time.Now()
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
