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

// connLimiter bounds the connections of a listener. When one more comes than it may have, one without a request under way, or with an answer
// that is not read, is closed: clients that send nothing, or half a head, or that read slowly, keep nobody out. While all are served, new ones wait for a
// moment; then the one is closed on which nothing has happened for the longest time, such as a stream that nobody speaks on. Where all ask so often
// that no connection is idle for that long, the oldest one gives way: the answer to its next request is its last.
type connLimiter struct {
	net.Listener

	mu    sync.Mutex
	left  sync.Cond // a connection has gone or waits again, or the listener is closed
	size  int
	conns map[*limitedConn]struct{}
	last  uint64    // number of the connection that was accepted last
	crowd time.Time // when a newcomer last came in for whom a connection had to give way
	ended bool
}

// limitedConn is one connection. Its fields are guarded by the limiter's mu.
type limitedConn struct {
	net.Conn
	limiter *connLimiter
	number  uint64    // one more than that of the connection accepted before
	chosen  time.Time // when it was chosen to give way; zero: it stays
	serving int       // requests under way: more than one with HTTP/2
	since   time.Time // when a request of it began or ended last, or a part of an answer had been sent
	sent    int       // bytes since then: less than a part
	sends   bool      // a part of an answer was sent last
}

func newConnLimiter(from net.Listener, size int) *connLimiter {
	l := &connLimiter{Listener: from, size: size, conns: map[*limitedConn]struct{}{}}
	l.left.L = &l.mu
	return l
}

func (l *connLimiter) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.makeSpace()
	if l.ended {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	if socket, ok := conn.(interface{ SetWriteBuffer(bytes int) error }); ok {
		// Without it the kernel takes more, and nothing else changes.
		_ = socket.SetWriteBuffer(sendBuffer)
	}
	l.last++
	c := &limitedConn{Conn: conn, limiter: l, number: l.last, since: time.Now()}
	l.conns[c] = struct{}{}
	return c, nil
}

// makeSpace waits until a newcomer, which has just arrived, may have a connection, or the listener is closed. The caller holds mu.
func (l *connLimiter) makeSpace() {
	var chosen *limitedConn
	due := l.due(time.Now())
	for len(l.conns) >= l.size && !l.ended {
		now := time.Now()
		c, wait := l.next(now)
		if wait <= 0 {
			delete(l.conns, c)
			// Nobody is left to tell.
			_ = c.Conn.Close()
			continue
		}
		if chosen == nil {
			if !now.Before(due) {
				chosen = l.oldest()
				chosen.chosen = now
				continue
			}
			wait = min(wait, due.Sub(now))
		}
		again := time.AfterFunc(wait, l.look)
		l.left.Wait()
		again.Stop()
	}
	if chosen != nil {
		// Where another has gone meanwhile, it stays.
		l.crowd, chosen.chosen = time.Now(), time.Time{}
	}
}

// due is when a connection has to give way to a newcomer. One that comes soon after another has waited in the kernel meanwhile, and waits no second time.
// The caller holds mu.
func (l *connLimiter) due(arrival time.Time) time.Time {
	if arrival.Sub(l.crowd) < crowdTime {
		return arrival
	}
	return arrival.Add(crowdTime)
}

// oldest is the connection that was accepted first. There is one. The caller holds mu.
func (l *connLimiter) oldest() (out *limitedConn) {
	for c := range l.conns {
		if out == nil || c.number < out.number {
			out = c
		}
	}
	return out
}

// look has Accept look again. It waits for the lock, and so until Accept waits: a broadcast before that wakes nobody.
func (l *connLimiter) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left.Broadcast()
}

// patience is how long nothing has to happen on a connection before it is closed for another. The caller holds the limiter's mu.
func (c *limitedConn) patience() time.Duration {
	if c.serving > 0 && !c.sends {
		return servedTime
	}
	return sentTime
}

// left is how long a connection is not closed for another. The caller holds the limiter's mu.
func (c *limitedConn) left(now time.Time) time.Duration {
	left := c.since.Add(c.patience()).Sub(now)
	if !c.chosen.IsZero() {
		left = min(left, c.chosen.Add(leaveTime).Sub(now))
	}
	return max(0, left)
}

// next is the connection to be closed for another, and in which time. At once that may be several: then it is the one on which nothing has happened for the
// longest time, of those without a request under way if there are any. There is one. The caller holds mu.
func (l *connLimiter) next(now time.Time) (_ *limitedConn, wait time.Duration) {
	var out *limitedConn
	for c := range l.conns {
		left := c.left(now)
		if out == nil || left < wait || left == wait && before(c, out) {
			out, wait = c, left
		}
	}
	return out, wait
}

func before(a, b *limitedConn) bool {
	if waits := a.serving == 0; waits != (b.serving == 0) {
		return waits
	}
	return a.since.Before(b.since)
}

func (l *connLimiter) Close() error {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.left.Broadcast()
	return l.Listener.Close()
}

func (c *limitedConn) Close() error {
	c.limiter.mu.Lock()
	delete(c.limiter.conns, c)
	c.limiter.mu.Unlock()
	c.limiter.left.Broadcast()
	return c.Conn.Close()
}

// serve counts a request that begins, or with -1 one that has ended. last: the connection gives way behind the answer.
func (c *limitedConn) serve(change int) (last bool) {
	c.limiter.mu.Lock()
	c.serving += change
	c.since, c.sent, c.sends = time.Now(), 0, false
	last = !c.chosen.IsZero()
	c.limiter.mu.Unlock()
	c.limiter.left.Broadcast()
	return last
}

// Write notes each part that the client's side has taken.
func (c *limitedConn) Write(b []byte) (written int, err error) {
	for written < len(b) || written == 0 {
		n, err := c.Conn.Write(b[written:min(len(b), written+sentBytes)])
		written += n
		c.wrote(n)
		if err != nil || len(b) == 0 {
			return written, err
		}
	}
	return written, nil
}

// wrote counts bytes that have been sent.
func (c *limitedConn) wrote(n int) {
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	if c.sent += n; c.sent >= sentBytes {
		c.since, c.sent, c.sends = time.Now(), 0, true
	}
}

type connKey struct{}

// connContext is http.Server's.
func (l *connLimiter) connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// countRequests reports requests under way to the limiter, and to clients which answer is the last of their connection: net/http closes it then, and one
// of HTTP/2 behind all answers under way.
func countRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*limitedConn); ok {
			if c.serve(1) {
				w.Header().Set("Connection", "close")
			}
			defer c.serve(-1)
		}
		next.ServeHTTP(w, r)
	})
}
