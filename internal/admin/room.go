// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// servedTime is how long requests are not given up for others, when all connections have some under way of which nothing has been sent.
const servedTime = 500 * time.Millisecond

// sentTime is how long a connection is not given up for others once a request has ended, for its answer is sent behind that, and once a part of an answer has
// been sent.
const sentTime = 100 * time.Millisecond

const (
	// crowdTime is how long a newcomer waits, from its arrival, for a connection that is idle or slow. It is longer than sentTime: such connections go first.
	crowdTime = 2 * sentTime
	// leaveTime is how long the answer under way on the connection that gives way then may take.
	leaveTime = time.Second
)

const (
	// sentBytes are a part of an answer. Who takes less in sentTime reads slowly, however often. What HTTP/2 sends beside answers is less.
	sentBytes = 16 << 10
	// sendBuffer is SO_SNDBUF of a connection in bytes, of which the kernel makes twice as much: what it holds of an answer that nobody reads.
	sendBuffer = 64 << 10
)

// room bounds the connections of a listener. When one more comes than it has place for, one without a request under way, or with an answer
// that is not read, is closed: clients that send nothing, or half a head, or that read slowly, keep nobody out. While all are served, new ones wait for a
// moment; then the one is closed on which nothing has happened for the longest time, such as a stream that nobody speaks on. Where all ask so often
// that no connection is idle for that long, the oldest one gives way: the answer to its next request is its last.
type room struct {
	net.Listener

	mu    sync.Mutex
	left  sync.Cond // a connection has gone or waits again, or the listener is closed
	size  int
	conns map[*guest]struct{}
	last  uint64    // number of the connection that was accepted last
	crowd time.Time // when a newcomer last came in for whom a connection had to give way
	ended bool
}

// guest is one connection. Its fields are the room's.
type guest struct {
	net.Conn
	room    *room
	number  uint64    // one more than that of the connection accepted before
	chosen  time.Time // when it was chosen to give way; zero: it stays
	serving int       // requests under way: more than one with HTTP/2
	since   time.Time // when a request of it began or ended last, or a part of an answer had been sent
	sent    int       // bytes since then: less than a part
	sends   bool      // a part of an answer was sent last
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
	r.makePlace()
	if r.ended {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		// Without it the kernel takes more, and nothing else changes.
		_ = tcp.SetWriteBuffer(sendBuffer)
	}
	r.last++
	g := &guest{Conn: c, room: r, number: r.last, since: time.Now()}
	r.conns[g] = struct{}{}
	return g, nil
}

// makePlace waits until there is place for a newcomer, which has just arrived, or the listener is closed. The caller holds mu.
func (r *room) makePlace() {
	var chosen *guest
	due := r.due(time.Now())
	for len(r.conns) >= r.size && !r.ended {
		now := time.Now()
		g, wait := r.next(now)
		if wait <= 0 {
			delete(r.conns, g)
			// Nobody is left to tell.
			_ = g.Conn.Close()
			continue
		}
		if chosen == nil {
			if !now.Before(due) {
				chosen = r.oldest()
				chosen.chosen = now
				continue
			}
			wait = min(wait, due.Sub(now))
		}
		again := time.AfterFunc(wait, r.look)
		r.left.Wait()
		again.Stop()
	}
	if chosen != nil {
		// Where another has gone meanwhile, it stays.
		r.crowd, chosen.chosen = time.Now(), time.Time{}
	}
}

// due is when a connection has to give way to a newcomer. One that comes soon after another has waited in the kernel meanwhile, and waits no second time.
// The caller holds mu.
func (r *room) due(arrival time.Time) time.Time {
	if arrival.Sub(r.crowd) < crowdTime {
		return arrival
	}
	return arrival.Add(crowdTime)
}

// oldest is the connection that was accepted first. There is one. The caller holds mu.
func (r *room) oldest() (out *guest) {
	for g := range r.conns {
		if out == nil || g.number < out.number {
			out = g
		}
	}
	return out
}

// look has Accept look again. It waits for the lock, and so until Accept waits: a broadcast before that wakes nobody.
func (r *room) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left.Broadcast()
}

// patience is how long nothing has to happen on a connection before it is closed for another. The caller holds the room's mu.
func (g *guest) patience() time.Duration {
	if g.serving > 0 && !g.sends {
		return servedTime
	}
	return sentTime
}

// left is how long a connection is not closed for another. The caller holds the room's mu.
func (g *guest) left(now time.Time) time.Duration {
	left := g.since.Add(g.patience()).Sub(now)
	if !g.chosen.IsZero() {
		left = min(left, g.chosen.Add(leaveTime).Sub(now))
	}
	return max(0, left)
}

// next is the connection to be closed for another, and in which time. At once that may be several: then it is the one on which nothing has happened for the
// longest time, of those without a request under way if there are any. There is one. The caller holds mu.
func (r *room) next(now time.Time) (_ *guest, wait time.Duration) {
	var out *guest
	for g := range r.conns {
		left := g.left(now)
		if out == nil || left < wait || left == wait && before(g, out) {
			out, wait = g, left
		}
	}
	return out, wait
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

// serve counts a request that begins, or with -1 one that has ended. last: the connection gives way behind the answer.
func (g *guest) serve(change int) (last bool) {
	g.room.mu.Lock()
	g.serving += change
	g.since, g.sent, g.sends = time.Now(), 0, false
	last = !g.chosen.IsZero()
	g.room.mu.Unlock()
	g.room.left.Broadcast()
	return last
}

// Write notes each part that the client's side has taken.
func (g *guest) Write(b []byte) (written int, err error) {
	for written < len(b) || written == 0 {
		n, err := g.Conn.Write(b[written:min(len(b), written+sentBytes)])
		written += n
		g.wrote(n)
		if err != nil || len(b) == 0 {
			return written, err
		}
	}
	return written, nil
}

// wrote counts bytes that have been sent.
func (g *guest) wrote(n int) {
	g.room.mu.Lock()
	defer g.room.mu.Unlock()
	if g.sent += n; g.sent >= sentBytes {
		g.since, g.sent, g.sends = time.Now(), 0, true
	}
}

type guestKey struct{}

// connContext is http.Server's.
func (r *room) connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, c)
}

// counted tells the room of requests under way, and clients which answer is the last of their connection: net/http closes it then, and one of HTTP/2 behind
// all answers under way.
func counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g, ok := r.Context().Value(guestKey{}).(*guest); ok {
			if g.serve(1) {
				w.Header().Set("Connection", "close")
			}
			defer g.serve(-1)
		}
		next.ServeHTTP(w, r)
	})
}
